//! `onetrip profile`: the dispatches of a plan with the time that each takes, beside the one that was predicted.
//!
//! JSON: each of `rows` has `predicted_us` and `predicted_off` (0.1 is 10 % too high); `predicted` is
//! `{tick_us, rows_us, submit_us, host_us, off, findings}` or null, `off` against the tick, `findings` the numbers of
//! the rows that are more than 25 % off; `hardware` names the profile. Where the driver offers no time stamps, times of rows,
//! `gaps_us` and `unexplained_us` are null.
//!
//! On devices whose runs are submitted ahead, stamps delay dispatches that would otherwise begin early. If dispatches are short
//! there too, `kinds` has the marginal cost of each kind of dispatch ([`marginal_cost`]), `tick_us` is the time of a tick among
//! back-to-back ticks, and predictions are compared with these; otherwise they are compared with the stamps and `as_run_us`.
//!
//! `host_us` is measured separately from the stamps: writing the parameters, encoding until the first submission, and
//! submitting and waiting, which are measured with a run of the same plan without its dispatches.

mod marginal_cost;

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use onetrip_core::probe::{Stamps, dispatch_times};
use onetrip_engine::step::Engine;
use onetrip_ir::plan::Dispatch;
use onetrip_ir::plan::text::human;
use serde_json::{Value, json};

use crate::commands::profile::marginal_cost::Kind;
use crate::support::fail::Fail;
use crate::support::options::{ModelArgs, PlanArgs, at_least_one};
use crate::support::output::{Out, table};
use crate::support::plans::Step;
use crate::support::predict::{FINDING, Hardware, HardwareArgs, off, off_cell};
use crate::support::stats::Spread;
use crate::support::{device, load, machine};

/// Runs before any is measured.
const WARM_UP: usize = 3;
/// Stamps hardly change the time of dispatches that take longer than this on average.
const SHORT_S: f64 = 5e-5;
/// A median of fewer runs is not reliable.
const LEAST_REPEATS: usize = 5;

/// Flags of `profile`.
#[derive(Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    /// Measured runs, at least 5; three more come before them to warm up
    #[arg(long, default_value = "15", value_parser = at_least_one, allow_negative_numbers = true, value_name = "N")]
    repeat: usize,
}

/// What was measured, in seconds.
struct Measured {
    /// Times of each dispatch, by run.
    rows: Vec<Vec<f64>>,
    gaps: Vec<f64>,
    /// Parameters; encoding in front of the first submission; submitting nothing and waiting for it.
    host: [Vec<f64>; 3],
    as_run: Vec<f64>,
    as_timed: Vec<f64>,
    unexplained: Vec<f64>,
}

