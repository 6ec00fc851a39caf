//! The command line as newcomers type it: where the model stands, flags of other programs, and what an error looks like to
//! people and to programs.

use serde_json::Value;

use crate::chat::{TEMPLATE, chat_model};
use crate::schemas::holds;
use crate::{Done, onetrip, onetrip_with_stdin, tiny};

/// A folder with the embedded model's file in it, under this name.
fn model(name: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::copy(tiny(), &path).expect("copied");
    let path = path.to_str().expect("UTF-8").to_string();
    (dir, path)
}

/// The JSON objects on stdout, one a line.
#[track_caller]
fn lines(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

#[test]
fn a_model_in_the_place_of_the_first_argument_is_the_model_of_every_command() {
    let (dir, path) = model("m.gguf");
    let commands: [&[&str]; 10] = [
        &["explain"],
        &["count"],
        &["profile", "--repeat", "5", "--context", "8"],
        &["bench", "--prompt", "2", "--gen", "1", "--repeat", "1"],
        &["ppl", "--tokens", "1,2,3"],
        &["inspect"],
        &["tokenize", "--decode", "5"],
        &["selftest", "--replays", "1", "--threads", "1"],
        &["run", "--tokens", "1", "-n", "1"],
        &["run", "-n", "1"],
    ];
    for args in commands {
        let done = onetrip_with_stdin(&[&[args[0], &path], &args[1..], &["--json"]].concat(), b"It is");
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        // What a report says of the model, the keys of which differ by command.
        let named = done.json();
        let named = [&named["model"], &named["file"]].into_iter().find(|v| v.is_string());
        assert!(named.is_none_or(|name| name == path.as_str()), "{args:?}: {named:?}");
        let twice = [&[args[0], &path], &args[1..], &["--model", "tiny"]].concat();
        onetrip(&twice).refused(2, &["twice", "m.gguf", "--model tiny"]);
    }
    let chat = chat_model(&dir, TEMPLATE);
    assert_eq!(onetrip_with_stdin(&["chat", &chat, "-n", "2"], b"It is a truth\n").code, Some(0));
    onetrip(&["chat", &chat, "--model", "tiny"]).refused(2, &["twice"]);
    assert_eq!(onetrip(&["explain", "shape:smollm2-135m:q4_1"]).code, Some(0));
}

#[test]
fn a_model_and_a_text_are_told_apart() {
    let (_dir, path) = model("m.gguf");
    let by_flag = onetrip(&["run", "It is a truth", "--model", &path, "-n", "4"]);
    assert_eq!(by_flag.code, Some(0), "{}", by_flag.stderr);
    assert_eq!(onetrip(&["run", &path, "It is a truth", "-n", "4"]).stdout, by_flag.stdout);
    assert_eq!(onetrip(&["run", "tiny", "It is a truth", "-n", "4"]).stdout, by_flag.stdout);
    assert_eq!(onetrip(&["run", "It is a truth", "-n", "4"]).stdout, by_flag.stdout);
    assert_eq!(onetrip_with_stdin(&["run", &path, "-n", "4"], b"It is a truth\n").stdout, by_flag.stdout);
    assert_eq!(onetrip_with_stdin(&["run", &path, "-", "-n", "4"], b"It is a truth").stdout, by_flag.stdout);
    assert_eq!(onetrip(&["tokenize", &path, "It is"]).stdout, onetrip(&["tokenize", "It is"]).stdout);
    // By what the file holds, whatever it is called.
    let (_dir, plain) = model("weights.bin");
    assert_eq!(onetrip(&["run", &plain, "It is a truth", "-n", "4"]).stdout, by_flag.stdout);
    onetrip(&["run", &path, "x", "--tokens", "1"]).refused(2, &["--tokens", "PROMPT"]);
    onetrip(&["tokenize", "x", "--decode", "1"]).refused(2, &["--decode", "TEXT"]);
}

#[test]
fn a_folder_with_a_configuration_is_a_model_and_any_other_folder_is_a_text() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("UTF-8");
    assert_eq!(onetrip(&["tokenize", path]).code, Some(0), "a text");
    std::fs::write(dir.path().join("config.json"), "{}").expect("written");
    onetrip(&["run", path, "hi"]).refused(2, &[path, "no *.safetensors"]);
}

