//! `chat` and `run --chat`, on the embedded model with a chat template put in.

use onetrip_engine::files::{GgufWriter, ModelFile, Value};

use crate::{onetrip, onetrip_with_stdin, tiny};

/// Turns as lines `user: …` and `assistant: …`; a system message comes first.
pub const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}assistant:{% endif %}";

pub fn chat_model(dir: &tempfile::TempDir, template: &str) -> String {
    let file = ModelFile::open(tiny()).expect("the embedded model");
    let mut writer = GgufWriter::new();
    writer.set_all(file.metadata()).set("tokenizer.chat_template", Value::Str(template.into()));
    for t in file.tensors() {
        let number = t.kind.ggml.expect("a type of GGUF");
        writer.tensor(t.name.as_str(), &t.dims, number, file.data(t).to_vec()).expect("a tensor");
    }
    let path = dir.path().join("chat.gguf");
    std::fs::write(&path, writer.to_bytes().expect("bytes")).expect("written");
    path.to_str().expect("UTF-8").to_string()
}

#[test]
fn a_model_without_a_template_says_to_use_run() {
    onetrip(&["chat"]).refused(2, &["tiny", "no chat template", "onetrip run"]);
    onetrip(&["run", "--chat", "hello"]).refused(2, &["no chat template"]);
}

#[test]
fn each_line_of_a_pipe_is_a_turn_and_the_common_beginning_is_not_run_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let args = ["chat", "--model", &model, "-n", "6", "--json", "--system", "Speak."];
    let out = onetrip_with_stdin(&args, b"It is a truth\n\nuniversally acknowledged\n/exit\nnever read\n").json();
    let turns = out["turns"].as_array().expect("a list");
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0]["prompt_reused"], 0);
    let (first, reused) = (turns[0]["prompt"].as_u64().unwrap(), turns[1]["prompt_reused"].as_u64().unwrap());
    assert!(reused + 2 >= first, "of the first turn's {first} tokens {reused} were kept");
    let run = turns[1]["prefill"]["tokens"].as_u64().unwrap();
    assert_eq!(turns[1]["prompt"].as_u64(), Some(reused + run));
}

#[test]
fn a_reset_forgets_and_a_first_turn_is_what_run_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let args = ["chat", "--model", &model, "-n", "6", "--json"];
    let out = onetrip_with_stdin(&args, b"It is a truth\n/reset\nIt is a truth\n").json();
    assert_eq!(out["turns"][0]["tokens"], out["turns"][1]["tokens"]);
    assert_eq!(out["turns"][0]["prompt"], out["turns"][1]["prompt"]);
    let run = onetrip(&["run", "--chat", "It is a truth", "--model", &model, "-n", "6", "--json"]).json();
    assert_eq!(run["tokens"], out["turns"][0]["tokens"]);
}

#[test]
fn a_conversation_that_outgrows_the_context_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let long = "it was a very long word ".repeat(8) + "\n";
    let done = onetrip_with_stdin(&["chat", "--model", &model, "--context", "24"], long.as_bytes());
    done.refused(2, &["context of 24", "/reset", "--context"]);
}

#[test]
fn a_template_that_fails_or_refuses_is_bad_input() {
    let dir = tempfile::tempdir().expect("a folder");
    for (template, word) in [
        ("{% if %}", "syntax"),
        ("{{ raise_exception('system messages are not known') }}", "system messages are not known"),
        ("{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}", "limit"),
    ] {
        let model = chat_model(&dir, template);
        onetrip(&["run", "--chat", "hello", "--model", &model]).refused(2, &[word]);
    }
}

#[test]
fn errors_of_a_template_name_the_model_and_what_to_do() {
    let dir = tempfile::tempdir().expect("a folder");
    for (template, words) in [
        ("  \n", ["chat.gguf", "no chat template", "without --chat"]),
        ("{% if %}", ["chat.gguf", "syntax error in line 1", "without --chat"]),
        ("{{ 1 / 0 }}", ["chat.gguf", "the chat template fails", "mend the template"]),
        ("{{ raise_exception('no system') }}", ["chat.gguf", "no system", "in another way"]),
    ] {
        let model = chat_model(&dir, template);
        onetrip(&["run", "--chat", "hello", "--model", &model]).refused(2, &words);
    }
}

#[test]
fn a_bad_byte_on_stdin_is_counted_from_the_beginning() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let done = onetrip_with_stdin(&["chat", "--model", &model, "-n", "1"], b"/reset\nab\xff\n");
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("stdin: byte 9 is not UTF-8"), "{:?}", done.stderr);
}
