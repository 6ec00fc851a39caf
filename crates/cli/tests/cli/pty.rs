//! The binary on a pseudo-terminal of a given width, and the screen that a person sees there.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};

/// Lines of the screen: more than any output has, so that nothing scrolls out of it.
const LINES: NonZeroU16 = NonZeroU16::new(2000).unwrap();
/// How long a test waits for a text before it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The binary at work on a pseudo-terminal, which is its stdin, stdout and stderr.
pub struct Terminal {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All bytes that the binary has written.
    pub bytes: Vec<u8>,
}

/// The screen of a binary that has ended.
pub struct Screen {
    pub code: Option<i32>,
    /// The lines with text, without spaces at their ends.
    pub lines: Vec<String>,
    /// All bytes that were written: control sequences, and what was overwritten or cleared later, are among them.
    pub bytes: Vec<u8>,
}

impl Terminal {
    /// Starts the binary on a terminal of this many columns.
    pub fn start(columns: u16, args: &[&str]) -> Terminal {
        Terminal::start_with(columns, args, |_| {})
    }

    /// Starts the binary after `change` has set variables or a folder.
    pub fn start_with(columns: u16, args: &[&str], change: impl FnOnce(&mut Command)) -> Terminal {
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        let mut command = crate::command(args);
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        change(&mut command);
        let end = || Stdio::from(pty.slave.try_clone().expect("a file descriptor"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the binary starts");
        // Reading ends when nobody has the slave's side any more.
        drop((command, pty.slave));
        let keyboard = File::from(pty.master);
        let mut reader = keyboard.try_clone().expect("a file descriptor");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Linux reports the end of a pseudo-terminal as an error.
            while let Ok(n @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let width = NonZeroU16::new(columns).expect("a terminal has columns");
        Terminal { child, keyboard, output, screen: vt100::Parser::new(LINES, width, 0), bytes: vec![] }
    }

    /// Types this text; `\r` is the return key, `\x04` Ctrl-D.
    pub fn send(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal takes keys");
    }

    /// Sends the signal of Ctrl-C.
    pub fn interrupt(&self) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Waits until this text is on the screen.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until the last line of the screen is the prompt of a conversation, without a text behind it.
    #[track_caller]
    pub fn wait_for_prompt(&mut self) {
        self.wait_until("prompt", |screen| screen.lines().last().is_some_and(|line| line.trim_end() == ">"));
    }

    #[track_caller]
    fn wait_until(&mut self, text: &str, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.screen.screen().contents()) {
            match self.output.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(chunk) => self.take(&chunk),
                Err(end) => panic!("no {text:?} ({end}) on the screen:\n{}", self.screen.screen().contents()),
            }
        }
    }

    /// Waits until the binary ends.
    #[track_caller]
    pub fn end(mut self) -> Screen {
        let start = Instant::now();
        loop {
            match self.output.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(chunk) => self.take(&chunk),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("the binary does not end; its screen:\n{}", self.screen.screen().contents());
                }
            }
        }
        let code = self.child.wait().expect("the binary ends").code();
        let contents = self.screen.screen().contents();
        let lines = contents.lines().map(|line| line.trim_end().to_string()).collect();
        Screen { code, lines, bytes: self.bytes }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.screen.process(chunk);
        self.bytes.extend_from_slice(chunk);
    }
}

impl Screen {
    /// The lines as one text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Runs the binary to its end on a terminal of this many columns.
#[track_caller]
pub fn on_terminal(columns: u16, args: &[&str]) -> Screen {
    Terminal::start(columns, args).end()
}

/// Asserts that no line of what a command writes on a terminal is broken by the terminal's edge: on one of 80 columns the same
/// lines appear as on a very wide one.
#[track_caller]
pub fn fits_80_columns(args: &[&str]) -> Screen {
    let screen = on_terminal(80, args);
    let full: Vec<&String> = screen.lines.iter().filter(|line| line.chars().count() >= 80).collect();
    assert!(full.is_empty(), "{args:?} reaches the edge of 80 columns:\n{full:#?}");
    screen
}

#[test]
fn a_run_shows_its_text_and_its_figures_on_one_screen() {
    let screen = on_terminal(80, &["run", "It is a truth", "-n", "8"]);
    assert_eq!(screen.code, Some(0), "{}", screen.text());
    assert!(screen.text().contains(" tokens · prefill "), "{}", screen.text());
}
