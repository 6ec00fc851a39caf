//! `docs/rules.md`: every rule with its sentences, how often it fires, and its predicted and measured gain.
//! `cargo xtask docs` writes it; a test compares.

use std::fmt::Write as _;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::{FRAGMENT_LAYOUT, Fuse, RULES, Rule};
use onetrip_cost::{Pricer, Profile};
use onetrip_engine::model::Model;
use onetrip_engine::{profiles, renamed, shape};
use onetrip_import as listing;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use serde_json::Value;

use crate::assumed::LISTING;
use crate::plans::published;
use crate::setup::{key, listing_options, options, root};

/// The machine that predicts, and the measurements on it that are shown beside.
const PROFILE: &str = "epyc-zen4-2";
const MEASURED: &str = "bench/runs/2026-11-29-amd-epyc-2c/rules.json";
const THREADS: [usize; 2] = [1, 2];
const BIND: Bind = Bind { t: 1, s: 1, l: 256 };

/// A model: its name in the page, and what the name of its file begins with in measurements.
struct Column {
    name: &'static str,
    file: &'static str,
    model: Model,
}

fn columns() -> Result<Vec<Column>, Failed> {
    let mut all = vec![];
    let names = [
        ("SmolLM2", "smollm2-135m-q4_1", "SmolLM2"),
        ("Qwen2.5-0.5B", "qwen2.5-0.5b-q4_k_m", "qwen2.5"),
        ("Gemma 3 270M", "gemma-3-270m-q4_k_m", "gemma-3"),
    ];
    for (name, shape, file) in names {
        let found = published().into_iter().find(|p| p.name == shape).ok_or("no such model")?;
        all.push(Column { name, file, model: found.model()? });
    }
    let four = "Qwen3.5-9B, 4 layers";
    for (name, shape, file) in
        [("Qwen3.5-9B", "shape:qwen3.5-9b:q4_0", "-"), (four, "shape:qwen3.5-9b@4:q4_0", "q35-4l")]
    {
        all.push(Column { name, file, model: Model::new(shape::open(shape)?, options("cpu"))? });
    }
    Ok(all)
}

/// Where the rule fires that finds nothing on the CPU.
fn on_tensor_cores() -> Result<String, Failed> {
    let bind = Bind { t: 32, s: 32, l: BIND.l };
    let mut hits = vec![];
    for model in published() {
        let plan = model.model_for(options("cuda"))?.plan_with(key(bind), &Fuse::All, false)?;
        hits.push(format!("{} times in {}", fired(&plan, FRAGMENT_LAYOUT), model.name));
    }
    Ok(format!(
        "`{FRAGMENT_LAYOUT}` is for tensor cores. On CUDA, where 32 sequences decode, it fires {}.",
        hits.join(", ")
    ))
}

fn fired(plan: &Plan, rule: &str) -> usize {
    plan.fired.iter().filter(|(name, _)| *name == rule).map(|(_, n)| n).sum()
}

/// What was measured: rows of `onetrip bench --rules`.
fn measured() -> Result<Vec<Value>, Failed> {
    let Ok(text) = std::fs::read_to_string(root().join(MEASURED)) else { return Ok(vec![]) };
    let value: Value = serde_json::from_str(&text).map_err(|e| format!("{MEASURED}: {e}"))?;
    Ok(value["rows"].as_array().cloned().unwrap_or_default())
}

/// A number of µs: three digits, with its sign where it is a gain.
fn us(x: f64) -> String {
    let digits = if x.abs() < 10.0 { 2 } else { usize::from(x.abs() < 100.0) };
    format!("{x:.digits$}")
}

/// The page.
pub fn text() -> Result<String, Failed> {
    let profile = profiles::named(PROFILE)?;
    let measured = measured()?;
    let mut columns = columns()?;
    let listed = listing::open(LISTING)?.plan(&listing_options("cuda"), &Fuse::All, true, false)?;
    let plans: Vec<Plan> =
        columns.iter_mut().map(|c| c.model.plan_with(key(BIND), &Fuse::All, false)).collect::<Result<_, _>>()?;
    let mut out = String::from(HEAD);
    // Four models have a column; the short one is there for what was measured on it.
    let shown = || columns.iter().zip(&plans).filter(|(c, _)| !c.name.contains("layers"));
    let names: Vec<&str> = shown().map(|(c, _)| c.name).collect();
    writeln!(out, "| | rule | {} | the listing |\n|--:|---|{}--:|", names.join(" | "), "--:|".repeat(names.len()))?;
    let mut never = vec![];
    for (n, rule) in RULES.iter().enumerate() {
        let mut hits: Vec<usize> = shown().map(|(_, plan)| fired(plan, rule.name)).collect();
        hits.push(fired(&listed, rule.name));
        if hits.iter().all(|n| *n == 0) {
            never.push(format!("`{}`", rule.name));
        }
        let hits: Vec<String> = hits.iter().map(usize::to_string).collect();
        writeln!(out, "| {} | [`{}`](#{}) | {} |", n + 1, rule.name, rule.name, hits.join(" | "))?;
    }
    match &never[..] {
        [] => writeln!(out, "\nEvery rule fires somewhere here.")?,
        some => writeln!(out, "\nNever fires in these plans: {}.", some.join(", "))?,
    }
    writeln!(out, "\n{}", on_tensor_cores()?)?;
    match fired(&listed, "elementwise-chain") {
        0 => writeln!(
            out,
            "\nChains of elementwise nodes (MUL, SUB, DIV and the like) fire 0 times on the listing: what there is of them \
             (gates, SwiGLU, residuals) earlier rules put where it is made or read."
        )?,
        n => writeln!(out, "\nChains of elementwise nodes fire {n} times on the listing.")?,
    }
    writeln!(out, "\n{ABOUT_GAINS}")?;
    let (from, date) = (&profile.name, &profile.date);
    writeln!(out, "Predicted with `{from}` ({}, {date}); measured: `{MEASURED}`.", profile.device)?;
    for rule in RULES {
        let Rule { name, finds, makes, because, .. } = rule;
        writeln!(out, "\n### {name}\n\n*Finds* {finds}. *Makes* {makes}. *Because* {because}.")?;
        let rows = gains(&mut columns, &plans, rule.name, &profile, &measured)?;
        match rows.is_empty() {
            true => writeln!(out, "\nIt fires in none of the models where one sequence decodes on the CPU.")?,
            false => {
                writeln!(out, "\n| model | threads | predicted µs | measured µs (min–max) | |\n|---|--:|--:|--:|---|")?;
                rows.iter().try_for_each(|row| writeln!(out, "{row}"))?;
            }
        }
    }
    Ok(out)
}

