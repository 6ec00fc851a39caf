//! `onetrip explain`: the plan of a step, as a table.

use clap::Args;
use onetrip_core::expr::Bind;
use onetrip_core::plan::Plan;
use serde_json::{Value, json};

use crate::fail::Fail;
use crate::load;
use crate::options::{ModelArgs, PlanArgs};
use crate::output::{Out, ledger_text};
use crate::plans::Step;

/// Flags of `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs the command. No weight is loaded.
pub fn main(args: ExplainArgs, out: &Out) -> Result<(), Fail> {
    let step = Step::new(&args.plan)?;
    let mut model = load::model(load::file(args.model.file.name())?, &args.model)?;
    let plan = model.plan(step.key())?;
    let ledger = plan.ledger(step.bind());
    if out.json {
        let refused = plan.refused.iter().map(|r| json!({ "rule": r.rule, "at": r.at, "why": r.why }));
        let fired = plan.fired.iter().map(|(rule, n)| json!({ "rule": rule, "fired": n }));
        return out.object(&json!({
            "model": args.model.file.name(), "device": args.model.device, "step": step.json(),
            "dispatches": dispatches(&plan, step.bind()), "ledger": ledger,
            "rules": fired.collect::<Vec<_>>(), "refused": refused.collect::<Vec<_>>(),
        }));
    }
    let arch = &model.config.arch;
    out.line(&format!("{} ({arch}): {}, device {}\n", args.model.file.name(), step.title(), args.model.device))?;
    out.text(&plan.table(Some(step.bind())))?;
    let rules = plan.rules_text();
    out.line(&format!("\n{}", if rules.is_empty() { "no rule fired\n" } else { &rules }))?;
    out.text(&ledger_text(&ledger))
}

/// The rows of a plan, for JSON.
fn dispatches(plan: &Plan, bind: Bind) -> Vec<Value> {
    let row = |(n, d): (usize, &onetrip_core::plan::Dispatch)| {
        json!({
            "n": n, "name": d.name, "op": d.op, "device": d.device, "kernel": d.kernel,
            "bytes_read": d.cost.read.eval(bind), "bytes_written": d.cost.written.eval(bind),
            "flops": d.cost.flops.eval(bind), "gap": d.gap,
        })
    };
    plan.dispatches.iter().enumerate().map(row).collect()
}
