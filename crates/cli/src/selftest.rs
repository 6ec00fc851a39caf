//! `onetrip selftest`: every op's cases on this machine's device, against what the op means.

use clap::Args;
use onetrip_core::ops::Op;
use onetrip_core::selftest::{CaseResult, Verdict, run_case};
use serde_json::json;

use crate::fail::Fail;
use crate::options::{threads, whole};
use crate::output::{Out, table};
use crate::{device, load, machine};

/// Flags of `selftest`.
#[derive(Args)]
pub struct SelftestArgs {
    /// Seed of the random inputs
    #[arg(long, default_value = "1", value_parser = whole, allow_negative_numbers = true, value_name = "N")]
    seed: u64,
    /// Only this op
    #[arg(long, value_name = "NAME", value_parser = op)]
    op: Option<String>,
    /// Device: `cpu`, `gpu`, or `gpu:NAME` of an adapter [default: cpu]
    #[arg(long, value_parser = crate::options::device, value_name = "NAME")]
    device: Option<String>,
    /// CPU kernels of this instruction set [default: the best there is]
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Threads of the CPU device [default: all processors]
    #[arg(long, value_parser = threads, allow_negative_numbers = true, value_name = "N")]
    threads: Option<usize>,
}

fn op(name: &str) -> Result<String, String> {
    match Op::NAMES.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("no such op; ops: {}", Op::NAMES.join(", "))),
    }
}

/// Runs the command.
pub fn main(args: SelftestArgs, out: &Out) -> Result<(), Fail> {
    let isa = match &args.isa {
        Some(name) => load::isa_named(name).map_err(|e| Fail::Input(format!("--isa {name}: {e}")))?,
        None => load::isa()?,
    };
    let threads = args.threads.unwrap_or_else(machine::cores);
    let name = args.device.as_deref().unwrap_or("cpu");
    let mut device = device::open(name, threads, isa, Default::default())?;
    let what = match device::split(name).0 {
        "cpu" => format!("cpu ({}, {threads} threads)", isa.name()),
        _ => name.to_string(),
    };
    let mut results: Vec<CaseResult> = vec![];
    for (name, cases) in Op::all_cases() {
        if args.op.as_ref().is_none_or(|wanted| wanted == name) {
            results.extend(cases.iter().map(|case| run_case(&mut *device, name, case, args.seed)));
        }
    }
    let count = |is: fn(&Verdict) -> bool| results.iter().filter(|r| is(&r.verdict)).count();
    let failed = count(|v| matches!(v, Verdict::Fail(_)));
    let gaps = count(|v| matches!(v, Verdict::Gap(_)));
    let passed = count(|v| matches!(v, Verdict::Pass));
    let word = |v: &Verdict| match v {
        Verdict::Pass => ("pass", None),
        Verdict::Gap(why) => ("gap", Some(why.to_string())),
        Verdict::Fail(why) => ("fail", Some(why.clone())),
    };
    if out.json {
        let row = |r: &CaseResult| {
            let (verdict, why) = word(&r.verdict);
            json!({ "op": r.op, "case": r.case, "kernels": r.kernels, "error": r.error, "tolerance": r.tolerance,
                    "verdict": verdict, "why": why })
        };
        let results: Vec<_> = results.iter().map(row).collect();
        out.object(
            &json!({ "device": name, "isa": isa.name(), "threads": threads, "seed": args.seed, "passed": passed,
                            "failed": failed, "gaps": gaps, "results": results }),
        )?;
    } else {
        let row = |r: &CaseResult| {
            let (verdict, why) = word(&r.verdict);
            let verdict = why.map_or(verdict.to_string(), |why| format!("{}: {why}", verdict.to_uppercase()));
            let errors = [format!("{:.1e}", r.error), format!("{:.0e}", r.tolerance)];
            vec![r.op.into(), r.case.clone(), r.kernels.join(" + "), errors[0].clone(), errors[1].clone(), verdict]
        };
        let rows: Vec<_> = results.iter().map(row).collect();
        out.text(&table(&["op", "case", "kernels", ">largest error", ">allowed", "verdict"], &rows))?;
        out.line(&format!("\n{what}: {passed} passed, {failed} failed, {gaps} gaps"))?;
    }
    if failed > 0 {
        let names: Vec<String> = results
            .iter()
            .filter(|r| matches!(r.verdict, Verdict::Fail(_)))
            .map(|r| format!("{}/{}", r.op, r.case))
            .take(5)
            .collect();
        return Err(Fail::Work(format!(
            "{failed} cases failed, among them {}: please report this with the table",
            names.join(", ")
        )));
    }
    Ok(())
}
