//! `onetrip profile`: the rows of a plan with the time that each takes, beside the one that was predicted.
//!
//! JSON: each of `rows` has `predicted_us` and `predicted_off` (0.1 is 10 % too high); `predicted` is
//! `{tick_us, rows_us, submit_us, host_us, off, findings}` or null, `off` against `as_run_us`, `findings` the numbers of
//! the rows that are more than 25 % off; `hardware` names the profile.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use onetrip_core::plan::{Dispatch, human};
use onetrip_core::probe::{Stamps, dispatch_times};
use onetrip_engine::step::Engine;
use serde_json::{Value, json};

use crate::fail::Fail;
use crate::options::{ModelArgs, PlanArgs, at_least_one};
use crate::output::{Out, table};
use crate::plans::Step;
use crate::predict::{FINDING, Hardware, HardwareArgs, off, off_cell};
use crate::stats::Spread;
use crate::{load, machine};

/// Runs before any is measured.
const WARM_UP: usize = 3;
/// Medians of fewer runs are not honest.
const LEAST_REPEATS: usize = 5;

/// Flags of `profile`.
#[derive(Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    model: ModelArgs,
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
    host: Vec<f64>,
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
    step.note(plan.setting.target);
    let bind = step.bind();
    let mut rows: Vec<Row> = plan.dispatches.iter().zip(&measured.rows).map(|(d, t)| Row::new(d, t, bind)).collect();
    let tick = hardware.pricer(&args.model).map(|p| p.tick(&plan, bind));
    if let Some(tick) = &tick {
        rows.iter_mut().zip(&tick.rows).for_each(|(row, us)| row.predicted = Some(*us));
    }
    let findings: Vec<usize> =
        (0..rows.len()).filter(|&n| rows[n].off().is_some_and(|off| off.abs() > FINDING)).collect();
    let spread = |values: &[f64]| {
        Spread::of(values).map(|s| s.scaled(1e6)).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 })
    };
    let [as_run, as_timed, gaps, host, unexplained] =
        [&measured.as_run, &measured.as_timed, &measured.gaps, &measured.host, &measured.unexplained]
            .map(|v| spread(v));
    let ops = by_op(&rows);
    let predicted = tick.as_ref().map(|t| {
        let (total, rows) = (t.total(), t.rows.iter().sum::<f64>());
        json!({ "tick_us": total, "rows_us": rows, "submit_us": t.submit, "host_us": t.host,
            "off": off(total, as_run.median), "findings": findings })
    });
    if out.json {
        return out.object(&json!({
            "model": args.model.file.name(), "device": args.model.device(), "machine": machine::name(), "date": machine::date(),
            "isa": load::isa()?.name(), "threads": load::threads(&args.model), "step": step.json(), "repeat": args.repeat,
            "rows": rows.iter().enumerate().map(|(n, r)| r.json(n, as_timed.median)).collect::<Vec<_>>(),
            "by_op": ops.iter().map(|(op, (n, us))| json!({ "op": op, "dispatches": n, "us": us })).collect::<Vec<_>>(),
            "as_run_us": as_run.median, "as_timed_us": as_timed.median, "gaps_us": gaps.median, "host_us": host.median,
            "unexplained_us": unexplained.median,
            "spread_us": { "as_run": as_run, "as_timed": as_timed, "gaps": gaps, "host": host, "unexplained": unexplained },
            "hardware": hardware.json(), "predicted": predicted,
            "us_per_dispatch": as_run.median / rows.len().max(1) as f64,
        }));
    }
    let threads = load::threads(&args.model);
    out.line(&format!("{}: {}", args.model.file.name(), step.title()))?;
    out.line(&format!(
        "{}, {} kernels, {threads} threads, {}; median of {}\n",
        machine::name(),
        load::isa()?.name(),
        machine::date(),
        args.repeat
    ))?;
    let cells: Vec<_> = rows.iter().enumerate().map(|(n, r)| r.cells(n, as_timed.median)).collect();
    out.text(&table(
        &[">#", "name", "kernel", ">µs", ">min–max", ">predicted", ">off", ">share", ">bytes/s", ">op/s"],
        &cells,
    ))?;
    let total: f64 = rows.iter().map(|r| r.time.median).sum();
    let cells =
        ops.iter().map(|(op, (n, us))| vec![op.to_string(), n.to_string(), format!("{us:.1}"), share(*us, total)]);
    out.text(&format!("\n{}", table(&["op", ">dispatches", ">µs", ">share"], &cells.collect::<Vec<_>>())))?;
    let line =
        |name: &str, s: Spread| vec![name.into(), format!("{:.1}", s.median), format!("{:.1}–{:.1}", s.min, s.max)];
    let totals = [
        line("as run", as_run),
        line("as timed", as_timed),
        vec!["  dispatches".into(), format!("{total:.1}"), "sum of medians".into()],
        line("  between stamps", gaps),
        line("  host", host),
        line("  unexplained", unexplained),
    ];
    out.text(&format!("\n{}", table(&["tick", ">µs", ">min–max"], &totals)))?;
    out.line(&format!("\n{} dispatches, {:.2} µs each as run", rows.len(), as_run.median / rows.len().max(1) as f64))?;
    let Some(tick) = &tick else { return out.line(&hardware.line()) };
    let off = off_cell(off(tick.total(), as_run.median));
    out.line(&format!("predicted {:.1} µs a tick ({} of as run); {}", tick.total(), off.trim_end(), hardware.line()))?;
    out.line(&format!("{} rows are more than {:.0} % off (marked !)", findings.len(), 100.0 * FINDING))
}

