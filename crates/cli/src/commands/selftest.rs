//! `onetrip selftest`: every op's cases on this machine's device, against what the op means. With `--replays`, steps of a
//! model again and again instead: no bit may differ.
//!
//! JSON of `--replays`: `device, model, delays, seconds, steps`, each of which has `step, times, numbers, different, first`
//! (the first run that differs, and the number in it) `, states` (numbers of the states that differ at the end) `, counted,
//! planned` (dispatches, submissions and waits of a run) `, holds`.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use onetrip_core::cases::case_plan;
use onetrip_core::fuse::Fuse;
use onetrip_core::ops::{Case, Op};
use onetrip_core::record::prepare;
use onetrip_devices::selftest::{CaseResult, Verdict, run_case};
use onetrip_devices::{DeviceKind, DeviceSpec, Settings, host};
use onetrip_engine::model::{Model, ModelOptions};
use onetrip_engine::renamed;
use onetrip_engine::replay::Replays;
use onetrip_engine::step::Engine;
use onetrip_engine::switch;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::target::Compute;
use serde_json::json;

use crate::support::fail::Fail;
use crate::support::options::{DEFAULT_DEVICE, FileArgs, at_least_one, threads, whole};
use crate::support::output::{Out, progress, seconds, table};
use crate::support::{device, load};

/// Flags of `selftest`.
#[derive(Args)]
pub struct SelftestArgs {
    /// Seed of the random inputs
    #[arg(long, default_value = "1", value_parser = whole, allow_negative_numbers = true, value_name = "N")]
    seed: u64,
    /// Only this op
    #[arg(long, value_name = "NAME", value_parser = op)]
    op: Option<String>,
    /// Run steps of the model N times instead, from the same states, and compare every bit of the logits; CUDA kernels wait random
    /// short whiles with ONETRIP_CUDA_DELAYS=SEED
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true, conflicts_with = "op")]
    replays: Option<usize>,
    #[command(flatten)]
    pub file: FileArgs,
    /// Device: `cpu`, `cuda` or `cuda:1`, `wgpu`, or `wgpu:NAME` of an adapter [default: cpu]
    #[arg(long, value_parser = crate::support::options::device, value_name = "NAME")]
    device: Option<DeviceSpec>,
    /// Precision of activations: `int8`, `f16`, `bf16` or `f32` [default: each case's own, int8 for nearly all]
    #[arg(long, value_parser = crate::support::options::compute, value_name = "TYPE")]
    compute: Option<Compute>,
    /// CPU kernels of this instruction set [default: the best there is]
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Threads of the CPU device [default: all processors]
    #[arg(long, short_alias = 't', value_parser = threads, allow_negative_numbers = true, value_name = "N")]
    threads: Option<usize>,
}

fn op(name: &str) -> Result<String, String> {
    let name = renamed::new_name(renamed::OPS, name);
    match Op::NAMES.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("no such op; ops: {}", Op::NAMES.join(", "))),
    }
}