/// A line for each model in which a rule fires, and number of threads.
fn gains(
    columns: &mut [Column],
    plans: &[Plan],
    rule: &str,
    profile: &Profile,
    measured: &[Value],
) -> Result<Vec<String>, Failed> {
    let mut rows = vec![];
    for (column, with) in columns.iter_mut().zip(plans).filter(|(_, plan)| fired(plan, rule) > 0) {
        let others = RULES.iter().map(|r| r.name.to_string()).filter(|name| name != rule).collect();
        let without = column.model.plan_with(key(BIND), &Fuse::Some(others), false)?;
        for threads in THREADS {
            let pricer = Pricer::new(profile, threads);
            let gain = pricer.tick(&without, BIND).total() - pricer.tick(with, BIND).total();
            let is_it = |row: &&Value| {
                row["rule"].as_str().map(|name| renamed::new_name(renamed::RULES, name)) == Some(rule)
                    && row["threads"] == threads
                    && row["model"].as_str().is_some_and(|model| model.starts_with(column.file))
            };
            let (found, verdict) = match measured.iter().find(is_it) {
                None => ("not measured".into(), ""),
                Some(row) => {
                    let part = |key: &str| row["gain_us"][key].as_f64().map_or("–".into(), us);
                    let spread = format!("{} ({} to {})", part("median"), part("min"), part("max"));
                    (spread, row["verdict"].as_str().unwrap_or(""))
                }
            };
            rows.push(format!("| {} | {threads} | {} | {found} | {verdict} |", column.name, us(gain)));
        }
    }
    Ok(rows)
}

const HEAD: &str = "\
# The rules

Written by `cargo xtask docs` from the list in `crates/core/src/fuse/rules.rs`; a test fails where it is stale. Rules are
tried in this order, each wherever it fits. How often each fires in one decode step on the CPU, and on the listing of
another engine's nodes ([docs/listing.md](listing.md)) where nothing is refused:

";

const ABOUT_GAINS: &str = "\
## What each gains

The gain of a rule is the time of a decode tick (one sequence at 256 positions) by all rules but it, less that by all
rules: what is lost if it alone is taken away. A rule whose work another one does in its place gains little, or loses.
A measured gain is the median of at least 8 interleaved pairs (`onetrip bench --rules`), with the word that the pairs
give: `faster` and `slower` are with the rule, `coin flip` is where the 99 % interval of the ratio contains 1 or the
difference is under 1 %.";

/// Makes a page.
type Page = fn() -> Result<String, Failed>;

/// The generated pages that this module keeps, and what is in each.
const GENERATED: [(&str, Page); 2] = [("docs/rules.md", text), ("docs/models.md", crate::models_page::text)];

/// Writes the pages; their paths.
pub fn write() -> Result<Vec<&'static str>, Failed> {
    for (path, text) in GENERATED {
        std::fs::write(root().join(path), text()?)?;
    }
    Ok(GENERATED.iter().map(|(path, _)| *path).collect())
}

/// The tests of this module, named `docs/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let of = |(path, text): (&'static str, Page)| {
        Trial::test(format!("{path} is what the program says"), move || is_fresh(path, text))
    };
    GENERATED.into_iter().map(of).collect()
}

fn is_fresh(path: &str, text: Page) -> Result<(), Failed> {
    let (have, want) = (std::fs::read_to_string(root().join(path)).unwrap_or_default(), text()?);
    let line = have.lines().zip(want.lines()).position(|(a, b)| a != b);
    match (have == want, line) {
        (true, _) => Ok(()),
        (false, Some(n)) => Err(format!(
            "{path}, line {}:\n  {}\nis now\n  {}\nrun `cargo xtask docs` and commit",
            n + 1,
            have.lines().nth(n).unwrap_or(""),
            want.lines().nth(n).unwrap_or("")
        )
        .into()),
        (false, None) => Err(format!("{path} is stale: run `cargo xtask docs` and commit").into()),
    }
}