#[test]
fn a_model_that_is_not_there_is_said_to_be_missing() {
    for args in
        [&["run", "no/such.gguf", "hi"][..], &["run", "such.gguf"], &["chat", "such.gguf"], &["bench", "such.gguf"]]
    {
        onetrip(args).refused(2, &["such.gguf: there is no such file"]);
    }
}

#[test]
fn words_without_quotes_say_that_a_text_is_one_argument() {
    onetrip(&["run", "It", "is"]).refused(2, &["`It` is no model", "in quotes"]);
    onetrip(&["run", "It", "is", "a", "truth"]).refused(2, &["in quotes", "onetrip run MODEL.gguf"]);
    onetrip(&["tokenize", "It", "is", "a"]).refused(2, &["in quotes", "onetrip tokenize MODEL.gguf"]);
}

#[cfg(unix)]
#[test]
fn a_model_without_a_text_on_a_terminal_names_chat() {
    let (_dir, path) = model("m.gguf");
    let screen = crate::pty::on_terminal(120, &["run", &path]);
    let text = screen.lines.concat();
    assert_eq!(screen.code, Some(2), "{text}");
    assert!(text.contains(&format!("onetrip run {path} \"It is a truth\"")), "{text}");
    assert!(text.contains(&format!("onetrip chat {path}")), "{text}");
}

/// Characters of the longest line that a command writes on a terminal of this width, before the terminal breaks it.
#[cfg(unix)]
#[track_caller]
fn widest(columns: u16, args: &[&str]) -> usize {
    let screen = crate::pty::on_terminal(columns, args);
    assert_eq!(screen.code, Some(0), "{}", screen.text());
    // Control sequences for bold and underlined are no characters.
    let written = String::from_utf8(screen.bytes).expect("UTF-8");
    let mut visible = String::new();
    let mut parts = written.split("\x1b[");
    visible.push_str(parts.next().unwrap_or_default());
    parts.for_each(|part| visible.push_str(part.split_once('m').expect("a colour").1));
    visible.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(unix)]
#[test]
fn every_help_text_fits_the_terminal() {
    let program = onetrip(&["--help"]).stdout;
    let commands = program.split("Commands:\n").nth(1).expect("commands").lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"bench") && names.contains(&"calibrate"));
    for name in names.into_iter().filter(|name| *name != "help") {
        let widest = widest(80, &[name, "--help"]);
        // The text uses the width that there is.
        assert!((60..=80).contains(&widest) || name == "devices", "{name}: {widest}");
    }
    assert!(widest(80, &["--help"]) <= 80);
    assert!((81..=100).contains(&widest(120, &["run", "--help"])));
}

#[test]
fn flags_of_llama_cpp_that_mean_the_same_are_ours() {
    let ours = onetrip(&[
        "run",
        "It is a truth",
        "-n",
        "4",
        "--context",
        "32",
        "--temperature",
        "0.5",
        "--seed",
        "3",
        "--json",
    ]);
    let llama = onetrip(&[
        "run",
        "It is a truth",
        "--n-predict",
        "4",
        "-c",
        "32",
        "--temp",
        "0.5",
        "-s",
        "3",
        "-t",
        "1",
        "--json",
    ]);
    assert_eq!(llama.json()["text"], ours.json()["text"]);
    onetrip(&["run", "x", "--ctx-size", "0"]).refused(2, &["--context", "at least 1"]);
    let bench = onetrip(&["bench", "-p", "2", "-n", "1", "-r", "2", "-t", "1", "--json"]).json();
    assert_eq!([&bench["prompt"], &bench["gen"], &bench["repeat"], &bench["threads"]], [2, 1, 2, 1]);
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("text.txt");
    std::fs::write(&file, "It is a truth").expect("written");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(
        onetrip(&["ppl", "-f", file, "-c", "16"]).stdout,
        onetrip(&["ppl", "--text", file, "--context", "16"]).stdout
    );
}

