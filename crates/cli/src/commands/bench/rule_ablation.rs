//! Rule ablation, the measured gain of each rule on this machine: `onetrip bench --rules`.
//!
//! The gain of a rule is the time of a tick with all other rules, minus that with all rules. Both plans run in one process on
//! one set of weights, in pairs whose order alternates, so that a slow drift of the machine affects both alike. JSON, which is
//! also the file that `--write` changes: `rows`, a list of `{rule, model, threads, machine, isa, date, version, context, pairs,
//! ticks, fired, tick_us, gain_us: {median, min, max}, verdict}`. A rule that does not fire in the model's tick has no row. A
//! row's `version` is the program's.

use std::path::Path;

use onetrip_core::fuse::{Fuse, RULES};
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_engine::renamed;
use onetrip_engine::step::{Engine, Recorded};
use onetrip_ir::expr::Bind;
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::options::ModelArgs;
use crate::support::output::{Out, note, table};
use crate::support::stats::{Spread, verdict};
use crate::support::{device, load, machine};

/// Positions in the cache, where none are asked for.
pub const CONTEXT: usize = 256;
/// The fewest pairs.
pub const PAIRS: usize = 8;
/// Ticks of each half of a pair.
const TICKS: usize = 16;

/// Measures, prints, and adds to the file.
pub fn main(args: &ModelArgs, context: usize, pairs: usize, file: Option<&Path>, out: &Out) -> Result<(), Fail> {
    // Before minutes of measuring.
    let mut kept = file.map(read).transpose()?.unwrap_or_default();
    let mut model = load::model(load::file(args.file.path())?, args)?;
    let key = PlanKey::of(1, 1, Want::Sample { top: 0 });
    let plan = model.plan_with(key, &args.fuse(), false)?;
    let rules: Vec<(&str, usize)> = plan.fired.iter().filter(|(_, n)| *n > 0).map(|(rule, n)| (*rule, *n)).collect();
    let path = args.file.path();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let (threads, isa) = (load::threads(args), device::isa()?.name());
    let wanted: Vec<String> = RULES.iter().map(|r| r.name.to_string()).filter(|r| args.fuse().has(r)).collect();
    let mut engine = load::engine(model, args, context, 1)?;
    let with = engine.record_by(key, &args.fuse())?;
    let mut rows = vec![];
    for (n, (rule, fired)) in rules.iter().enumerate() {
        note(&format!("{} of {}: {rule}", n + 1, rules.len()));
        let others = Fuse::Some(wanted.iter().filter(|r| r != rule).cloned().collect());
        let without = engine.record_by(key, &others)?;
        let times = pairs_of(&mut engine, &with, &without, context, pairs)?;
        let ratios: Vec<f64> = times.iter().map(|(with, without)| without / with).collect();
        let gains: Vec<f64> = times.iter().map(|(with, without)| without - with).collect();
        let ticks: Vec<f64> = times.iter().map(|(with, _)| *with).collect();
        rows.push(json!({
            "rule": rule, "model": name, "threads": threads, "machine": machine::name(), "isa": isa,
            "date": machine::date(), "version": env!("CARGO_PKG_VERSION"), "context": context, "pairs": pairs,
            "ticks": TICKS, "fired": fired, "tick_us": Spread::of(&ticks).map(|s| s.scaled(1e6).median),
            "gain_us": Spread::of(&gains).map(|s| s.scaled(1e6)), "verdict": verdict(&ratios),
        }));
    }
    if let Some(file) = file {
        let is_old = |row: &Value| row["model"] == name.as_str() && row["threads"] == threads;
        kept.retain(|row| !is_old(row));
        kept.extend(rows.iter().cloned());
        let lines: Vec<String> = kept.iter().map(|row| format!("    {row}")).collect();
        // One line for each row, so that a changed measurement changes one line.
        let version = out.version();
        let text = format!("{{\n  \"version\": {version},\n  \"rows\": [\n{}\n  ]\n}}\n", lines.join(",\n"));
        let shown = file.display();
        std::fs::write(file, text).map_err(|e| Fail::Input(format!("cannot write {shown}: {e}; name another file")))?;
    }
    if out.json {
        return out.object(&json!({ "rows": rows }));
    }
    let (machine, version, date) = (machine::name(), env!("CARGO_PKG_VERSION"), machine::date());
    out.line(&format!("{name}: {machine}, {isa} kernels, {threads} threads, onetrip {version}, {date}"))?;
    out.line(&format!(
        "{pairs} pairs of {TICKS} ticks at {context} positions; gain: all rules but it, less all rules\n"
    ))?;
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    out.text(&table(&["rule", ">fired", ">gain µs", ">min", ">max", "verdict"], &cells))
}

fn cells(row: &Value) -> Vec<String> {
    let us = |key: &str| row["gain_us"][key].as_f64().map_or("–".into(), |us| format!("{us:.1}"));
    let text = |key: &str| row[key].as_str().unwrap_or("").to_string();
    vec![text("rule"), row["fired"].to_string(), us("median"), us("min"), us("max"), text("verdict")]
}

/// Seconds of a tick with and without, of each pair; the first pair warms up and is left out.
fn pairs_of(
    engine: &mut Engine,
    with: &Recorded,
    without: &Recorded,
    context: usize,
    pairs: usize,
) -> Result<Vec<(f64, f64)>, Fail> {
    let mut batch = engine.shaped_batch(Bind { t: 1, s: 1, l: context as u64 })?;
    let mut times = vec![];
    for pair in 0..=pairs {
        let mut half = |recorded: &Recorded| -> Result<f64, Fail> {
            let mut all = 0.0;
            for _ in 0..TICKS {
                all += engine.submit(recorded, &mut batch)?.1;
            }
            Ok(all / TICKS as f64)
        };
        let both = if pair % 2 == 0 {
            let first = half(with)?;
            (first, half(without)?)
        } else {
            let first = half(without)?;
            (half(with)?, first)
        };
        if pair > 0 {
            times.push(both);
        }
    }
    Ok(times)
}

/// The rows of a file written earlier; none where there is no file.
fn read(file: &Path) -> Result<Vec<Value>, Fail> {
    let bad =
        |what: String| Fail::Input(format!("{}: {what}; give a file that --rules wrote, or a new one", file.display()));
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => return Err(bad(format!("cannot be read: {e}"))),
    };
    let value: Value = serde_json::from_str(&text).map_err(|e| bad(format!("no JSON: {e}")))?;
    let mut rows = value["rows"].as_array().cloned().ok_or_else(|| bad("there is no list `rows`".into()))?;
    for row in &mut rows {
        if let Some(rule) = row["rule"].as_str().map(|rule| renamed::new_name(renamed::RULES, rule).to_string()) {
            row["rule"] = rule.into();
        }
    }
    Ok(rows)
}
