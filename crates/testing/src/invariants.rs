//! Promises about the source tree that ARCHITECTURE.md names by these tests.

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::RULES;
use onetrip_core::ops::Op;
use onetrip_engine::models::MODELS;

use crate::run_loop;
use crate::setup::root;

/// All tests, with those on whole models or without.
type AllTests = fn(bool) -> Vec<Trial>;

/// The tests of this module; one of them checks the names in `all`.
pub fn tests(all: AllTests) -> Vec<Trial> {
    vec![
        Trial::test("invariants/tidy finds nothing", tidy),
        Trial::test("invariants/files use each other in no circle but the ops'", cycles),
        Trial::test("invariants/one token goes the way that ARCHITECTURE.md says", call_order),
        Trial::test("invariants/CI runs every test that needs a whole model", move || whole_models(all)),
        Trial::test("invariants/there is one run loop", run_loop::is_one),
        Trial::test("invariants/a second run loop is found, whatever it calls the device", run_loop::finds),
        Trial::test("invariants/an architecture is named in its own file and in the registry", architectures),
        Trial::test("invariants/every op has cases, some with costs counted by hand", every_op_has_cases),
        Trial::test("invariants/no two rules have one name or say that they find the same", rules_are_told_apart),
    ]
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

/// Code lines of the product that name an architecture outside of its file: comments and tests may, the tokenizer has names of
/// its own, and `models.rs` lists the files.
fn architectures() -> Result<(), Failed> {
    let product = ["cli", "core", "cost", "cpu", "cuda", "device-common", "devices", "engine", "import", "ir", "wgpu"];
    let mut found = vec![];
    for file in &xtask::tidy::Tree::read(&root())?.files {
        let (path, text) = (&*file.path, &*file.text);
        let mut parts = path.split('/');
        let (crates, name, src) = (parts.next(), parts.next().unwrap_or_default(), parts.next());
        let is_product =
            (crates, src) == (Some("crates"), Some("src")) && product.contains(&name) && path.ends_with(".rs");
        if !is_product || path.contains("/tests") || path.contains("/tokenizer/") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (n, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for model in MODELS {
                let own = format!("crates/engine/src/models/{}.rs", model.name);
                let listed = path == "crates/engine/src/models.rs"
                    && [format!("mod {};", model.name), format!("&{}::MODEL", model.name)]
                        .iter()
                        .any(|l| line.contains(l));
                let is_word =
                    |part: &str| part.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == model.name);
                let literal = line.split('"').skip(1).step_by(2).any(|text| text == model.name);
                let identifier = is_word(&line.split('"').step_by(2).collect::<Vec<_>>().join(" "));
                if (literal || identifier) && path != own && !listed {
                    found.push(format!("{path}:{}: {}", n + 1, line.trim()));
                }
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
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

/// A rule by its name and by its sentence on what it finds.
type Said = (&'static str, &'static str);

/// Rules that share a name (which `--fuse` takes) or the sentence on what they find.
fn alike(rules: &[Said]) -> Option<(Said, Said)> {
    let pairs = rules.iter().enumerate().flat_map(|(i, a)| rules[..i].iter().map(move |b| (*b, *a)));
    pairs.into_iter().find(|(a, b)| a.0 == b.0 || a.1 == b.1)
}

fn rules_are_told_apart() -> Result<(), Failed> {
    let rules: Vec<Said> = RULES.iter().map(|rule| (rule.name, rule.finds)).collect();
    if let Some((a, b)) = alike(&rules) {
        return Err(format!("the rules {a:?} and {b:?} have one name, or say that they find the same").into());
    }
    // A test of the check: it finds an entry that was copied and changed in part only.
    for copied in [(rules[0].0, "something else"), ("another-name", rules[0].1)] {
        if alike(&[&rules[..], &[copied]].concat()).is_none() {
            return Err(format!("{copied:?} passes beside {:?}", rules[0]).into());
        }
    }
    Ok(())
}
