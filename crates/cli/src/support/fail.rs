//! How a command ends when it does not end well: one line on stderr, an exit code, and with `--json` an object that says the same.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use onetrip_devices::{DeviceKind, OpenError};
use onetrip_engine::files::FileError;
use onetrip_engine::model::ModelError;
use onetrip_engine::sentence::sentence;
use onetrip_engine::step::StepError;
use onetrip_ir::device::DeviceError;
use serde_json::{Value, json};

use crate::support::foreign::in_quotes;
use crate::support::stderr::{escaped, note};
use crate::support::{foreign, remedy};

/// Why a command ended early.
#[derive(Debug)]
pub enum Fail {
    /// A flag or an argument that cannot be: exit code 2.
    Usage(String),
    /// A bad file, text or value: exit code 2.
    Input(String),
    /// The work itself failed, or a check did not hold: exit code 1.
    Work(String),
    /// A kernel failed on a GPU, which cannot be used any more by this process: exit code 1.
    Lost(String),
    /// A usage error that was shown already: exit code 2.
    Shown,
    /// Whoever read the output went away: no words, and the exit code of a program that SIGPIPE ended.
    Pipe,
    /// Ctrl-C: exit code 130.
    Interrupted,
}

impl Fail {
    /// A lost GPU, with what else there is to say of it; anything else as it is.
    pub fn with_lost(self, found: impl FnOnce() -> String) -> Fail {
        match self {
            Fail::Lost(what) => Fail::Lost(format!("{}; {}", one_line(&what), found())),
            other
            @ (Fail::Usage(_) | Fail::Input(_) | Fail::Work(_) | Fail::Shown | Fail::Pipe | Fail::Interrupted) => other,
        }
    }

    /// The exit code.
    fn code(&self) -> u8 {
        match self {
            Fail::Work(_) | Fail::Lost(_) => 1,
            Fail::Usage(_) | Fail::Input(_) | Fail::Shown => 2,
            Fail::Interrupted => 130,
            Fail::Pipe => 141,
        }
    }

    /// The keys of JSON objects that say what failed: `error`, `kind` and `exit_code`. None of an end that has no words.
    pub fn json(&self) -> Option<Value> {
        let (kind, what) = match self {
            Fail::Usage(what) => ("usage", one_line(what)),
            Fail::Input(what) => ("input", one_line(what)),
            Fail::Work(what) | Fail::Lost(what) => ("work", one_line(what)),
            Fail::Shown | Fail::Pipe | Fail::Interrupted => return None,
        };
        Some(json!({ "error": what, "kind": kind, "exit_code": self.code() }))
    }

    /// Says it on stderr, and gives the exit code and the object for stdout, as [`Fail::json`] has it.
    pub fn report(self) -> (u8, Option<Value>) {
        match &self {
            Fail::Usage(what) | Fail::Input(what) | Fail::Work(what) | Fail::Lost(what) => {
                note(&format!("onetrip: {}", one_line(what)));
            }
            Fail::Shown | Fail::Pipe | Fail::Interrupted => {}
        }
        (self.code(), self.json())
    }
}

/// One line, whatever a library wrote or a file is called; spaces in a name stay as they are.
fn one_line(text: &str) -> String {
    escaped(&sentence(text.lines()))
}

/// What clap has to say: help and version as they are, errors on one line.
/// `program` has all commands and flags.
pub fn usage(error: &clap::Error, arguments: &[OsString], program: &clap::Command) -> Result<(), Fail> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.print().map_err(Fail::from),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            note(error.to_string().trim_end());
            Err(Fail::Shown)
        }
        ErrorKind::InvalidUtf8 => {
            let wrong = (1..).zip(arguments).find(|(_, arg)| arg.to_str().is_none());
            let which = wrong.map_or(String::new(), |(n, arg)| format!(" {n} (`{}`)", arg.to_string_lossy()));
            Err(Fail::Usage(format!("argument{which} is not UTF-8: convert it first")))
        }
        _ => {
            let text = error.to_string();
            let is_said = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
            let line = sentence(text.lines().take_while(is_said));
            let mut line = with_our_names(line.trim_start_matches("error: "), error, program);
            let word = foreign::command(arguments).unwrap_or_default();
            if let (ErrorKind::InvalidSubcommand, Some(answer)) = (error.kind(), foreign::command_answer(word)) {
                line = format!("there is no command `{word}`: {answer}");
            }
            if error.kind() == ErrorKind::UnknownArgument && is_word(error) && ["run", "tokenize"].contains(&word) {
                line = format!("{line}; {}", in_quotes(word));
            }
            Err(Fail::Usage(format!("{line} (see --help)")))
        }
    }
}