/// Runs the command.
pub fn main(args: ProfileArgs, out: &Out) -> Result<(), Fail> {
    if args.repeat < LEAST_REPEATS {
        return Err(Fail::Input(format!("--repeat {}: give at least {LEAST_REPEATS}", args.repeat)));
    }
    let step = Step::new(&args.plan)?;
    let hardware = Hardware::of(&args.hardware, &args.model)?;
    let model = load::model(load::file(args.model.file.path())?, &args.model)?;
    let mut engine = load::engine(model, &args.model, step.context, step.batch)?;
    let measured = measure(&mut engine, step, args.repeat)?;
    let plan = engine.recorded(step.key())?.plan.clone();
    let mut kinds = marginal_cost::kinds(&plan);
    let median_s = Spread::of(&measured.as_run).map_or(0.0, |s| s.median);
    let is_ahead = engine.device().in_flight() > 1 && median_s < SHORT_S * plan.dispatches.len() as f64;
    let ticks = if is_ahead { marginal_cost::measure(&mut engine, step, &mut kinds, args.repeat)? } else { vec![] };
    step.note(plan.ctx.target);
    let bind = step.bind();
    let mut rows: Vec<Row> = plan.dispatches.iter().zip(&measured.rows).map(|(d, t)| Row::new(d, t, bind)).collect();
    kinds.iter().for_each(|k| k.rows.iter().for_each(|&n| rows[n].marginal = k.marginal.map(|s| s.median)));
    let tick = hardware.pricer(&args.model).map(|p| p.tick(&plan, bind));
    if let Some(tick) = &tick {
        rows.iter_mut().zip(&tick.dispatches).for_each(|(row, us)| row.predicted = Some(*us));
    }
    let findings: Vec<usize> =
        (0..rows.len()).filter(|&n| rows[n].off().is_some_and(|off| off.abs() > FINDING)).collect();
    let spread = |values: &[f64]| Spread::of(values).map(|s| s.scaled(1e6));
    let [gaps, unexplained] = [&measured.gaps, &measured.unexplained].map(|v| spread(v));
    let [as_run, as_timed] = [&measured.as_run, &measured.as_timed].map(|v| spread(v).unwrap_or(NO_TIME));
    let host = [0, 1, 2].map(|n| spread(&measured.host[n]).unwrap_or(NO_TIME));
    let host_us: f64 = host.iter().map(|s| s.median).sum();
    let median = |s: Option<Spread>| s.map(|s| s.median);
    let ops = by_op(&rows);
    let in_a_row = spread(&ticks);
    let measured_tick = in_a_row.unwrap_or(as_run).median;
    let predicted = tick.as_ref().map(|t| {
        let (total, rows) = (t.total(), t.dispatches.iter().sum::<f64>());
        json!({ "tick_us": total, "rows_us": rows, "submit_us": t.submit, "host_us": t.host,
            "off": off(total, measured_tick), "findings": findings })
    });
    if out.json {
        return out.object(&json!({
            "model": args.model.file.name(), "device": args.model.device(), "machine": machine::name(), "date": machine::date(),
            "isa": device::isa()?.name(), "threads": load::threads(&args.model), "step": step.json(), "repeat": args.repeat,
            "rows": rows.iter().enumerate().map(|(n, r)| r.json(n, as_timed.median)).collect::<Vec<_>>(),
            "by_op": ops.iter().map(|(op, (n, us))| json!({ "op": op, "dispatches": n, "us": us })).collect::<Vec<_>>(),
            "kinds": kinds.iter().map(|k| kind_json(k, &rows)).collect::<Vec<_>>(), "tick_us": in_a_row,
            "as_run_us": as_run.median, "as_timed_us": as_timed.median, "gaps_us": median(gaps), "host_us": host_us,
            "unexplained_us": median(unexplained),
            "spread_us": { "as_run": as_run, "as_timed": as_timed, "gaps": gaps, "unexplained": unexplained,
                "host": { "parameters": host[0], "encode": host[1], "hand_over_and_wait": host[2] } },
            "hardware": hardware.json(), "predicted": predicted,
            "us_per_dispatch": as_run.median / rows.len().max(1) as f64,
        }));
    }
    let threads = load::threads(&args.model);
    out.line(&format!("{}: {}", args.model.file.name(), step.title()))?;
    out.line(&format!(
        "{}, {} kernels, {threads} threads, {}; median of {}\n",
        machine::name(),
        device::isa()?.name(),
        machine::date(),
        args.repeat
    ))?;
    let cells: Vec<_> = rows.iter().enumerate().map(|(n, r)| r.cells(n, as_timed.median)).collect();
    out.text(&table(
        &[">#", "name", "kernel", ">µs", ">min–max", ">adds", ">predicted", ">off", ">share", ">bytes/s", ">op/s"],
        &cells,
    ))?;
    let total: f64 = rows.iter().filter_map(|r| r.time).map(|t| t.median).sum();
    let is_offered = !measured.unexplained.is_empty();
    if is_offered {
        let cells =
            ops.iter().map(|(op, (n, us))| vec![op.to_string(), n.to_string(), format!("{us:.1}"), share(*us, total)]);
        out.text(&format!("\n{}", table(&["op", ">dispatches", ">µs", ">share"], &cells.collect::<Vec<_>>())))?;
    }
    if !ticks.is_empty() {
        let cells: Vec<_> = kinds.iter().map(|k| kind_cells(k, &rows)).collect();
        let head = ["kind of row", "kernel", ">number", ">adds each", ">min–max", ">predicted", ">off"];
        out.text(&format!("\nwhat the tick takes longer with them than without\n{}", table(&head, &cells)))?;
    }
    let line = |name: &str, s: Option<Spread>| match s {
        Some(s) => vec![name.into(), format!("{:.1}", s.median), format!("{:.1}–{:.1}", s.min, s.max)],
        None => vec![name.into(), NOT_OFFERED.into(), String::new()],
    };
    let sum = if is_offered { format!("{total:.1}") } else { NOT_OFFERED.into() };
    let mut totals: Vec<Vec<String>> = in_a_row.into_iter().map(|s| line("in a row", Some(s))).collect();
    totals.extend([
        line("as run", Some(as_run)),
        line("as timed", Some(as_timed)),
        vec!["  dispatches".into(), sum, "sum of medians".into()],
        line("  between stamps", gaps),
        line("  host: parameters", Some(host[0])),
        line("  host: encoding ahead", Some(host[1])),
        line("  host: submit, wait", Some(host[2])),
        line("  unexplained", unexplained),
    ]);
    out.text(&format!("\n{}", table(&["tick", ">µs", ">min–max"], &totals)))?;
    if !is_offered {
        out.line("\nthe driver offers no time stamps: single dispatches cannot be timed")?;
    }
    out.line(&format!("\n{} dispatches, {:.2} µs each as run", rows.len(), as_run.median / rows.len().max(1) as f64))?;
    let Some(tick) = &tick else { return out.line(&hardware.line()) };
    let off = off_cell(off(tick.total(), measured_tick));
    let of = if in_a_row.is_some() { "in a row" } else { "as run" };
    out.line(&format!("predicted {:.1} µs a tick ({} of {of}); {}", tick.total(), off.trim_end(), hardware.line()))?;
    out.line(&format!("{} rows are more than {:.0} % off (marked !)", findings.len(), 100.0 * FINDING))
}

