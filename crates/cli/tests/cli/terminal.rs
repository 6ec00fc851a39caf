//! Closed pipes and Ctrl-C.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::command;

/// A run that does not end by itself while the test looks.
const LONG: [&str; 7] = ["run", "It is a truth", "-n", "100000", "--ignore-eos", "--context", "100000"];

#[test]
fn a_reader_that_goes_away_ends_a_run_without_words() {
    let mut child = command(&LONG).spawn().expect("the binary starts");
    // The first byte shows that it is at work; then nobody reads any more.
    child.stdout.take().expect("a pipe").read_exact(&mut [0]).expect("some text");
    let output = child.wait_with_output().expect("the binary ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    // A note about the long context is there before.
    let words: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!((output.status.code(), words), (Some(141), vec![]));
}

#[test]
fn a_pipe_without_a_reader_ends_every_command_without_words() {
    let commands: [&[&str]; 6] = [
        &["explain"],
        &["count", "--json"],
        &["inspect", "tiny"],
        &["devices"],
        &["tokenize", "x"],
        &["run", "x", "--json"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = command(args).stdout(writer).spawn().expect("the binary starts");
        let output = child.wait_with_output().expect("the binary ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(141), ""), "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_what_there_is_and_exit_code_130() {
    let mut child = command(&LONG).spawn().expect("the binary starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut text = vec![0];
    stdout.read_exact(&mut text).expect("some text");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).stdout(Stdio::null()).status();
    assert!(kill.expect("kill runs").success());
    stdout.read_to_end(&mut text).expect("the rest");
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(text.last(), Some(&b'\n'));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(" · prefill ") && stderr.contains("interrupted"), "{stderr:?}");
}

/// Waits until a process has said what Ctrl-C does to it, however slow the machine is. Where the system does not show that,
/// a while has to do.
#[cfg(unix)]
fn wait_for_handler(process: u32) {
    const CTRL_C: u64 = 1 << 1;
    let catches = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & CTRL_C != 0)
    };
    // A process that has ended catches nothing: then what follows fails.
    for _ in 0..6000 {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else {
            return std::thread::sleep(std::time::Duration::from_millis(700));
        };
        if catches(&status) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_measurement_with_exit_code_130() {
    for args in [["bench", "--repeat", "100000"], ["profile", "--repeat", "1000000"]] {
        let mut child = command(&args).spawn().expect("the binary starts");
        wait_for_handler(child.id());
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).stdout(Stdio::null()).status();
        assert!(kill.expect("kill runs").success());
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("the binary ends").code(), Some(130), "{args:?}");
    }
}

#[test]
fn a_closed_stderr_does_not_matter() {
    let mut child = command(&["run", "It is a truth", "-n", "4"]).spawn().expect("the binary starts");
    drop(child.stderr.take());
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}