#[test]
fn other_flags_of_llama_cpp_and_ollama_are_answered_with_ours_by_name() {
    let cases: [(&[&str], &[&str]); 12] = [
        (&["run", "x", "-ngl", "99"], &["llama.cpp's -ngl ", "--device cuda"]),
        (&["bench", "--n-gpu-layers=99"], &["llama.cpp's --n-gpu-layers ", "--device cuda"]),
        (&["run", "m.gguf", "-p", "hi"], &["llama.cpp's -p ", "onetrip run MODEL.gguf \"TEXT\""]),
        (&["run", "m.gguf", "-f", "a.txt"], &["-f ", "< FILE"]),
        (&["run", "x", "-b", "512"], &["-b ", "leave"]),
        (&["run", "x", "-ctk", "q8_0"], &["-ctk ", "--cache TYPE"]),
        (&["run", "x", "-fa", "1"], &["-fa "]),
        (&["chat", "m.gguf", "-sys", "Be brief."], &["-sys ", "--system"]),
        (&["chat", "-cnv"], &["-cnv "]),
        (&["explain", "-c", "512"], &["-c ", "--context L"]),
        (&["run", "x", "--num-ctx", "512"], &["ollama's --num-ctx ", "--context"]),
        (&["run", "-hf", "x/y"], &["-hf ", "download"]),
    ];
    for (args, words) in cases {
        let done = onetrip(args);
        done.refused(2, words);
        assert!(done.stderr.ends_with("(see --help)\n"), "{}", done.stderr);
    }
    onetrip(&["pull", "llama3.2"]).refused(2, &["no command `pull`: ", "onetrip chat MODEL.gguf"]);
    onetrip(&["show", "m.gguf"]).refused(2, &["onetrip inspect MODEL.gguf"]);
}

#[test]
fn errors_of_several_lines_are_one_sentence_with_its_punctuation() {
    onetrip(&["run", "x", "--temperatur", "1"])
        .refused(2, &["'--temperatur' found; a similar argument exists: '--temperature' (see --help)"]);
    onetrip(&["explain", "--phase", "lunch"]).refused(2, &["; possible values are decode, prefill (see --help)"]);
    // Names of other programs are no suggestion.
    onetrip(&["run", "x", "--ctx", "1"]).refused(2, &["a similar argument exists: '--context'"]);
    onetrip(&["explian"]).refused(2, &["'explian'; a similar subcommand exists: 'explain' (see --help)"]);
    let dir = tempfile::tempdir().expect("a folder");
    let profile = dir.path().join("bad.toml");
    std::fs::write(&profile, "version = 2\nname = \n").expect("written");
    let done = onetrip(&["explain", "--hardware", profile.to_str().expect("UTF-8")]);
    done.refused(2, &["bad.toml"]);
    assert!(!done.stderr.contains(" | ") && !done.stderr.contains('^'), "{}", done.stderr);
}

#[test]
fn a_run_of_no_token_runs_and_times_the_prompt() {
    let done = onetrip(&["run", "It is a truth universally acknowledged", "-n", "0", "--json"]).json();
    assert_eq!(
        (&done["tokens"], &done["text"], &done["stopped"]),
        (&Value::Array(vec![]), &"".into(), &"length".into())
    );
    let prompt = done["prompt_tokens"].as_array().expect("ids").len();
    assert_eq!(done["prefill"]["tokens"], prompt);
    // A step of the model takes longer than a look at the clock.
    assert!(done["prefill"]["ms"].as_f64() > Some(0.01) && done["prefill"]["tok_s"].is_number(), "{done}");
    assert_eq!((&done["decode"]["tokens"], &done["decode"]["tok_s"]), (&0.into(), &Value::Null));
    let text = onetrip(&["run", "It is a truth universally acknowledged", "-n", "0"]);
    assert_eq!((text.code, text.stdout.as_str()), (Some(0), ""));
    assert!(text.stderr.starts_with("0 tokens · prefill "), "{}", text.stderr);
    assert!(
        text.stderr.contains(&format!(" for {prompt} tokens, ")) && !text.stderr.contains("decode"),
        "{}",
        text.stderr
    );
}