/// What clap said, with our own name in the place of a hidden one (of another program) where it suggests one.
fn with_our_names(line: &str, error: &clap::Error, program: &clap::Command) -> String {
    let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) else { return line.into() };
    let mut args = program.get_subcommands().flat_map(clap::Command::get_arguments);
    let is_it =
        |arg: &&clap::Arg| arg.get_all_aliases().is_some_and(|all| all.iter().any(|a| format!("--{a}") == *suggested));
    let name = args.find(is_it).and_then(|arg| match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => Some(format!("--{long}")),
        (None, short) => short.map(|c| format!("-{c}")),
    });
    name.map_or(line.into(), |name| line.replace(&format!("'{suggested}'"), &format!("'{name}'")))
}

/// The argument that there is no place for is no flag.
fn is_word(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(arg)) if !arg.starts_with('-'))
}

impl From<std::io::Error> for Fail {
    /// For output: everything read has an error of its own that names it.
    fn from(error: std::io::Error) -> Fail {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Fail::Pipe,
            _ => Fail::Work(format!("cannot write the output: {error}")),
        }
    }
}

impl From<FileError> for Fail {
    fn from(error: FileError) -> Fail {
        Fail::Input(error.to_string())
    }
}

impl From<ModelError> for Fail {
    fn from(error: ModelError) -> Fail {
        Fail::Input(error.to_string())
    }
}

impl From<onetrip_import::PlanError> for Fail {
    fn from(error: onetrip_import::PlanError) -> Fail {
        Fail::Input(error.to_string())
    }
}

impl From<DeviceError> for Fail {
    fn from(error: DeviceError) -> Fail {
        match error {
            DeviceError::Lost { .. } => Fail::Lost(remedy::device(&error)),
            DeviceError::Memory { .. } | DeviceError::Choice { .. } => Fail::Input(remedy::device(&error)),
            _ => Fail::Work(remedy::device(&error)),
        }
    }
}

/// Why a kind of device has none that can be used, and what to give instead where its driver may be had by nobody.
pub fn why_none(error: &OpenError) -> String {
    match error {
        OpenError::Missing { kind: DeviceKind::Wgpu, .. } => format!("{error}, or use --device {}", DeviceKind::Cpu),
        OpenError::Threads { .. } => format!("{error}; give fewer --threads"),
        OpenError::Missing { kind: DeviceKind::Cuda | DeviceKind::Cpu, .. }
        | OpenError::NotBuilt(_)
        | OpenError::NoneSuch(_)
        | OpenError::Refused(_) => error.to_string(),
    }
}

impl From<OpenError> for Fail {
    fn from(error: OpenError) -> Fail {
        match error {
            OpenError::Refused(_) | OpenError::Threads { .. } => Fail::Work(why_none(&error)),
            OpenError::Missing { .. } | OpenError::NotBuilt(_) | OpenError::NoneSuch(_) => {
                Fail::Input(why_none(&error))
            }
        }
    }
}

impl From<StepError> for Fail {
    fn from(error: StepError) -> Fail {
        match error {
            StepError::Device(error) => error.into(),
            StepError::Logits(_) => Fail::Work(remedy::step(&error)),
            other => Fail::Input(remedy::step(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lost_gpu_is_looked_into() {
        let Fail::Lost(what) = Fail::Lost("cuda failed\n".into()).with_lost(|| "run again".into()) else { panic!() };
        assert_eq!(what, "cuda failed; run again");
        for fail in [Fail::Work("x".into()), Fail::Input("x".into()), Fail::Interrupted] {
            let before = format!("{fail:?}");
            let after = fail.with_lost(|| panic!("another program was started for {before}"));
            assert_eq!(format!("{after:?}"), before);
        }
    }

    #[test]
    fn an_error_is_one_line_and_spaces_in_a_name_stay() {
        assert_eq!(one_line("a  b.gguf: bad\n  at line 3\n"), "a  b.gguf: bad; at line 3");
        assert_eq!(one_line("x\u{1b}[31m"), "x\\u{1b}[31m");
    }
}