/// Where a driver has no clock.
const NOT_OFFERED: &str = "not offered";
const NO_TIME: Spread = Spread { median: 0.0, min: 0.0, max: 0.0 };

fn measure(engine: &mut Engine, step: Step, repeat: usize) -> Result<Measured, Fail> {
    let mut batch = engine.shaped_batch(step.bind())?;
    let recorded = engine.record_with(step.key(), &mut Stamps)?;
    let empty = engine.record_rows(step.key(), &|_| false)?;
    // A device on which `submit` runs to the end has nothing submitted.
    let hands_over = engine.device().in_flight() > 1;
    let mut m = Measured {
        rows: vec![vec![]; recorded.plan.dispatches.len()],
        gaps: vec![],
        host: Default::default(),
        as_run: vec![],
        as_timed: vec![],
        unexplained: vec![],
    };
    for run in 0..WARM_UP + repeat {
        // The measurements alternate, so that a slow moment of the machine affects all of them.
        let as_run = engine.time_step(&mut batch)?;
        let before = engine.device().host_time().ahead;
        let empty = if hands_over { engine.submit(&empty, &mut batch)?.1 } else { 0.0 };
        let between = engine.device().host_time().ahead;
        let (_, as_timed) = engine.submit(&recorded, &mut batch)?;
        let (idle, ahead) = (between - before, engine.device().host_time().ahead - between);
        let stamps = engine.device().stamps();
        let (times, gaps) = dispatch_times(stamps);
        // Until the first dispatch: operands are looked up, workers wake.
        let first = stamps.first().copied().unwrap_or(0.0);
        // The host's time for writing the parameters, which is a part of every run, is measured alone.
        let start = Instant::now();
        batch.fill_rope(&recorded.plan.ropes);
        let parameters = start.elapsed().as_secs_f64();
        if run < WARM_UP {
            continue;
        }
        // The time of the run without dispatches includes writing its own parameters and its encoding.
        let host = [
            parameters,
            ahead.saturating_sub(idle).as_secs_f64(),
            if hands_over { (empty - parameters).max(0.0) } else { 0.0 },
        ];
        if !stamps.is_empty() {
            m.rows.iter_mut().zip(&times).for_each(|(row, t)| row.push(*t));
            m.unexplained.push(as_timed - times.iter().sum::<f64>() - gaps - first - host.iter().sum::<f64>());
            m.gaps.push(gaps + first);
        }
        m.host.iter_mut().zip(host).for_each(|(all, one)| all.push(one));
        m.as_run.push(as_run);
        m.as_timed.push(as_timed);
    }
    Ok(m)
}

/// A dispatch of the plan with its time in µs.
struct Row<'a> {
    dispatch: &'a Dispatch,
    /// None where the driver offers no stamps.
    time: Option<Spread>,
    bytes: u64,
    flops: u64,
    /// Marginal cost in µs; none where the stamps' time is used instead.
    marginal: Option<f64>,
    /// In µs.
    predicted: Option<f64>,
}

