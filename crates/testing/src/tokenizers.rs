//! Tokenizers and chat templates of real models, compared with the results of llama.cpp and of the `tokenizers` package on
//! the same texts.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use onetrip_engine::chat::{ChatTemplate, Message};
use onetrip_engine::files::ModelFile;
use onetrip_engine::tokenizer::{Special, Tokenizer};
use serde_json::Value;

const GOLDENS: &str = include_str!("../reference/tokenizer-goldens.json");

/// A GGUF file: its name in the goldens, its place in the models folder, and the name of its recorded answers.
const GGUF: [(&str, &str, &str); 4] = [
    (
        "qwen2",
        "qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
    ),
    ("smollm", "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct-q4_1"),
    ("gemma3", "gemma-3-270m/gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-q4_k_m"),
    ("stories260K", "data/stories260k/stories260K-f32.gguf", "stories260K-f32"),
];

/// A `tokenizer.json`: its name in the goldens and its place in the models folder.
const JSON: [(&str, &str); 5] = [
    ("stories260K", "data/stories260k/stories260K-hf/tokenizer.json"),
    ("qwen3", "tokenizers/qwen3/tokenizer.json"),
    ("llama3", "tokenizers/llama3/tokenizer.json"),
    ("llama2", "tokenizers/mistral-v1/tokenizer.json"),
    ("gemma3", "tokenizers/gemma3/tokenizer.json"),
];

/// The chat that the recorded answers hold: this question in the model's own template.
const QUESTION: &str = "Write one sentence about the sea.";

/// The tests of all tokenizers; one whose file is not in the folder `models` is there as ignored, named *not run*.
pub fn tests(models: Option<&Path>) -> Vec<Trial> {
    let mut tests = vec![];
    let mut add =
        |name: String, place: &str, test: fn(&str, &Path) -> Result<(), Failed>, key: &'static str| match models
            .map(|models| models.join(place))
            .filter(|path: &PathBuf| path.is_file())
        {
            Some(path) => tests.push(Trial::test(name, move || test(key, &path))),
            None => {
                let name = format!("{name} (not run: no {place})");
                tests.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
            }
        };
    for (key, place, _) in GGUF {
        add(format!("tokenizer/gguf/{key}/goldens"), place, gguf_goldens, key);
        add(format!("tokenizer/gguf/{key}/answers"), place, gguf_answers, key);
    }
    for (key, place) in JSON {
        add(format!("tokenizer/json/{key}/goldens"), place, json_goldens, key);
    }
    tests
}

/// The difficult texts of the goldens.
fn texts(goldens: &Value) -> Result<Vec<&str>, Failed> {
    let texts = goldens["strings"].as_array().ok_or("goldens without strings")?;
    Ok(texts.iter().filter_map(Value::as_str).collect())
}

fn ids(value: &Value) -> Result<Vec<u32>, Failed> {
    let list = value.as_array().ok_or("no list of ids")?;
    list.iter().map(|id| u32::try_from(id.as_u64().ok_or("no id")?).map_err(Failed::from)).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), Failed> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what}:\n   got      {got:?}\n   expected {expected:?}").into())
}

fn gguf_goldens(key: &str, path: &Path) -> Result<(), Failed> {
    let goldens: Value = serde_json::from_str(GOLDENS)?;
    let tokenizer = Tokenizer::from_gguf(ModelFile::open(path)?.metadata())?;
    let texts = texts(&goldens)?;
    let expected = goldens["llama_cpp"][key].as_array().ok_or("no goldens of that name")?;
    equal("number of goldens", &expected.len(), &texts.len())?;
    for (text, expected) in texts.iter().zip(expected) {
        for (field, special) in [("plain", Special::NONE), ("special", Special::PROMPT)] {
            let got = tokenizer.encode(text, special)?;
            equal(&format!("{field} ids of {text:?}"), &got, &ids(&expected[field])?)?;
        }
        let got = tokenizer.decode(&tokenizer.encode(text, Special::NONE)?);
        equal("the text after encoding and decoding", &got.as_str(), text)?;
    }
    Ok(())
}

/// Prompts give the recorded ids, chats the recorded prompts, answers the recorded texts.
fn gguf_answers(key: &str, path: &Path) -> Result<(), Failed> {
    let recorded = GGUF.iter().find(|(name, ..)| *name == key).ok_or("no recorded answers")?.2;
    let recorded = crate::reference::read(recorded)?;
    let tokenizer = Tokenizer::from_gguf(ModelFile::open(path)?.metadata())?;
    let prompts = recorded["prompts"].as_array().ok_or("no prompts")?;
    for case in prompts {
        let prompt = case["prompt"].as_str().ok_or("no prompt")?;
        let got = tokenizer.encode(prompt, Special::PROMPT)?;
        equal(&format!("ids of {prompt:?}"), &got, &ids(&case["prompt_tokens"])?)?;
        let answer = ids(&case["greedy_tokens"])?;
        let text = case["greedy_text"].as_str().ok_or("no text")?;
        equal("the answer's text", &tokenizer.decode_verbatim(&answer).as_str(), &text)?;
        let mut stream = tokenizer.stream();
        let mut shown: String = answer.iter().map(|&id| stream.push(id)).collect();
        shown.push_str(&stream.flush());
        let visible = text.strip_suffix("<|im_end|>").unwrap_or(text);
        equal("the answer as it is streamed", &shown.as_str(), &visible)?;
        if let (Some(source), true) = (tokenizer.chat_template(), case["name"] == "chat") {
            let template = ChatTemplate::new(source, "", "")?;
            let rendered = template.render(&[Message::new("user", QUESTION)], true)?;
            equal("the rendered chat", &rendered.as_str(), &prompt)?;
            let last = answer.last().copied().ok_or("an empty answer")?;
            equal("whether the answer's last token ends it", &tokenizer.is_end(last), &true)?;
        }
    }
    if prompts.is_empty() { Err("no prompts were compared".into()) } else { Ok(()) }
}

fn json_goldens(key: &str, path: &Path) -> Result<(), Failed> {
    let goldens: Value = serde_json::from_str(GOLDENS)?;
    let tokenizer = Tokenizer::from_json_file(path)?;
    let texts = texts(&goldens)?;
    let expected = goldens["hf_tokenizers"][key].as_array().ok_or("no goldens of that name")?;
    equal("number of goldens", &expected.len(), &texts.len())?;
    for (text, expected) in texts.iter().zip(expected) {
        equal(&format!("ids of {text:?}"), &tokenizer.encode(text, Special::TEMPLATE)?, &ids(expected)?)?;
    }
    Ok(())
}
