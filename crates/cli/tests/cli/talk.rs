//! `chat` as a person has it on a terminal, and what a pipe gets of it.

use std::process::{Command, Stdio};

use crate::chat::{TEMPLATE, chat_model};
use crate::pty::Terminal;
use crate::{command, onetrip_with_stdin};

/// Starts a conversation with a cache folder of its own.
fn talk(columns: u16, dir: &tempfile::TempDir, n: &str) -> Terminal {
    let model = chat_model(dir, TEMPLATE);
    let cache = dir.path().join("cache");
    let args = ["chat", &model, "-n", n, "--temperature", "0"];
    let mut terminal = Terminal::start_with(columns, &args, |command| {
        command.env("ONETRIP_CACHE", cache);
    });
    terminal.wait_for("/help lists commands");
    terminal.wait_for_prompt();
    terminal
}

#[test]
fn every_command_answers_and_the_list_names_all_of_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let saved = dir.path().join("talk.json");
    let mut terminal = talk(100, &dir, "24");
    for (line, answer) in [
        ("/help", "/regen"),
        ("/regen", "there is no question yet"),
        ("It is a truth", " positions)"),
        ("/stats", "1 turn; last answer: "),
        ("/regen", "the answer stays the same"),
        ("/system Speak.", "with this system message"),
        ("/reset", "(the conversation begins anew)"),
        ("/save", "give a file: /save FILE"),
        ("/resett", "did you mean /reset?"),
        ("/load no/such.json", "cannot read no/such.json"),
        ("/model no/such.gguf", "the model stays the same"),
    ] {
        // What is typed before the prompt is there may be lost.
        terminal.wait_for_prompt();
        terminal.send(&format!("{line}\r"));
        terminal.wait_for(answer);
    }
    terminal.wait_for_prompt();
    terminal.send("You are\r");
    terminal.wait_for("> You are");
    terminal.wait_for_prompt();
    terminal.send(&format!("/save {}\r", saved.display()));
    terminal.wait_for("2 messages are in");
    terminal.wait_for_prompt();
    terminal.send(&format!("/load {}\r", saved.display()));
    terminal.wait_for("goes on after 2 messages");
    terminal.wait_for_prompt();
    terminal.send("/exit\r");
    let screen = terminal.end();
    assert_eq!(screen.code, Some(0), "{}", screen.text());
    let text = std::fs::read_to_string(&saved).expect("a conversation");
    let messages: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&messages[0]["role"], &messages[0]["content"]), (&"user".into(), &"You are".into()));
}

#[test]
fn answers_break_between_words_at_the_edge_of_the_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    for columns in [40, 80] {
        let mut terminal = talk(columns, &dir, "80");
        terminal.send("It is a truth universally acknowledged\r");
        terminal.wait_for(" positions)");
        terminal.wait_for_prompt();
        terminal.send("/exit\r");
        let screen = terminal.end();
        let answer: Vec<&String> = screen.lines.iter().skip_while(|line| !line.starts_with("> It")).skip(1).collect();
        let answer: Vec<&&String> = answer.iter().take_while(|line| !line.starts_with('(')).collect();
        assert!(answer.len() > 1, "{}", screen.text());
        assert!(answer.iter().all(|line| line.chars().count() < usize::from(columns)), "{}", screen.text());
    }
}

#[test]
fn lines_are_remembered_by_the_next_conversation() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut terminal = talk(80, &dir, "24");
    terminal.send("/stats\r");
    terminal.wait_for("0 turns");
    terminal.wait_for_prompt();
    terminal.send("/exit\r");
    terminal.end();
    let mut terminal = talk(80, &dir, "24");
    // The arrow goes up to `/exit`, then to `/stats`.
    terminal.send("\x1b[A\x1b[A\r");
    terminal.wait_for("0 turns");
    terminal.wait_for_prompt();
    terminal.send("/exit\r");
    assert_eq!(terminal.end().code, Some(0));
}

#[test]
fn the_oldest_turns_make_room_and_a_line_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let args = ["chat", &model, "-n", "8", "--context", "64", "--json", "--system", "Speak."];
    let turn = b"It is a truth universally acknowledged that\n";
    let done = onetrip_with_stdin(&args, &turn.repeat(8));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        done.stderr.contains("the context of 64 positions is full: the oldest 1 turn was dropped"),
        "{}",
        done.stderr
    );
    let out = done.json();
    let turns = out["turns"].as_array().expect("a list");
    assert_eq!(turns.len(), 8);
    assert!(turns.iter().all(|t| t["prompt"].as_u64().is_some_and(|n| n <= 64)), "{out}");
}

#[test]
fn ctrl_c_in_a_conversation_that_is_fed_by_a_pipe_ends_with_130() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().expect("a folder");
    let model = chat_model(&dir, TEMPLATE);
    let args = ["chat", &model, "-n", "-1", "--context", "100000"];
    let mut child = command(&args).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"It is a truth\n").expect("written");
    let mut first = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("some text");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(child.wait_with_output().expect("the binary ends").status.code(), Some(130));
}