#[test]
fn an_empty_stop_text_is_refused_by_name() {
    for command in ["run", "chat"] {
        onetrip(&[command, "--stop", ""]).refused(2, &["--stop", "empty"]);
    }
}

#[test]
fn more_threads_than_processors_are_noted_with_the_cure() {
    let processors = std::thread::available_parallelism().expect("a number").get();
    let run = |threads: usize| onetrip(&["run", "x", "-n", "1", "--threads", &threads.to_string()]);
    let (many, all) = (run(processors + 1), run(processors));
    let words =
        [format!("--threads {}", processors + 1), format!(" on {processors} processors"), "leave it out".into()];
    let note = many.stderr.lines().find(|line| line.starts_with("note: ")).expect("a note");
    assert!(words.iter().all(|word| note.contains(word)), "{note}");
    assert_eq!((many.code, many.stdout), (Some(0), all.stdout));
    assert!(!all.stderr.contains("note: "), "{}", all.stderr);
}

#[test]
fn what_a_download_left_in_the_place_of_a_model_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_string()
    };
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n";
    let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n";
    for name in ["a.gguf", "a.safetensors"] {
        let file = write(name, pointer);
        onetrip(&["run", &file, "x"]).refused(2, &[name, "Git LFS pointer", "git lfs pull"]);
        let file = write(name, page);
        onetrip(&["run", "x", "--model", &file]).refused(2, &[name, "web page", "download the file again"]);
    }
    // In a folder each file may be one.
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = tempfile::tempdir_in(&dir).expect("a folder");
        let put = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).expect("written");
        put("config.json", b"{}");
        put("model.safetensors", &[&2u64.to_le_bytes()[..], b"{}"].concat());
        put(name, pointer.as_bytes());
        let done = onetrip(&["tokenize", "x", "--model", folder.path().to_str().expect("UTF-8")]);
        done.refused(2, &[name, "git lfs pull"]);
    }
}

#[test]
fn a_benchmark_says_what_was_measured_with_what() {
    let (_dir, path) = model("m.gguf");
    let args = ["bench", &path, "--prompt", "2", "--gen", "1", "--repeat", "1", "--weights", "f32"];
    let done = onetrip(&args);
    let json = onetrip(&[&args[..], &["--json"]].concat()).json();
    holds("bench", &json);
    let text = |key: &str| json[key].as_str().unwrap_or_else(|| panic!("no text {key} in {json}"));
    assert_eq!((text("model"), text("weights")), (path.as_str(), "f32"));
    for key in ["model", "format", "device", "machine", "date", "program_version"] {
        assert!(
            !text(key).is_empty() && done.stdout.contains(text(key)),
            "no {key} ({}) in {}",
            text(key),
            done.stdout
        );
    }
    assert!(done.stdout.contains("converted to f32"), "{}", done.stdout);
    let types = onetrip(&["inspect", &path, "--json"]).json()["types"].clone();
    let types: Vec<&str> = types.as_array().expect("types").iter().filter_map(|t| t["type"].as_str()).collect();
    assert_eq!(text("format"), types.join(", "));
}

#[cfg(unix)]
#[test]
fn what_a_benchmark_prints_fits_80_columns() {
    let screen = crate::pty::fits_80_columns(&["bench", "--prompt", "2", "--gen", "1", "--repeat", "1"]);
    assert!(screen.text().contains("\nprogram  onetrip "), "{}", screen.text());
}