fn measure(engine: &mut Engine, step: Step, repeat: usize) -> Result<Measured, Fail> {
    let mut batch = engine.shaped_batch(step.bind())?;
    let recorded = engine.record_with(step.key(), &mut Stamps)?;
    let mut m = Measured {
        rows: vec![vec![]; recorded.plan.dispatches.len()],
        gaps: vec![],
        host: vec![],
        as_run: vec![],
        as_timed: vec![],
        unexplained: vec![],
    };
    for run in 0..WARM_UP + repeat {
        // In turns, so that a slow moment of the machine hits both alike.
        let as_run = engine.time_step(&mut batch)?;
        let (_, as_timed) = engine.submit(&recorded, &mut batch)?;
        let stamps = engine.device().stamps();
        let (times, gaps) = dispatch_times(stamps);
        // Until the first dispatch: operands are looked up, workers wake.
        let first = stamps.first().copied().unwrap_or(0.0);
        // The host's part, on its own: writing the parameters.
        let start = Instant::now();
        batch.fill_rope(&recorded.plan.ropes);
        let host = start.elapsed().as_secs_f64();
        if run < WARM_UP {
            continue;
        }
        m.rows.iter_mut().zip(&times).for_each(|(row, t)| row.push(*t));
        let gaps = gaps + first;
        m.unexplained.push(as_timed - times.iter().sum::<f64>() - gaps - host);
        m.gaps.push(gaps);
        m.host.push(host);
        m.as_run.push(as_run);
        m.as_timed.push(as_timed);
    }
    Ok(m)
}

/// A row of the plan with its time in µs.
struct Row<'a> {
    dispatch: &'a Dispatch,
    time: Spread,
    bytes: u64,
    flops: u64,
    /// In µs.
    predicted: Option<f64>,
}

impl<'a> Row<'a> {
    fn new(dispatch: &'a Dispatch, times: &[f64], bind: onetrip_core::expr::Bind) -> Row<'a> {
        let time = Spread::of(times).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 }).scaled(1e6);
        let bytes = dispatch.cost.read.eval(bind).saturating_add(dispatch.cost.written.eval(bind));
        Row { dispatch, time, bytes, flops: dispatch.cost.flops.eval(bind), predicted: None }
    }

    /// How far the prediction is off.
    fn off(&self) -> Option<f64> {
        off(self.predicted?, self.time.median)
    }

    /// Per second, where the clock saw any time pass.
    fn rate(&self, amount: u64) -> Option<f64> {
        (self.time.median > 0.0).then(|| amount as f64 / (self.time.median * 1e-6))
    }

    fn json(&self, n: usize, tick: f64) -> Value {
        let d = self.dispatch;
        json!({
            "n": n, "name": d.name, "op": d.op, "device": d.device, "kernel": d.kernel, "us": self.time.median,
            "us_min": self.time.min, "us_max": self.time.max, "share": if tick > 0.0 { self.time.median / tick } else { 0.0 },
            "bytes": self.bytes, "flops": self.flops, "bytes_per_s": self.rate(self.bytes), "flop_per_s": self.rate(self.flops),
            "predicted_us": self.predicted, "predicted_off": self.off(),
        })
    }

    fn cells(&self, n: usize, tick: f64) -> Vec<String> {
        let (d, t) = (self.dispatch, self.time);
        let rate = |amount| self.rate(amount).map_or("–".into(), |r| human(r as u64));
        let range = format!("{:.1}–{:.1}", t.min, t.max);
        let (us, part) = (format!("{:.1}", t.median), share(t.median, tick));
        let predicted = self.predicted.map_or("–".into(), |us| format!("{us:.1}"));
        let off = off_cell(self.off());
        let (bytes, flops) = (rate(self.bytes), rate(self.flops));
        vec![n.to_string(), d.name.clone(), d.kernel.clone(), us, range, predicted, off, part, bytes, flops]
    }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "–".into() }
}

/// Dispatches and time in µs by op, most time first.
fn by_op<'a>(rows: &[Row<'a>]) -> Vec<(&'a str, (usize, f64))> {
    let mut ops: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for row in rows {
        let op = ops.entry(row.dispatch.op).or_default();
        *op = (op.0 + 1, op.1 + row.time.median);
    }
    let mut ops: Vec<_> = ops.into_iter().collect();
    ops.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    ops
}
