//! The binary `onetrip`: one file per command in `commands/`; what several of them need is in `support/`.
//!
//! A command parses its flags (shared ones are groups in [`support::options`]), opens a model with [`support::load`], and prints through
//! [`support::output`], which knows about closed pipes and `--json`. Errors are one line on stderr and an exit code: [`support::fail`].

mod commands;
mod support;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{bench, calibrate, chat, count, devices, explain, inspect, ppl, profile, run, selftest, tokenize};
use support::fail::{self, Fail};
use support::output::{Form, Out};
use support::{again, foreign, interrupt};

/// Version of the object that tells an error of the command line, where no command is known.
const ERROR_VERSION: u32 = 1;

/// Runs transformer models. A model step is a plan you can read: a short list of dispatches, which the same program
/// explains, counts, runs and profiles.
#[derive(Parser)]
#[command(name = "onetrip", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed at work, 2 bad input or usage, 130 interrupted.\n\
    First steps: onetrip run \"It is a truth\" (the model in the program), onetrip chat MODEL.gguf, onetrip explain")]
struct Cli {
    /// Print one JSON object, and nothing else, on stdout
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Continue a text, token by token
    Run(run::RunArgs),
    /// Talk with a model; what was said stays in the cache
    Chat(chat::ChatArgs),
    /// Print the plan of a step: one row a dispatch, then rules and ledger
    Explain(explain::ExplainArgs),
    /// Count a plan (its ledger), and hold the counts against a file
    Count(count::CountArgs),
    /// Measure this machine once, for predictions
    Calibrate(calibrate::CalibrateArgs),
    /// Time each dispatch of a plan
    Profile(profile::ProfileArgs),
    /// Measure prompt and generation speed
    Bench(bench::BenchArgs),
    /// Measure perplexity, or the best tokens at each step of a given text
    Ppl(ppl::PplArgs),
    /// Turn text into token ids, or ids into text
    Tokenize(tokenize::TokenizeArgs),
    /// List metadata and tensors of a model file
    Inspect(inspect::InspectArgs),
    /// List devices and what they can do
    Devices,
    /// Run every op's cases on this machine's device and compare with their meaning
    Selftest(selftest::SelftestArgs),
}

impl Command {
    /// Settles which arguments without a flag are the model and which are a text.
    fn settle(&mut self) -> Result<(), Fail> {
        match self {
            Command::Run(args) => args.settle(),
            Command::Tokenize(args) => args.settle(),
            Command::Chat(args) => args.model.file.settle(),
            Command::Explain(args) => args.model.file.settle(),
            Command::Count(args) => args.model.file.settle(),
            Command::Profile(args) => args.model.file.settle(),
            Command::Bench(args) => args.model.file.settle(),
            Command::Ppl(args) => args.model.file.settle(),
            Command::Inspect(args) => args.file.settle(),
            Command::Selftest(args) => args.file.settle(),
            Command::Calibrate(_) | Command::Devices => Ok(()),
        }
    }

    /// What standard output holds.
    fn form(&self, json: bool) -> Form {
        match self {
            Command::Run(args) if args.json_lines => Form::JsonLines,
            Command::Chat(args) if args.json_lines => Form::JsonLines,
            _ if json => Form::Json,
            _ => Form::Text,
        }
    }

    /// The version of what the command prints with `--json`, as `docs/schema/` describes it. Within a version keys are
    /// only added; it rises when a key is renamed, removed, or means something else.
    fn json_version(&self) -> u32 {
        match self {
            Command::Run(_)
            | Command::Chat(_)
            | Command::Explain(_)
            | Command::Count(_)
            | Command::Calibrate(_)
            | Command::Profile(_)
            | Command::Bench(_)
            | Command::Ppl(_)
            | Command::Tokenize(_)
            | Command::Inspect(_)
            | Command::Devices
            | Command::Selftest(_) => 1,
        }
    }
}

fn dispatch(command: Command, out: &Out) -> Result<(), Fail> {
    match command {
        Command::Run(args) => run::main(args, out),
        Command::Chat(args) => chat::main(args, out),
        Command::Explain(args) => explain::main(args, out),
        Command::Count(args) => count::main(args, out),
        Command::Calibrate(args) => calibrate::main(args, out),
        Command::Profile(args) => profile::main(args, out),
        Command::Bench(args) => bench::main(args, out),
        Command::Ppl(args) => ppl::main(args, out),
        Command::Tokenize(args) => tokenize::main(args, out),
        Command::Inspect(args) => inspect::main(args, out),
        Command::Devices => devices::main(out),
        Command::Selftest(args) => selftest::main(args, out),
    }
}

/// The flags; of a command line that asks for no command, how the program ends.
fn parse(arguments: &[OsString]) -> Result<Cli, Result<(), Fail>> {
    if let Some(answer) = foreign::answer(arguments) {
        return Err(Err(Fail::Usage(format!("{answer} (see --help)"))));
    }
    Cli::try_parse().map_err(|error| fail::usage(&error, arguments, &Cli::command()))
}

fn main() -> ExitCode {
    interrupt::install();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (out, done) = match parse(&arguments) {
        Ok(cli) => {
            let out = Out::new(cli.command.form(cli.json), cli.command.json_version());
            let mut command = cli.command;
            let done = command.settle().and_then(|()| dispatch(command, &out));
            (out, done)
        }
        Err(done) => (Out::new(Form::asked(&arguments), ERROR_VERSION), done),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Only a process that starts anew can use the GPU again, and find the dispatch whose kernel failed.
        Err(fail) => {
            let (code, object) = fail.with_lost(again::one_by_one).report();
            if let Some(object) = object.filter(|_| out.is_owed()) {
                // Nobody is left to tell that it cannot be written.
                let _ = out.object(&object);
            }
            ExitCode::from(code)
        }
    }
}
