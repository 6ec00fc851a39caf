//! The binary as a user meets it: what it prints, where, and with which exit code. All on the embedded model.

mod args;
mod bad_input;
mod chat;
mod gates;
mod json;
mod listings;
mod predict;
#[cfg(unix)]
mod pty;
mod schemas;
#[cfg(unix)]
mod talk;
mod terminal;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a run of the binary did.
#[derive(Debug)]
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Done {
    fn of(output: Output) -> Done {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
        Done { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The one JSON object that is all of stdout.
    #[track_caller]
    fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(self.stdout.lines().count(), 1, "one line: {:?}", self.stdout);
        let value: serde_json::Value = serde_json::from_str(&self.stdout).expect("stdout is JSON");
        assert!(value.is_object());
        value
    }

    /// Asserts a refusal: this exit code, nothing on stdout, one line on stderr with all of these words.
    #[track_caller]
    fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.stdout, "");
        self.failed(code, words);
    }

    /// As [`Done::refused`] of a command with `--json`: an object on stdout says what stderr says. Gives the object.
    #[track_caller]
    fn refused_json(&self, code: i32, words: &[&str]) -> serde_json::Value {
        self.failed(code, words);
        assert_eq!(self.stdout.lines().count(), 1, "one line: {:?}", self.stdout);
        let value: serde_json::Value = serde_json::from_str(&self.stdout).expect("stdout is JSON");
        schemas::holds("error", &value);
        assert_eq!(value["exit_code"], code);
        let error = value["error"].as_str().expect("a text");
        assert_eq!(self.stderr.lines().last(), Some(format!("onetrip: {error}").as_str()));
        value
    }

    #[track_caller]
    fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "stdout {:?} stderr {:?}", self.stdout, self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "one line: {:?}", self.stderr);
        assert!(self.stderr.starts_with("onetrip: "), "{:?}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {:?}", self.stderr);
        }
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onetrip"));
    // A layer of Mesa's Vulkan drivers talks on stderr where there is no desktop; this keeps it out.
    command.env("NODEVICE_SELECT", "1");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary with nothing on stdin.
fn onetrip(args: &[&str]) -> Done {
    Done::of(command(args).output().expect("the binary starts"))
}

/// Runs the binary with these bytes on stdin.
fn onetrip_with_stdin(args: &[&str], stdin: &[u8]) -> Done {
    let mut child = command(args).stdin(Stdio::piped()).spawn().expect("the binary starts");
    // A program that refuses its flags does not read stdin: then the pipe is closed.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin);
    Done::of(child.wait_with_output().expect("the binary ends"))
}

/// This machine has an adapter for `--device wgpu`.
fn has_gpu() -> bool {
    let devices = onetrip(&["devices", "--json"]).json();
    let is_gpu = |d: &serde_json::Value| d["name"].as_str().is_some_and(|n| n.starts_with("wgpu:"));
    devices["devices"].as_array().is_some_and(|all| all.iter().any(is_gpu))
}

/// Path of the embedded model's file in the repository.
fn tiny() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/tiny.gguf")
}

#[test]
fn every_command_has_a_help_text_and_the_list_names_them() {
    let commands = [
        "run",
        "chat",
        "explain",
        "count",
        "calibrate",
        "profile",
        "bench",
        "ppl",
        "tokenize",
        "inspect",
        "devices",
        "selftest",
    ];
    let all = onetrip(&["--help"]);
    assert_eq!(all.code, Some(0));
    for name in commands {
        assert!(all.stdout.contains(&format!("\n  {name} ")), "{name} is not in the list");
        let help = onetrip(&[name, "--help"]);
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Usage: onetrip ") && help.stdout.contains("--json"), "{name}: {}", help.stdout);
    }
}

