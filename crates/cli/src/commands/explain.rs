//! `onetrip explain`: the plan of a step, as a table, with what it should take.
//!
//! JSON: `model, device, step, dispatches, ledger, rules, refused`, and
//! - `hardware`: `{name, device, date}` of the profile that predicts, or null;
//! - `predicted`: `{tick_us, rows_us, submit_us, host_us}`, or null; each of `dispatches` has `predicted_us` and
//!   `assumed` (no kernel exists: priced from the op's cost), `tuning` (sizes that its kernel was built with, by name) and
//!   `rejected` (the faster kernels that were considered first, as `{kernel, reason}`); with `--why N`, `dispatches` has that one alone;
//! - `ladder`, with `--ladder`: a list of `{rule, because, fired, refused, dispatches, bytes, predicted_us, saved}`, the
//!   first without any rule;
//! - `what_if`, with `--what-if`: of rules `{rules, now, gain_us}`; of a merge `{merge, names, launches_saved,
//!   bytes_read_saved, bytes_written_saved, before_us, after_us, gain_us}`;
//! - `listing`, of a listing: `{engine, model, date, nodes_by_op, empty_by_op}`.

use clap::Args;
use onetrip_cost::Tick;
use onetrip_devices::DeviceKind;
use onetrip_import::{Head, Listing};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::{Dispatch, Plan};
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::ladder::{self, WhatIf};
use crate::support::load::{self, Planned};
use crate::support::options::{ModelArgs, PlanArgs};
use crate::support::output::{Out, ledger_text, table};
use crate::support::predict::{Hardware, HardwareArgs};

/// Flags of `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    /// The rules one after the other: dispatches, bytes and predicted time after each, and what it saved
    #[arg(long)]
    ladder: bool,
    /// Another set of rules beside the plan's, or one kernel for two rows: `merge:17,18`
    #[arg(long, value_parser = WhatIf::parse, value_name = "RULES|merge:A,B")]
    what_if: Option<WhatIf>,
    /// Why dispatch N runs its kernel: the faster kernels that were considered first, and why each was not taken
    #[arg(long, value_name = "N", conflicts_with_all = ["ladder", "what_if"])]
    why: Option<usize>,
    /// For a device without kernels: refuse no rule, and price what is not written from its cost
    #[arg(long)]
    assume: bool,
}

/// Runs the command. No weight is loaded.
pub fn main(args: ExplainArgs, out: &Out) -> Result<(), Fail> {
    let (name, device) = (args.model.file.name(), args.model.device());
    let mut model = Planned::open(&args.model)?;
    let step = model.step(&args.plan)?;
    let hardware = Hardware::of(&args.hardware, &args.model)?;
    let pricer = hardware.pricer(&args.model);
    let plan = model.plan(step, &args.model.fuse(), args.assume)?;
    step.note(plan.ctx.target);
    if let Some(n) = args.why {
        let last = plan.dispatches.len().saturating_sub(1);
        let found = plan.dispatches.get(n);
        let d = found.ok_or_else(|| Fail::Input(format!("--why {n}: the plan has dispatches 0 to {last}")))?;
        if !out.json {
            return out.text(&why_text(n, d));
        }
    }
    let has_gaps = plan.gaps().next().is_some();
    // Where kernels are missing there is a prediction only if they are assumed.
    let pricer = pricer.as_ref().filter(|_| args.assume || !has_gaps);
    let tick = pricer.map(|p| p.tick(&plan, step.bind()));
    let ledger = plan.ledger(step.bind());
    let rungs = args.ladder.then(|| ladder::rungs(&mut model, step, args.assume, pricer)).transpose()?;
    let asked = args.what_if.as_ref();
    let answer = asked.map(|w| ladder::what_if(w, &mut model, (&plan, step), args.assume, pricer)).transpose()?;
    if !out.json {
        out.line(&format!("{name} ({}): {}, device {device}", model.origin(), step.title()))?;
        let gaps = if has_gaps && !args.assume { "; rows without kernels are not priced: give --assume" } else { "" };
        let threads = match device.kind {
            DeviceKind::Cpu => format!(", {} threads", load::threads(&args.model)),
            DeviceKind::Cuda | DeviceKind::Wgpu => String::new(),
        };
        out.line(&format!("{}{threads}{gaps}\n", hardware.line()))?;
    }
    if out.json {
        let refused = plan.refused.iter().map(|r| json!({ "rule": r.rule, "at": r.at, "why": r.why }));
        let fired = plan.fired.iter().map(|(rule, n)| json!({ "rule": rule, "fired": n }));
        let mut listed_dispatches = dispatches(&plan, step.bind(), tick.as_ref(), args.assume);
        if let Some(n) = args.why {
            listed_dispatches = vec![listed_dispatches.swap_remove(n)];
        }
        let mut all = json!({
            "model": name, "device": device, "step": step.json(),
            "dispatches": listed_dispatches, "ledger": ledger,
            "rules": fired.collect::<Vec<_>>(), "refused": refused.collect::<Vec<_>>(),
            "hardware": hardware.json(), "predicted": tick.as_ref().map(tick_json),
        });
        if let Some(rungs) = &rungs {
            all["ladder"] = ladder::json_of(rungs);
        }
        if let Some((answer, _)) = answer {
            all["what_if"] = answer;
        }
        if let Planned::Listing(listing, _) = &model {
            let Head { engine, model, date, .. } = &listing.head;
            all["listing"] = json!({
                "engine": engine, "model": model, "date": date,
                "nodes_by_op": listing.nodes_by_op, "empty_by_op": listing.empty_by_op,
            });
        }
        return out.object(&all);
    }
    if let Some((_, text)) = answer {
        return out.text(&text);
    }
    if let Some(rungs) = &rungs {
        return out.text(&ladder::text_of(rungs));
    }
    out.text(&with_prediction(&plan.table(Some(step.bind())), &plan, tick.as_ref(), args.assume))?;
    let rules = plan.rules_text();
    out.line(&format!("\n{}", if rules.is_empty() { "no rule fired\n" } else { &rules }))?;
    if let Planned::Listing(listing, _) = &model {
        out.line(&listed(listing))?;
    }
    out.text(&ledger_text(&ledger))?;
    match &tick {
        Some(tick) => out.line(&format!(
            "predicted    {:.1} µs a tick: dispatches {:.1}, submission {:.1}, host {:.1}",
            tick.total(),
            tick.dispatches.iter().sum::<f64>(),
            tick.submit,
            tick.host
        )),
        None => Ok(()),
    }
}

