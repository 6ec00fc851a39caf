//! `cargo xtask ci`: all checks that must pass before a change is merged, on a machine that is set up for them. Every check
//! runs, even after another one failed; the summary has the time of each beside its budget (`ci/budget.toml`). Exceeding a
//! budget is not a failure. Checks that take longer are in [`crate::long`].
//!
//! Everything is built in the test profile with the features of the whole workspace, so that nothing is built twice.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The program that a command of a check runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Program {
    /// Cargo.
    Cargo,
    /// A task of this program.
    Task,
    /// The binary `onetrip` in the profile of the tests.
    Onetrip,
}

/// One check: a name and what to run, one command after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What the summary and the budget call it.
    pub name: String,
    /// Programs and their arguments.
    pub commands: Vec<(Program, Vec<String>)>,
}

/// The flag for the tests that `cargo test` leaves out: whole models, and the kernels of every GPU generation.
const MODELS: [&str; 5] = ["test", "--workspace", "--quiet", "--test", "parity"];

/// Parts that always run: name, program, arguments. Models come before the tests, so that the tests which need one run
/// instead of saying "not run".
const FIXED: [(&str, Program, &[&str]); 5] = [
    ("format", Program::Cargo, &["fmt", "--all", "--check"]),
    ("clippy", Program::Cargo, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("models", Program::Task, &["models"]),
    ("cargo test", Program::Cargo, &["test", "--workspace"]),
    ("tidy", Program::Task, &["tidy"]),
];

/// Prefixes of the names of tests that need `--include-models`. A test verifies that each prefix matches some test and that
/// no other test needs the flag.
pub const WITH_MODELS: [&str; 2] = ["models/", "plans/cuda compiles"];

/// Builds the binary with the settings of `cargo test`, so that nothing is built if that has run.
const BUILD: [&str; 6] = ["test", "--workspace", "--quiet", "--no-run", "--test", "cli"];

/// Folder of count gates; each file is handed to `onetrip count --gate`.
const GATES: &str = "bench/gates";

/// The parts for the checkout at `root` with models in `models`: the fixed ones, then one for each gate.
///
/// A gate file names its model with a line or key `model`, a path below the models folder; without one, or with `tiny`,
/// the embedded model is counted; a shape or a listing is counted as it is named.
pub fn parts(root: &Path, models: &Path) -> Result<Vec<Part>> {
    let own = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let one = |name: &str, program, args: &[&str]| Part { name: name.to_owned(), commands: vec![(program, own(args))] };
    let mut parts: Vec<_> = FIXED.iter().map(|(name, program, args)| one(name, *program, args)).collect();
    let with_models = WITH_MODELS.iter().map(|name| {
        let args = [&MODELS[..], &["--", "--include-models", name]].concat();
        (Program::Cargo, own(&args))
    });
    parts.push(Part { name: "whole models".into(), commands: with_models.collect() });
    let folder = root.join(GATES);
    if !folder.is_dir() {
        return Ok(parts);
    }
    let entries = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut gates: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    gates.sort();
    for gate in gates.iter().filter(|gate| gate.extension().is_some_and(|e| e == "json" || e == "toml")) {
        let file = gate.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(gate).with_context(|| format!("cannot read the gate {file}"))?;
        let mut args = own(&["count", "--gate"]);
        args.push(format!("{GATES}/{file}"));
        // A model that is part of the program is not a file.
        let is_file = |model: &String| model != "tiny" && !model.contains(':');
        if let Some(model) = gate_model(&text).filter(is_file) {
            args.extend(["--model".to_owned(), models.join(model).to_string_lossy().into_owned()]);
        }
        let commands = vec![(Program::Cargo, own(&BUILD)), (Program::Onetrip, args)];
        parts.push(Part { name: format!("gate {file}"), commands });
    }
    Ok(parts)
}

/// The value of `"model": "…"` (JSON) or `model = "…"` (TOML).
fn gate_model(text: &str) -> Option<String> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        return json.get("model")?.as_str().map(str::to_owned);
    }
    let value = |line: &str| {
        let rest = line.trim().strip_prefix("model")?.trim_start().strip_prefix('=')?.trim();
        Some(rest.strip_prefix('"')?.split('"').next()?.to_owned())
    };
    text.lines().find_map(value)
}

/// The seconds that parts may take, by name; a name that ends with `*` is the beginning of some.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget(Vec<(String, u64)>);

impl Budget {
    /// Where it is kept.
    pub const PATH: &str = "ci/budget.toml";

    /// Reads that of a checkout.
    pub fn read(root: &Path) -> Result<Budget> {
        let text = std::fs::read_to_string(root.join(Budget::PATH)).with_context(|| format!("no {}", Budget::PATH))?;
        Budget::parse(&text)
    }