/// The flags of a help text, from their long names on, each with its text as one line.
fn flags(help: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = vec![];
    for line in help.lines() {
        let (text, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        match (text.find("--"), all.last_mut()) {
            // Flags stand at the left; what is further to the right goes on with the one above.
            (Some(at), _) if text.starts_with('-') && indent < 8 => {
                let (flag, help) = text[at..].split_once("  ").unwrap_or((&text[at..], ""));
                all.push((flag.trim().into(), help.trim().into()));
            }
            (_, Some((_, help))) if indent >= 8 => *help = format!("{help} {text}").trim().into(),
            _ => {}
        }
    }
    all
}

#[test]
fn a_flag_has_the_same_help_everywhere() {
    use std::collections::HashMap;
    let mut seen: HashMap<String, (String, String)> = HashMap::new();
    for name in ["run", "chat", "explain", "count", "profile", "bench", "ppl", "tokenize"] {
        for (flag, help) in flags(&onetrip(&[name, "--help"]).stdout) {
            let is_shared = [
                "--model",
                "--device",
                "--commit",
                "--encode-thread",
                "--threads",
                "--weights",
                "--compute",
                "--cache",
                "--fuse",
                "--seed",
                "--json",
            ]
            .contains(&flag.split(' ').next().unwrap_or(""));
            if is_shared {
                let (first, text) = seen.entry(flag.clone()).or_insert_with(|| (name.into(), help.clone()));
                assert_eq!(*text, help, "{flag} of {first} and of {name}");
            }
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

#[test]
fn the_program_alone_shows_its_commands_and_exits_with_2() {
    let done = onetrip(&[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    assert!(done.stderr.contains("Commands:"));
}

#[test]
fn run_prints_the_text_on_stdout_and_one_line_of_figures_on_stderr() {
    let done = onetrip(&["run", "It is a truth", "-n", "12"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.trim().len() > 10 && done.stdout.ends_with('\n'), "{:?}", done.stdout);
    assert_eq!(done.stderr.lines().count(), 1);
    for word in ["tokens · prefill ", " · decode ", " tok/s · ", " dispatches/tick"] {
        assert!(done.stderr.contains(word), "{:?}", done.stderr);
    }
}

#[test]
fn a_prompt_on_stdin_is_the_same_as_an_argument() {
    let argument = onetrip(&["run", "It is a truth", "-n", "8"]);
    let dash = onetrip_with_stdin(&["run", "-", "-n", "8"], b"It is a truth\n");
    let missing = onetrip_with_stdin(&["run", "-n", "8"], b"It is a truth");
    assert_eq!(argument.stdout, dash.stdout);
    assert_eq!(argument.stdout, missing.stdout);
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_seed_another() {
    let run = |seed: &str| onetrip(&["run", "It is a truth", "-n", "24", "--temperature", "1", "--seed", seed]).stdout;
    assert_eq!(run("1"), run("1"));
    let texts: std::collections::HashSet<String> = ["1", "2", "3", "4"].map(run).into_iter().collect();
    assert!(texts.len() > 1, "four seeds, one text: {texts:?}");
}

#[test]
fn explain_prints_one_row_a_dispatch_then_rules_and_ledger() {
    let done = onetrip(&["explain"]);
    assert_eq!(done.code, Some(0));
    let json = onetrip(&["explain", "--json"]).json();
    for dispatch in json["dispatches"].as_array().expect("a list") {
        assert!(done.stdout.contains(dispatch["name"].as_str().expect("a name")), "{dispatch}");
    }
    assert!(done.stdout.contains("\nrule ") && done.stdout.contains("\nbytes "));
}

#[test]
fn devices_says_why_a_device_is_not_there() {
    let done = onetrip(&["devices"]);
    let there = done.stdout.contains("multiprocessors");
    assert!(
        done.stdout.contains("cpu ") && (there || done.stdout.contains("is missing: looked for")),
        "{}",
        done.stdout
    );
}

#[test]
fn tokens_decode_to_the_text_they_came_from() {
    let ids = onetrip(&["tokenize", "It is a truth", "--plain", "--json"]).json();
    let list: Vec<String> = ids["tokens"].as_array().expect("ids").iter().map(|id| id.to_string()).collect();
    assert_eq!(onetrip(&["tokenize", "--decode", &list.join(",")]).stdout, "It is a truth\n");
    assert_eq!(ids["pieces"].as_array().map(Vec::len), Some(list.len()));
}