/// Runs the command.
pub fn main(args: SelftestArgs, out: &Out) -> Result<(), Fail> {
    let isa = match &args.isa {
        Some(name) => device::isa_named(name).map_err(|e| Fail::Input(format!("--isa {name}: {e}")))?,
        None => device::isa()?,
    };
    let threads = args.threads.unwrap_or_else(host::cores);
    let spec = args.device.as_ref().unwrap_or(&DEFAULT_DEVICE);
    let settings = Settings { threads, isa, ..device::settings(spec)? };
    match (args.replays, &args.file.model) {
        (Some(times), _) => return replays(times, args.file.path(), (spec, &settings), out),
        (None, Some(_)) => {
            return Err(Fail::Usage("a model is for --replays N: the ops are tested without one".into()));
        }
        (None, None) => {}
    }
    let mut device = device::open(spec, &settings, Default::default())?;
    let what = match spec.kind {
        DeviceKind::Cpu => format!("{spec} ({}, {threads} threads)", isa.name()),
        DeviceKind::Cuda | DeviceKind::Wgpu => spec.to_string(),
    };
    let wanted = |op: &str| args.op.as_ref().is_none_or(|wanted| wanted == op);
    let computing = |case: Case| Case { compute: args.compute.unwrap_or(case.compute), ..case };
    let of_op = |(op, cases): (&'static str, Vec<Case>)| cases.into_iter().map(move |case| (op, computing(case)));
    let cases: Vec<(&'static str, Case)> =
        Op::all_cases().into_iter().filter(|(op, _)| wanted(op)).flat_map(of_op).collect();
    let target = device.target();
    // A case that has no plan says so when it runs.
    prepare(cases.iter().filter_map(|(_, case)| case_plan(case, target).ok()), &mut *device);
    let run = |(op, case): &(&'static str, Case)| run_case(&mut *device, op, case, args.seed);
    let results: Vec<CaseResult> = cases.iter().map(run).collect();
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
            &json!({ "device": spec, "isa": isa.name(), "threads": threads, "seed": args.seed, "passed": passed,
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

/// Steps that are replayed, and by how much less often than was asked for: the first fills the caches of the others.
const STEPS: [(&str, Bind, usize); 4] = [
    ("a prompt of 4 × 17 tokens", Bind { t: 68, s: 4, l: 17 }, 20),
    ("one token at 18 positions", Bind { t: 1, s: 1, l: 18 }, 1),
    ("one token of 4 sequences", Bind { t: 4, s: 4, l: 18 }, 5),
    ("a prompt of 100 tokens", Bind { t: 100, s: 1, l: 120 }, 20),
];

fn replays(times: usize, path: &Path, (spec, settings): (&DeviceSpec, &Settings), out: &Out) -> Result<(), Fail> {
    let start = Instant::now();
    let options = ModelOptions {
        cache: DType::F16,
        weights: None,
        compute: Compute::Int8,
        fuse: Fuse::All,
        target: spec.target(settings),
        device: spec.kind.name().to_string(),
    };
    let model = Model::new(load::file(path)?, options)?;
    let device = device::open(spec, settings, Default::default())?;
    let mut engine = Engine::load(model, device, 128, 4, settings.threads, &|_, _| {})?;
    let mut bar = None;
    let all: usize = STEPS.iter().map(|(.., less)| times.div_ceil(*less)).sum();
    let mut done = 0;
    let found = engine.replays(&STEPS.map(|(_, bind, less)| (bind, times.div_ceil(less))), &mut || {
        done += 1;
        progress(&mut bar, "replaying", done, all);
    })?;
    let rows: Vec<(&str, Replays)> = STEPS.iter().map(|(step, ..)| *step).zip(found).collect();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let wrong: Vec<&str> = rows.iter().filter(|(_, r)| !r.hold()).map(|(step, _)| *step).collect();
    let (took, delays) = (start.elapsed().as_secs_f64(), switch::get("ONETRIP_CUDA_DELAYS"));
    if out.json {
        let row = |(step, r): &(&str, Replays)| {
            json!({ "step": step, "times": r.times, "numbers": r.numbers, "different": r.different, "first": r.first,
                "states": r.states, "counted": r.counted, "planned": r.planned, "holds": r.hold() })
        };
        let steps: Vec<_> = rows.iter().map(row).collect();
        let model = path.to_string_lossy();
        out.object(&json!({ "device": spec, "model": model, "delays": delays, "seconds": took, "steps": steps }))?;
    } else {
        let cells: Vec<_> = rows
            .iter()
            .map(|(step, r)| {
                let verdict = match r.first {
                    _ if r.hold() => "equal in every bit, counted as planned".into(),
                    Some((run, at)) => format!("DIFFERS {} times, first in run {run} at number {at}", r.different),
                    None if !r.states.is_empty() => format!("DIFFERS in states {:?}", r.states),
                    None => {
                        let counted = r.counted.unwrap_or_default();
                        format!("dispatches, submissions, waits are {counted:?}, planned {:?}", r.planned)
                    }
                };
                vec![step.to_string(), r.times.to_string(), r.numbers.to_string(), verdict]
            })
            .collect();
        out.text(&table(&["step", ">replays", ">logits", "verdict"], &cells))?;
        let delays = delays.map_or(String::new(), |seed| format!(", delays of seed {seed}"));
        out.line(&format!("\n{spec}{delays}: {}", seconds(took)))?;
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Fail::Work(format!(
            "results depend on time, or counts differ, in {}: please report this",
            wrong.join(", ")
        ))),
    }
}