    fn parse(text: &str) -> Result<Budget> {
        let table: toml::Table = text.parse().with_context(|| format!("{} is no TOML", Budget::PATH))?;
        let seconds = table.get("seconds").and_then(toml::Value::as_table);
        let seconds = seconds.with_context(|| format!("{} has no table `seconds`", Budget::PATH))?;
        let one = |(name, value): (&String, &toml::Value)| {
            let seconds = value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
            Ok((name.clone(), seconds.with_context(|| format!("{}: `{name}` is no number of seconds", Budget::PATH))?))
        };
        Ok(Budget(seconds.iter().map(one).collect::<Result<_>>()?))
    }

    /// The seconds of a part; none where it has no budget.
    pub fn of(&self, part: &str) -> Option<u64> {
        let fits = |name: &str| name.strip_suffix('*').is_some_and(|start| part.starts_with(start));
        let found = self.0.iter().find(|(name, _)| name == part).or_else(|| self.0.iter().find(|(name, _)| fits(name)));
        found.map(|(_, seconds)| *seconds)
    }
}

/// A part that ran elsewhere, as `NAME=SECONDS`: what sets a machine up runs before this program is there.
pub fn measured(text: &str) -> Result<(String, Duration)> {
    let (name, seconds) = text.split_once('=').context("a measured part is given as NAME=SECONDS")?;
    Ok((name.to_owned(), Duration::from_secs(seconds.parse().context("a measured part is given as NAME=SECONDS")?)))
}

/// The outcome of a part.
struct Outcome {
    name: String,
    passed: bool,
    took: Duration,
}

/// Runs the parts whose name contains `only`; prints each one's outcome, time and budget after those that ran `before`.
/// `Ok(true)` when all passed.
pub fn run(
    root: &Path,
    parts: &[Part],
    only: Option<&str>,
    before: &[(String, Duration)],
    budget: &Budget,
) -> Result<bool> {
    let chosen: Vec<_> = parts.iter().filter(|part| only.is_none_or(|text| part.name.contains(text))).collect();
    ensure!(!chosen.is_empty(), "no part has {:?} in its name", only.unwrap_or_default());
    let ran = |(name, took): &(String, Duration)| Outcome { name: name.clone(), passed: true, took: *took };
    let mut outcomes: Vec<Outcome> = before.iter().map(ran).collect();
    for part in chosen {
        println!("== {} ==", part.name);
        let start = Instant::now();
        // A later command of a part needs what the one before made.
        let passed = part.commands.iter().all(|(program, args)| match start_command(root, *program, args) {
            Ok(passed) => passed,
            Err(error) => {
                eprintln!("error: {error:#}");
                false
            }
        });
        outcomes.push(Outcome { name: part.name.clone(), passed, took: start.elapsed() });
    }
    print!("{}", summary(&outcomes, budget));
    Ok(outcomes.iter().all(|outcome| outcome.passed))
}

fn start_command(root: &Path, program: Program, args: &[String]) -> Result<bool> {
    let path = match program {
        Program::Cargo => crate::env::cargo(),
        Program::Task => std::env::current_exe().context("this program has no path")?,
        Program::Onetrip => beside_this_program("onetrip")?,
    };
    let mut command = Command::new(&path);
    command.args(args).current_dir(root).stdin(Stdio::null());
    let status = command.status().with_context(|| format!("cannot start {}", path.display()))?;
    Ok(status.success())
}

/// A program that cargo has built in the same profile as this one.
fn beside_this_program(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("this program has no path")?;
    let path = this.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        bail!("{} is not built", path.display());
    }
    Ok(path)
}