#[test]
fn a_gate_names_its_model_without_the_folder_of_this_machine() {
    let (dir, path) = model("m.gguf");
    let gate = dir.path().join("gate.json").to_str().expect("UTF-8").to_string();
    assert_eq!(onetrip(&["count", &path, "--write-gate", &gate]).code, Some(0));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&gate).expect("a gate")).expect("JSON");
    assert_eq!(written["model"], "m.gguf");
    assert_eq!(onetrip(&["count", &path, "--gate", &gate]).stderr, "", "the same model, wherever it lies");
    onetrip(&["count", "--gate", &gate]).refused(2, &["gate.json", "m.gguf", "--model"]);
    // One from before, with the whole path.
    let mut older = written;
    older["model"] = path.as_str().into();
    std::fs::write(&gate, older.to_string()).expect("written");
    let done = onetrip(&["count", "--gate", &gate]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    onetrip(&["count", "--write-gate", &path]).refused(2, &["m.gguf", "that is a model"]);
    assert!(std::fs::read(&path).expect("the model").starts_with(b"GGUF"));
}

#[test]
fn an_error_with_json_is_an_object_of_the_same_words() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["run", "such.gguf", "x"], 2, "input"),
        (&["explain", "--model", "such.gguf"], 2, "input"),
        (&["run", "x", "--no-such-flag"], 2, "usage"),
        (&["run", "x", "-ngl", "99"], 2, "usage"),
        (&["run", "It", "is"], 2, "usage"),
        (&["bench", "--seed"], 2, "usage"),
        (&["frobnicate"], 2, "usage"),
        (&["count", "tiny", "--write-gate", "no/such/gate.json"], 2, "input"),
    ];
    for (args, code, kind) in cases {
        assert_eq!(onetrip(&[args, &["--json"]].concat()).refused_json(code, &[])["kind"], kind, "{args:?}");
        assert_eq!(onetrip(&[&["--json"], args].concat()).refused_json(code, &[])["kind"], kind, "{args:?}");
        onetrip(args).refused(code, &[]);
    }
    // Behind two dashes it is a text.
    onetrip(&["run", "--no-such-flag", "--", "--json"]).refused(2, &["--no-such-flag"]);
    let alone = onetrip(&["--json"]);
    assert_eq!(alone.code, Some(2));
    let value: Value = serde_json::from_str(&alone.stdout).expect("JSON");
    holds("error", &value);
}

#[test]
fn work_that_fails_with_json_is_an_object_too_and_only_one() {
    let damaged = damaged();
    let path = damaged.path().to_str().expect("UTF-8");
    let value = onetrip(&["ppl", path, "--tokens", "1,2,3", "--json"]).refused_json(1, &["not finite"]);
    assert_eq!(value["kind"], "work");
    let run = onetrip(&["run", path, "--tokens", "1,2,3", "-n", "4", "--json"]);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(1), 1), "{}", run.stdout);
    holds("run", &lines(&run)[0]);
    assert_eq!((&lines(&run)[0]["kind"], &lines(&run)[0]["exit_code"]), (&"work".into(), &1.into()));
    let lines = lines(&onetrip(&["run", path, "--tokens", "1,2,3", "-n", "4", "--json-lines"]));
    holds("run", lines.last().expect("a line"));
    assert!(lines.last().is_some_and(|last| last["error"].is_string()));
}

/// A model no logit of which is finite: the last half of its file is weights and nothing else.
fn damaged() -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(tiny()).expect("the embedded model");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

/// Asserts that these are lines of tokens with a report behind them whose text they make, and gives the report.
#[track_caller]
fn streamed<'a>(name: &str, lines: &'a [Value]) -> &'a Value {
    let (last, tokens) = lines.split_last().expect("a line");
    lines.iter().for_each(|line| holds(name, line));
    assert!(lines.iter().all(|line| line["version"] == 1), "{lines:?}");
    let text: String = tokens.iter().map(|line| line["text"].as_str().expect("a text")).collect();
    assert_eq!(last["text"], text);
    let mut ids: Vec<&Value> = tokens.iter().map(|line| &line["token"]).collect();
    let all = last["tokens"].as_array().expect("ids");
    // The rest of a text may come with its last token once more.
    ids.truncate(all.len());
    assert_eq!(ids, all.iter().collect::<Vec<_>>());
    assert!(last["stopped"].is_string());
    last
}

