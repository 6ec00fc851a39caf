//! Promises about the source tree that ARCHITECTURE.md names by these tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::RULES;
use onetrip_core::ops::Op;

/// All tests, with those on whole models or without.
type AllTests = fn(bool) -> Vec<Trial>;

/// The tests; one of them looks at `all`.
pub fn tests(all: AllTests) -> Vec<Trial> {
    vec![
        Trial::test("invariants/tidy finds nothing", tidy),
        Trial::test("invariants/files use each other in no circle but the ops'", cycles),
        Trial::test("invariants/one token goes the way that ARCHITECTURE.md says", call_order),
        Trial::test("invariants/CI runs every test that needs a whole model", move || whole_models(all)),
        Trial::test("invariants/there is one run loop", one_run_loop),
        Trial::test("invariants/every op has cases, some with costs counted by hand", every_op_has_cases),
        Trial::test("invariants/every rule says what it finds, makes and why", rules_are_explained),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tidy() -> Result<(), Failed> {
    let findings = xtask::tidy::check(&root());
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n").into()) }
}

fn cycles() -> Result<(), Failed> {
    let crates = xtask::cycles::find(&xtask::tidy::Tree::read(&root())?, false)?;
    let found = xtask::cycles::findings(&crates, &xtask::cycles::NOT_YET);
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

fn call_order() -> Result<(), Failed> {
    let found = xtask::call_order::findings(&xtask::tidy::Tree::read(&root())?)?;
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

fn whole_models(all: AllTests) -> Result<(), Failed> {
    let names = |with: bool| all(with).iter().map(|t| t.name().to_owned()).collect::<BTreeSet<_>>();
    let (every, usual) = (names(true), names(false));
    let chosen = xtask::ci::WITH_MODELS;
    let is_chosen = |name: &&String| chosen.iter().any(|start| name.starts_with(start));
    let left: Vec<&String> = every.difference(&usual).filter(|name| !is_chosen(name)).collect();
    let empty: Vec<_> = chosen.iter().filter(|start| !every.iter().any(|name| name.starts_with(**start))).collect();
    if left.is_empty() && empty.is_empty() {
        return Ok(());
    }
    Err(format!("not run by CI: {left:?}; chosen by CI, and there is no such test: {empty:?}").into())
}

/// Rust files of the product: all crates but this one and the tasks.
fn sources(dir: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "tests", "parity", "xtask"].contains(&name.as_str()) {
            sources(&path, out)?;
        } else if name.ends_with(".rs") {
            out.push(path);
        }
    }
    Ok(())
}

/// Only `run.rs` walks a plan and hands its rows to a device; nothing else calls `encode` with a row or begins a recording.
fn one_run_loop() -> Result<(), Failed> {
    let mut files = vec![];
    sources(&root().join("crates"), &mut files)?;
    let mut found = vec![];
    for path in &files {
        let text = std::fs::read_to_string(path)?;
        // Comments may speak of it.
        let code = text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
        for call in ["device.encode(", "device.begin(", "device.finish("] {
            let n = code.matches(call).count();
            found.extend(std::iter::repeat_n((call, path.clone()), n));
        }
    }
    let run = |path: &Path| path.ends_with("crates/core/src/run.rs");
    let wrong: Vec<String> = found
        .iter()
        .filter(|(_, path)| !run(path))
        .map(|(call, path)| format!("{call}…) in {}", path.display()))
        .collect();
    if !wrong.is_empty() {
        return Err(format!("a second run loop: {}", wrong.join(", ")).into());
    }
    // A plan that is only shown to a device, for its kernels, begins and finishes too; rows are handed over in one place.
    let count = |wanted: &str| found.iter().filter(|(call, _)| *call == wanted).count();
    let [rows, begun, finished] = ["device.encode(", "device.begin(", "device.finish("].map(count);
    if rows != 1 || begun != finished || begun == 0 || files.len() < 30 {
        let (all, files) = (found.len(), files.len());
        return Err(
            format!("{all} calls, {rows} of them with a row, in {files} files: is the loop still in run.rs?").into()
        );
    }
    Ok(())
}

fn every_op_has_cases() -> Result<(), Failed> {
    for (name, cases) in Op::all_cases() {
        if cases.is_empty() || !cases.iter().any(|c| c.cost.is_some()) {
            return Err(format!("{name}: {} cases, none with a cost counted by hand", cases.len()).into());
        }
        if let Some(case) = cases.iter().find(|c| c.op.name() != name || crate::harness::exceeds(c.tolerance, 0.05)) {
            return Err(
                format!("{name}: case {} is of {}, within {}", case.name, case.op.name(), case.tolerance).into()
            );
        }
    }
    Ok(())
}

fn rules_are_explained() -> Result<(), Failed> {
    for (i, rule) in RULES.iter().enumerate() {
        let texts = [rule.name, rule.finds, rule.makes, rule.because];
        if texts.iter().any(|t| t.is_empty()) || RULES[..i].iter().any(|r| r.name == rule.name) {
            return Err(format!("rule {:?} lacks a text or is there twice", rule.name).into());
        }
    }
    Ok(())
}