fn summary(outcomes: &[Outcome], budget: &Budget) -> String {
    let mut out = String::from("\n   seconds    budget\n");
    for Outcome { name, passed, took } in outcomes {
        let seconds = took.as_secs_f64();
        let (allowed, word) = match budget.of(name) {
            Some(allowed) if seconds > 2.0 * allowed as f64 => {
                (allowed.to_string(), "  warning: over twice its budget")
            }
            Some(allowed) => (allowed.to_string(), ""),
            None => ("-".to_owned(), "  warning: it has no budget"),
        };
        let verdict = if *passed { "passed" } else { "FAILED" };
        let _ = writeln!(out, "{seconds:>10.1}{allowed:>10}  {verdict}  {name}{word}");
    }
    let total: f64 = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    let _ = writeln!(out, "{total:>10.1}            in all\nci: {} part(s), {failed} failed", outcomes.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts that `.ci/run` times before this program is built.
    const BEFORE: [&str; 2] = ["set up", "build the tasks"];

    fn checkout() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn every_gate_file_is_a_part_with_its_model() {
        let dir = tempfile::tempdir().unwrap();
        let gates = dir.path().join(GATES);
        std::fs::create_dir_all(&gates).unwrap();
        std::fs::write(gates.join("b.json"), r#"{"model": "smollm2/a.gguf", "dispatches": 184}"#).unwrap();
        std::fs::write(gates.join("a.toml"), "# counts\nmodel = \"tiny\"\n").unwrap();
        std::fs::write(gates.join("c.json"), r#"{"model": "shape:llama-8b:q4_0", "dispatches": 9}"#).unwrap();
        std::fs::write(gates.join("notes.md"), "").unwrap();
        let parts = parts(dir.path(), Path::new("models")).unwrap();
        let gates = &parts[parts.len() - 3..];
        let names: Vec<_> = gates.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["gate a.toml", "gate b.json", "gate c.json"]);
        let last = |n: usize| &gates[n].commands.last().unwrap().1;
        assert!(last(0).ends_with(&["bench/gates/a.toml".to_owned()]));
        assert!(last(2).ends_with(&["bench/gates/c.json".to_owned()]));
        assert!(last(1).ends_with(&["--model".to_owned(), "models/smollm2/a.gguf".to_owned()]));
    }

    #[test]
    fn a_failed_part_fails_the_run_and_the_others_still_run() {
        let part =
            |name: &str, arg: &str| Part { name: name.into(), commands: vec![(Program::Cargo, vec![arg.into()])] };
        let parts = [part("bad", "no-such-subcommand"), part("good", "--version")];
        let (root, budget) = (Path::new(env!("CARGO_MANIFEST_DIR")), Budget::default());
        assert!(!run(root, &parts, None, &[], &budget).unwrap());
        assert!(run(root, &parts, Some("good"), &[], &budget).unwrap());
        assert!(run(root, &parts, Some("none such"), &[], &budget).is_err());
    }

    #[test]
    fn the_summary_has_the_budget_beside_the_time_and_no_part_fails_by_it() {
        let budget = Budget::parse("[seconds]\nclippy = 10\n\"gate *\" = 1\n").unwrap();
        let outcome =
            |name: &str, passed, seconds| Outcome { name: name.into(), passed, took: Duration::from_secs(seconds) };
        let outcomes = [
            outcome("clippy", true, 20),
            outcome("gate a", true, 3),
            outcome("new", true, 1),
            outcome("gate b", false, 1),
        ];
        let text = summary(&outcomes, &budget);
        let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(lines[0], "20.0        10  passed  clippy", "twice is not over twice");
        assert_eq!(lines[1], "3.0         1  passed  gate a  warning: over twice its budget");
        assert_eq!(lines[2], "1.0         -  passed  new  warning: it has no budget");
        assert_eq!(lines[3], "1.0         1  FAILED  gate b");
        assert_eq!(lines[4..], ["25.0            in all", "ci: 4 part(s), 1 failed"]);
        assert_eq!(measured("set up=7").unwrap(), ("set up".to_owned(), Duration::from_secs(7)));
        assert!(measured("set up").is_err() && measured("set up=soon").is_err());
    }

    #[test]
    fn a_budget_that_cannot_be_read_is_an_error() {
        for text in ["", "[seconds]\na = \"x\"", "[seconds]\na = 0", "[seconds]\na = -3", "seconds = 3", "["] {
            assert!(Budget::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_part_has_a_budget_and_together_they_are_an_hour_at_most() {
        let budget = Budget::read(&checkout()).unwrap();
        let parts = parts(&checkout(), Path::new("models")).unwrap();
        let names: Vec<&str> = BEFORE.into_iter().chain(parts.iter().map(|part| part.name.as_str())).collect();
        let without: Vec<_> = names.iter().filter(|name| budget.of(name).is_none()).collect();
        assert!(without.is_empty(), "no budget: {without:?}");
        let total: u64 = names.iter().filter_map(|name| budget.of(name)).sum();
        assert!(total <= 3600, "{total} s");
        for (name, _) in &budget.0 {
            let start = name.strip_suffix('*');
            let is_used = |part: &&str| start.map_or(*part == name, |start| part.starts_with(start));
            assert!(names.iter().any(is_used), "{name} is no part");
        }
    }

    #[test]
    fn what_ci_runs_before_is_what_has_a_budget() {
        let script = std::fs::read_to_string(checkout().join(".ci/run")).unwrap();
        // The script runs two parts itself, under their own names, and tells `cargo xtask ci` that they were measured.
        let parts = parts(&checkout(), Path::new("models")).unwrap();
        let own = ["models", "cargo test"];
        assert!(own.iter().all(|name| parts.iter().any(|part| part.name == *name)));
        for name in BEFORE.into_iter().chain(own) {
            assert!(script.contains(&format!("part '{name}' ")), "{name}");
        }
        assert_eq!(script.matches("\npart '").count(), BEFORE.len() + own.len());
        // The test command is the README's.
        let readme = std::fs::read_to_string(checkout().join("README.md")).unwrap();
        let command = "cargo test --workspace";
        assert!(
            readme.contains(&format!("\n{command} ")) && script.contains(&format!("part 'cargo test' {command}\n"))
        );
    }
}