impl<'a> Row<'a> {
    fn new(dispatch: &'a Dispatch, times: &[f64], bind: onetrip_ir::expr::Bind) -> Row<'a> {
        let time = Spread::of(times).map(|s| s.scaled(1e6));
        let bytes = dispatch.cost.read.eval(bind).saturating_add(dispatch.cost.written.eval(bind));
        Row { dispatch, time, bytes, flops: dispatch.cost.flops.eval(bind), marginal: None, predicted: None }
    }

    /// How far the prediction is off.
    fn off(&self) -> Option<f64> {
        off(self.predicted?, self.marginal.or(self.time.map(|t| t.median))?)
    }

    /// Per second, where the clock saw any time pass.
    fn rate(&self, amount: u64) -> Option<f64> {
        self.time.filter(|t| t.median > 0.0).map(|t| amount as f64 / (t.median * 1e-6))
    }

    fn json(&self, n: usize, tick: f64) -> Value {
        let (d, t) = (self.dispatch, self.time);
        json!({
            "n": n, "name": d.name, "op": d.op, "device": d.device, "kernel": d.kernel_name(), "us": t.map(|t| t.median),
            "us_min": t.map(|t| t.min), "us_max": t.map(|t| t.max),
            "share": t.map(|t| if tick > 0.0 { t.median / tick } else { 0.0 }),
            "bytes": self.bytes, "flops": self.flops, "bytes_per_s": self.rate(self.bytes), "flop_per_s": self.rate(self.flops),
            "adds_us": self.marginal, "predicted_us": self.predicted, "predicted_off": self.off(),
        })
    }

    fn cells(&self, n: usize, tick: f64) -> Vec<String> {
        let (d, t) = (self.dispatch, self.time);
        let rate = |amount| self.rate(amount).map_or("–".into(), |r| human(r as u64));
        let range = t.map_or(String::new(), |t| format!("{:.1}–{:.1}", t.min, t.max));
        let us = t.map_or(NOT_OFFERED.into(), |t| format!("{:.1}", t.median));
        let part = t.map_or("–".into(), |t| share(t.median, tick));
        let predicted = self.predicted.map_or("–".into(), |us| format!("{us:.1}"));
        let marginal = self.marginal.map_or("–".into(), |us| format!("{us:.1}"));
        let off = off_cell(self.off());
        let (bytes, flops) = (rate(self.bytes), rate(self.flops));
        vec![n.to_string(), d.name.clone(), d.kernel_name(), us, range, marginal, predicted, off, part, bytes, flops]
    }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "–".into() }
}

/// What one row of a kind is predicted to take, in µs.
fn kind_predicted(kind: &Kind, rows: &[Row]) -> Option<f64> {
    let sum: Option<f64> = kind.rows.iter().map(|&n| rows[n].predicted).sum();
    sum.map(|us| us / kind.rows.len() as f64)
}

fn kind_json(kind: &Kind, rows: &[Row]) -> Value {
    let predicted = kind_predicted(kind, rows);
    json!({
        "name": kind.name, "kernel": rows[kind.rows[0]].dispatch.kernel_name(), "rows": kind.rows, "adds_us": kind.marginal,
        "predicted_us": predicted, "predicted_off": predicted.zip(kind.marginal).and_then(|(p, a)| off(p, a.median)),
    })
}

fn kind_cells(kind: &Kind, rows: &[Row]) -> Vec<String> {
    let predicted = kind_predicted(kind, rows);
    let us = |us: Option<f64>| us.map_or("–".into(), |us| format!("{us:.2}"));
    vec![
        kind.name.clone(),
        rows[kind.rows[0]].dispatch.kernel_name(),
        kind.rows.len().to_string(),
        us(kind.marginal.map(|s| s.median)),
        kind.marginal.map_or(String::new(), |s| format!("{:.2}–{:.2}", s.min, s.max)),
        us(predicted),
        off_cell(predicted.zip(kind.marginal).and_then(|(p, a)| off(p, a.median))),
    ]
}

/// Dispatches and time in µs by op, most time first.
fn by_op<'a>(rows: &[Row<'a>]) -> Vec<(&'a str, (usize, f64))> {
    let mut ops: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for row in rows {
        let op = ops.entry(row.dispatch.op).or_default();
        *op = (op.0 + 1, op.1 + row.time.map_or(0.0, |t| t.median));
    }
    let mut ops: Vec<_> = ops.into_iter().collect();
    ops.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetrip_ir::expr::Bind;

    #[test]
    fn a_driver_without_time_stamps_prints_that_and_no_zeros() {
        let cli = <crate::Cli as clap::Parser>::parse_from(["onetrip", "profile"]);
        let crate::Command::Profile(args) = cli.command else { panic!("another command") };
        let file = load::file(args.model.file.path()).expect("the model in the program");
        let step = Step::new(&args.plan).expect("a step");
        let plan = load::model(file, &args.model).expect("a model").plan(step.key()).expect("a plan");
        let bind = Bind { t: 1, s: 1, l: 8 };
        let row = Row::new(&plan.dispatches[0], &[], bind);
        let cells = row.cells(0, 100.0);
        assert_eq!((cells[3].as_str(), cells[4].as_str(), cells[8].as_str()), (NOT_OFFERED, "", "–"));
        assert!(row.json(0, 100.0)["us"].is_null() && row.rate(5).is_none());
        let timed = Row::new(&plan.dispatches[0], &[2e-6, 3e-6, 4e-6], bind);
        assert_eq!(timed.cells(0, 100.0)[3], "3.0");
    }
}