#[test]
fn json_lines_are_a_token_each_and_the_report_behind_them() {
    let args = ["run", "It is a truth", "-n", "6", "--ignore-eos"];
    let done = onetrip(&[&args[..], &["--json-lines"]].concat());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let lines = lines(&done);
    assert!(lines.len() >= 7, "{lines:?}");
    let whole = onetrip(&[&args[..], &["--json"]].concat()).json();
    let last = streamed("run", &lines);
    for key in ["prompt_tokens", "tokens", "text", "stopped", "ledger"] {
        assert_eq!(last[key], whole[key], "{key}");
    }
    onetrip(&["run", "x", "--json-lines", "--json"]).refused_json(2, &["--json-lines", "--json"]);
    onetrip(&["run", "such.gguf", "x", "--json-lines"]).refused_json(2, &["such.gguf"]);
    onetrip(&["explain", "--json-lines"]).refused_json(2, &["--json-lines"]);
}

#[test]
fn json_lines_come_while_the_text_is_made() {
    use std::io::{BufRead, BufReader};
    let args = ["run", "It is a truth", "-n", "100000", "--ignore-eos", "--context", "100000", "--json-lines"];
    let mut child = crate::command(&args).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..3 {
        let line = lines.next().expect("a line").expect("text");
        holds("run", &serde_json::from_str(&line).expect("JSON"));
    }
    // It has not ended: nobody reads any more, and it says nothing.
    drop(lines);
    assert_eq!(child.wait().expect("the binary ends").code(), Some(141));
}

#[test]
fn a_chat_in_json_lines_has_a_report_behind_each_answer() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let stdin = b"It is a truth\nuniversally acknowledged\n";
    let done = onetrip_with_stdin(&["chat", &model, "-n", "4", "--json-lines"], stdin);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let lines = lines(&done);
    let turns: Vec<&[Value]> = lines.split_inclusive(|line| line["user"].is_string()).collect();
    assert_eq!(turns.len(), 2, "{lines:?}");
    let whole = onetrip_with_stdin(&["chat", &model, "-n", "4", "--json"], stdin).json();
    for (turn, of_whole) in turns.iter().zip(whole["turns"].as_array().expect("turns")) {
        assert!(turn.len() > 1);
        let report = streamed("chat", turn);
        for key in ["user", "text", "tokens", "prompt", "stopped"] {
            assert_eq!(report[key], of_whole[key], "{key}");
        }
    }
    // An error is the last line.
    let long = "it was a very long word ".repeat(8);
    let done = onetrip_with_stdin(
        &["chat", &model, "-n", "2", "--context", "24", "--json-lines"],
        format!("x\n{long}\n").as_bytes(),
    );
    assert_eq!(done.code, Some(2));
    let lines = self::lines(&done);
    holds("error", lines.last().expect("a line"));
    assert!(lines.len() > 1, "{lines:?}");
}

#[cfg(unix)]
#[test]
fn a_text_may_be_typed_on_a_terminal() {
    let mut terminal = crate::pty::Terminal::start(80, &["run", "-", "-n", "4"]);
    // The first Ctrl-D passes the line on, the second ends the text.
    terminal.send("It is a truth\x04\x04");
    let screen = terminal.end();
    assert_eq!(screen.code, Some(0), "{}", screen.text());
    let text = onetrip(&["run", "It is a truth", "-n", "4"]).stdout;
    assert!(screen.text().contains(text.trim_end()), "no {text:?} in {}", screen.text());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_json_lines_with_the_report() {
    let args = ["run", "It is a truth", "-n", "100000", "--ignore-eos", "--context", "100000", "--json-lines"];
    let mut terminal = crate::pty::Terminal::start(120, &args);
    terminal.wait_for("\"token\"");
    terminal.interrupt();
    let screen = terminal.end();
    assert_eq!(screen.code, Some(130));
    let written = String::from_utf8_lossy(&screen.bytes);
    let last = written.lines().last().expect("a line");
    holds("run", &serde_json::from_str(last).expect("JSON"));
    assert!(last.contains("\"stopped\":\"interrupted\""), "{last}");
}
