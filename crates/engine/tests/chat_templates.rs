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
    ChatTemplate::new(&case.template, "<s>", "</s>")?.render_at(&messages, case.add_generation_prompt, UNIX_EPOCH + NOW)
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

fn outcome(source: &str) -> Result<String, ChatError> {
    ChatTemplate::new(source, "<s>", "</s>")?.render(&[Message::new("user", "hi")], true)
}

#[test]
fn templates_that_work_too_long_or_grow_too_large_end_at_a_limit() {
    let sources = [
        "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% for j in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}",
        "{{ 'a' * 99999999 }}",
        "{{ 'a' * 3000000 }}",
        "{% set x = 'a' * 100000 %}{% for i in range(1000) %}{{ x }}{% endfor %}",
        "{% set x = 'a' * 100000 %}{{ x.replace('a', x) }}",
        "{% set x = 'a' * 100000 %}{{ ([x] * 100000) | tojson }}",
        "{% set x = 'a' * 100000 %}{{ ([x] * 3000) | tojson(separators=(x, x)) }}",
        "{{ 'a\nb' | indent(999999999) }}",
    ];
    for source in sources {
        match outcome(source) {
            Err(ChatError::Limit(_)) => {}
            other => panic!("{source}: {:?}", other.map(|text| text.len())),
        }
    }
}

#[test]
fn a_list_that_holds_itself_many_times_over_ends_at_the_deadline() {
    let source = "{% set a = ['x'] * 1000 %}{% set a = [a] * 1000 %}{% set a = [a] * 1000 %}\
                  {% set b = ['x'] * 1000 %}{% set b = [b] * 1000 %}{% set b = [b] * 1000 %}{{ a == b }}";
    assert!(matches!(outcome(source), Err(ChatError::Limit(_))), "{:?}", outcome(source));
}

#[test]
fn nesting_without_end_is_an_error_and_not_a_stack_overflow() {
    let deep = [
        "{{ ".to_owned() + &"(".repeat(60_000),
        "{{ ".to_owned() + &"[".repeat(60_000),
        "{% if 1 %}".repeat(6_000),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
    ];
    for source in deep {
        let got = outcome(&source);
        assert!(matches!(got, Err(ChatError::Syntax(_) | ChatError::Render(_))), "{got:?}");
    }
}

#[test]
fn sources_that_are_too_long_are_refused_before_they_are_parsed() {
    for source in ["{#".repeat(40_000), "a\n".repeat(70_000), " ".repeat(1 << 19)] {
        assert!(matches!(ChatTemplate::new(&source, "", ""), Err(ChatError::Limit(_))));
    }
}

#[test]
fn an_error_is_one_line_that_names_the_line_of_the_template() {
    for source in ["a\n{{ 'x' | nonsense }}", "a\n{% endif %}", "a\n{{ 1 // 0 }}", "a\n{{ 'a' + 1 }}"] {
        let message = outcome(source).expect_err("fails").to_string();
        assert!(message.contains("line 2") && !message.contains('\n'), "{message:?}");
    }
    let refused = outcome("{{ raise_exception('no\nsystem') }}").expect_err("fails").to_string();
    assert!(refused.contains("no system"), "{refused:?}");
}
