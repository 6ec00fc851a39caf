//! Chat templates against the texts that Python's Jinja2 made of them (`chat/make_cases.py`).

use std::time::{Duration, UNIX_EPOCH};

use onetrip_engine::chat::{ChatError, ChatTemplate, Message};

/// The moment the cases were made for: 2026-01-15 12:34:56 UTC.
const NOW: Duration = Duration::from_secs(1_768_480_496);

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    template: String,
    messages: Vec<Turn>,
    add_generation_prompt: bool,
    expected: Option<String>,
    refused: Option<String>,
}

#[derive(serde::Deserialize)]
struct Turn {
    role: String,
    content: String,
}

fn render(case: &Case) -> Result<String, ChatError> {
    let messages: Vec<Message> = case.messages.iter().map(|t| Message::new(&t.role, &t.content)).collect();
    ChatTemplate::new(&case.template, "<s>", "</s>")?.render_at(
        &messages,
        case.add_generation_prompt,
        UNIX_EPOCH + NOW,
    )
}

fn differences(cases: &[Case]) -> Vec<String> {
    let mut out = Vec::new();
    for case in cases {
        let got = render(case);
        let same = match (&got, &case.expected, &case.refused) {
            (Ok(text), Some(expected), _) => text == expected,
            (Err(ChatError::Refused(message)), None, Some(expected)) => message == expected,
            (Err(ChatError::Syntax(_) | ChatError::Render(_)), None, None) => true,
            _ => false,
        };
        if !same {
            let expected = (&case.expected, &case.refused);
            out.push(format!("{}\n   got      {got:?}\n   expected {expected:?}", case.name));
        }
    }
    out
}

#[test]
fn templates_give_the_text_that_jinja2_gives() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("chat/cases.json")).expect("cases.json parses");
    assert!(cases.len() > 70, "only {} cases", cases.len());
    let differences = differences(&cases);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