/// The nodes of a listing by its own names, most first.
fn listed(listing: &Listing) -> String {
    let mut ops: Vec<(&String, &u64)> = listing.nodes_by_op.iter().collect();
    ops.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let empty = |op: &str| listing.empty_by_op.get(op).copied().unwrap_or(0);
    let row = |op: &str, n: u64, empty: u64| vec![op.to_string(), n.to_string(), empty.to_string()];
    let mut rows: Vec<Vec<String>> = ops.iter().map(|(op, n)| row(op, **n, empty(op))).collect();
    rows.push(row("all", listing.nodes_by_op.values().sum(), listing.empty_by_op.values().sum()));
    table(&["node", ">listed", ">empty"], &rows)
}

fn tick_json(tick: &Tick) -> Value {
    let rows: f64 = tick.dispatches.iter().sum();
    json!({ "tick_us": tick.total(), "rows_us": rows, "submit_us": tick.submit, "host_us": tick.host })
}

/// The plan's table with one more column in front: what each row should take.
fn with_prediction(table: &str, plan: &Plan, tick: Option<&Tick>, assume: bool) -> String {
    let Some(tick) = tick else { return table.to_string() };
    let mut out = String::new();
    for (n, line) in table.lines().enumerate() {
        let cell = match n.checked_sub(1) {
            None => "predicted µs".to_string(),
            Some(row) => {
                let gap = plan.dispatches.get(row).is_some_and(|d| d.gap.is_some());
                let mark = if assume && gap { " assumed" } else { "" };
                tick.dispatches.get(row).map_or(String::new(), |us| format!("{us:.2}{mark}"))
            }
        };
        out.push_str(&format!("{cell:>14}  {line}\n"));
    }
    out
}

/// The kernels that were considered before a dispatch's own, for JSON.
fn rejected(d: &Dispatch) -> Vec<Value> {
    d.rejected.iter().map(|r| json!({ "kernel": r.kernel, "reason": r.reason })).collect()
}

/// The sizes with which a dispatch's kernel was built, for JSON.
fn tuning(d: &Dispatch) -> Value {
    let sizes = d.kernel.iter().flat_map(|k| &k.tuning);
    Value::Object(sizes.map(|(name, value)| (name.to_string(), json!(value))).collect())
}

/// The answer of `--why`.
fn why_text(n: usize, d: &Dispatch) -> String {
    let mut text = match d.gap {
        Some(gap) => format!("dispatch {n}, {}, has no kernel on {}: {gap}\n", d.name, d.device),
        None => format!("dispatch {n}, {}, runs {} on {}\n", d.name, d.kernel_name(), d.device),
    };
    let sizes: Vec<String> = d.kernel.iter().flat_map(|k| &k.tuning).map(|(name, n)| format!("{name} {n}")).collect();
    if !sizes.is_empty() {
        text += &format!("  built with {}\n", sizes.join(", "));
    }
    for r in d.rejected.iter() {
        text += &format!("  not {}: {}\n", r.kernel, r.reason);
    }
    if d.rejected.is_empty() && d.gap.is_none() {
        text += "  no other kernel is preferred to it\n";
    }
    text
}

/// The dispatches of a plan, for JSON.
fn dispatches(plan: &Plan, bind: Bind, tick: Option<&Tick>, assume: bool) -> Vec<Value> {
    let row = |(n, d): (usize, &Dispatch)| {
        json!({
            "n": n, "name": d.name, "op": d.op, "device": d.device, "kernel": d.kernel_name(),
            "bytes_read": d.cost.read.eval(bind), "bytes_written": d.cost.written.eval(bind),
            "flops": d.cost.flops.eval(bind), "gap": d.gap,
            "tuning": tuning(d), "rejected": rejected(d), "predicted_us": tick.and_then(|t| t.dispatches.get(n)), "assumed": assume && d.gap.is_some(),
        })
    };
    plan.dispatches.iter().enumerate().map(row).collect()
}
