//! `onetrip bench`: prompt and generation speed, by real steps.

mod commit_sweep;
mod rule_ablation;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use onetrip_devices::DeviceKind;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_engine::step::Engine;
use onetrip_ir::device::{Commit, RING};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::text::human;
use serde_json::json;

use crate::support::fail::Fail;
use crate::support::options::{ModelArgs, at_least_one, commit, count, path};
use crate::support::output::{Out, rate, seconds};
use crate::support::stats::Spread;
use crate::support::texts::{begin, ids, steps};
use crate::support::{device, load, machine};

/// Ticks before generation is measured.
const WARM_UP_TICKS: usize = 16;

/// Flags of `bench`.
#[derive(Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Tokens of the prompt; 0 leaves it out [default: 512, in a sweep 64]
    #[arg(long, short_alias = 'p', alias = "n-prompt", value_parser = count, allow_negative_numbers = true, value_name = "T")]
    prompt: Option<usize>,
    /// Tokens to generate; 0 leaves it out [default: 128, in a sweep 16]
    #[arg(long = "gen", short_alias = 'n', alias = "n-gen", value_parser = count, allow_negative_numbers = true, value_name = "N")]
    generate: Option<usize>,
    /// Positions in the cache before the generation begins
    #[arg(long, default_value = "0", value_parser = count, allow_negative_numbers = true, value_name = "L")]
    context: usize,
    /// Sequences at once; speeds are of all together [default: 1, in a sweep 1 and 8]
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "S")]
    batch: Option<usize>,
    /// Measured runs of each; one more comes before them to warm up
    #[arg(long, short_alias = 'r', alias = "repetitions", default_value = "5", value_parser = at_least_one, allow_negative_numbers = true, value_name = "N")]
    repeat: usize,
    /// Measure instead what each rule gains: ticks at 256 positions with all rules and with all but that one, in
    /// interleaved pairs (at least 8)
    #[arg(long, conflicts_with_all = ["prompt", "generate", "batch"])]
    rules: bool,
    /// Measure instead which commit policy is fastest (--device wgpu or cuda): interleaved rounds,
    /// at least 8; of all policies, or of those that are named: --commit-sweep=tick,every:4
    #[arg(long, num_args = 0.., require_equals = true, value_delimiter = ',', value_parser = commit,
        value_name = "POLICIES", conflicts_with_all = ["rules", "context", "commit", "encode_thread"])]
    commit_sweep: Option<Vec<Commit>>,
    /// Add the gains of --rules to FILE, in the place of what it has of this model and number of threads; or the fastest
    /// policy of --commit-sweep to the profile in FILE, without FILE to that of this device
    #[arg(long, num_args = 0..=1, value_parser = path(), value_name = "FILE")]
    write: Option<Option<PathBuf>>,
}

/// What is measured where nothing else is asked for.
struct Sizes {
    prompt: usize,
    generate: usize,
    context: usize,
    batch: usize,
    repeat: usize,
}

/// Runs the command.
pub fn main(args: BenchArgs, out: &Out) -> Result<(), Fail> {
    if args.rules {
        let context = if args.context > 0 { args.context } else { rule_ablation::CONTEXT };
        let file = match &args.write {
            Some(None) => return Err(Fail::Input("--rules --write: name a file".into())),
            other => other.as_ref().and_then(|file| file.as_deref()),
        };
        return rule_ablation::main(&args.model, context, args.repeat.max(rule_ablation::PAIRS), file, out);
    }
    if let Some(policies) = &args.commit_sweep {
        let sizes = commit_sweep::Sizes {
            prompt: args.prompt.unwrap_or(commit_sweep::PROMPT).max(1),
            ticks: args.generate.unwrap_or(commit_sweep::TICKS).max(1),
            rounds: args.repeat.max(commit_sweep::ROUNDS),
            batches: args.batch.map_or(commit_sweep::BATCHES.to_vec(), |n| vec![n]),
            policies: policies.clone(),
        };
        return commit_sweep::main(&args.model, sizes, args.write.as_ref().map(|file| file.as_deref()), out);
    }
    if args.write.is_some() {
        return Err(Fail::Input("--write: give --rules or --commit-sweep, which write what they measured".into()));
    }
    let (prompt, generate) = (args.prompt.unwrap_or(512), args.generate.unwrap_or(128));
    let BenchArgs { model, context, repeat, .. } = args;
    let batch = args.batch.unwrap_or(1);
    measure(&model, Sizes { prompt, generate, context, batch, repeat }, out)
}

fn measure(model_args: &ModelArgs, args: Sizes, out: &Out) -> Result<(), Fail> {
    if args.prompt == 0 && args.generate == 0 {
        return Err(Fail::Input("nothing to measure: give --prompt or --gen above 0".into()));
    }
    let start = Instant::now();
    let model = load::model(load::file(model_args.file.path())?, model_args)?;
    // With room to run ahead to the end: as many ticks are submitted in the measured time as are read in it.
    let ahead = if args.generate > 0 { args.generate + RING } else { 0 };
    let context = args.prompt.max(args.context.max(1) + ahead);
    let mut engine = load::engine(model, model_args, context, args.batch)?;
    let load_s = start.elapsed().as_secs_f64();
    let prefill = if args.prompt > 0 { Some(prefill(&mut engine, &args)?) } else { None };
    let decode = if args.generate > 0 { Some(decode(&mut engine, &args)?) } else { None };
    let key = PlanKey::of(args.batch, args.batch, Want::Sample { top: 0 });
    let bind = Bind {
        t: args.batch as u64,
        s: args.batch as u64,
        l: (args.context + args.generate.div_ceil(2)).max(1) as u64,
    };
    let ledger = engine.recorded(key)?.plan.ledger(bind);
    let speed = |seconds: &Option<Vec<f64>>, tokens: usize| -> Option<Spread> {
        let all: Vec<f64> = seconds.iter().flatten().map(|s| (tokens * args.batch) as f64 / s).collect();
        Spread::of(&all)
    };
    let (prefill_speed, decode_speed) = (speed(&prefill, args.prompt), speed(&decode, args.generate));
    let tick_us = decode.as_deref().and_then(Spread::of).map(|s| s.scaled(1e6 / args.generate as f64));
    let each = tick_us.map(|t| t.median / ledger.dispatches.max(1) as f64);
    let bytes_s = tick_us.map(|t| (ledger.bytes_read + ledger.bytes_written) as f64 / (t.median * 1e-6));
    let (threads, isa) = (load::threads(model_args), device::isa()?.name());
    let types = engine.model().file.types();
    let format = types.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>().join(", ");
    let weights = model_args.weights().map(|dtype| dtype.name());
    if out.json {
        return out.object(&json!({
            "prefill_tok_s": prefill_speed, "decode_tok_s": decode_speed, "load_s": load_s,
            "peak_rss_bytes": machine::peak_rss(), "machine": machine::name(), "device": model_args.device(),
            "model": model_args.file.name(), "format": format, "weights": weights, "threads": threads, "isa": isa, "date": machine::date(),
            "program_version": env!("CARGO_PKG_VERSION"), "prompt": args.prompt, "gen": args.generate, "context": args.context,
            "batch": args.batch, "repeat": args.repeat, "cache": model_args.cache().name(), "tick_us": tick_us,
            "dispatches_per_tick": ledger.dispatches, "grid_syncs_per_tick": ledger.grid_syncs,
            "tick_us_per_dispatch": each, "tick_bytes": ledger.bytes_read + ledger.bytes_written,
            "tick_bytes_per_s": bytes_s, "repacked_bytes": ledger.repacked_bytes,
        }));
    }
    let head = |name: &str, what: String| out.line(&format!("{name:<8} {what}"));
    let converted = weights.map_or(String::new(), |dtype| format!(", matrices converted to {dtype}"));
    head("model", format!("{} ({format}{converted})", model_args.file.name()))?;
    let cpu = match model_args.device().kind {
        DeviceKind::Cpu => format!(": {threads} threads, {isa} kernels"),
        DeviceKind::Cuda | DeviceKind::Wgpu => String::new(),
    };
    head("device", format!("{}{cpu}", model_args.device()))?;
    head("machine", machine::name())?;
    head("program", format!("onetrip {}, {}\n", env!("CARGO_PKG_VERSION"), machine::date()))?;
    let show = |name: String, s: Option<Spread>| match s {
        Some(s) => out.line(&format!(
            "{name:<24} {:>8} tok/s   ({}–{}, {} runs)",
            rate(s.median),
            rate(s.min),
            rate(s.max),
            args.repeat
        )),
        None => Ok(()),
    };
    let batch = if args.batch > 1 { format!(" × {}", args.batch) } else { String::new() };
    show(format!("prompt {}{batch}", args.prompt), prefill_speed)?;
    let after = if args.context > 0 { format!(" after {}", args.context) } else { String::new() };
    show(format!("generation {}{batch}{after}", args.generate), decode_speed)?;
    if let (Some(tick), Some(each), Some(bytes_s)) = (tick_us, each, bytes_s) {
        let (n, bytes) = (ledger.dispatches, human(bytes_s as u64));
        out.line(&format!("{:<24} {:.1} µs = {n} dispatches of {each:.2} µs, {bytes}B/s", "tick", tick.median))?;
    }
    let peak = machine::peak_rss().map_or("unknown".into(), |b| format!("{}B", human(b)));
    out.line(&format!("{:<24} {}, peak memory {peak}", "load", seconds(load_s)))
}

/// Seconds of each run of the prompt, up to its first new token. No run has a text that another had.
fn prefill(engine: &mut Engine, args: &Sizes) -> Result<Vec<f64>, Fail> {
    let (mut times, vocabulary) = (vec![], engine.vocabulary());
    for run in 0..=args.repeat {
        let texts: Vec<_> = (0..args.batch).map(|i| ids(args.prompt, i + args.batch * run, vocabulary)).collect();
        let sequences = begin(engine, &texts)?;
        let start = Instant::now();
        steps(engine, &sequences, args.prompt + 1)?;
        let time = start.elapsed().as_secs_f64();
        sequences.iter().for_each(|&s| engine.scheduler().remove(s));
        if run > 0 {
            times.push(time);
        }
    }
    Ok(times)
}

/// Seconds of each run of `generate` ticks, from the first new token of every sequence on: the first is at position
/// `context`. What the cache has of a text stays there; a model with recurrent states reads it again, which takes no part
/// of the time.
fn decode(engine: &mut Engine, args: &Sizes) -> Result<Vec<f64>, Fail> {
    let (mut times, vocabulary, length) = (vec![], engine.vocabulary(), args.context.max(1));
    let texts: Vec<_> = (0..args.batch).map(|i| ids(length, i, vocabulary)).collect();
    let sequences = begin(engine, &texts)?;
    for run in 0..=args.repeat {
        sequences.iter().zip(&texts).for_each(|(&seq, text)| {
            engine.scheduler().set_tokens(seq, text);
        });
        steps(engine, &sequences, length + 1)?;
        let start = Instant::now();
        let ticks = if run == 0 { args.generate.min(WARM_UP_TICKS) } else { args.generate };
        steps(engine, &sequences, length + 1 + ticks)?;
        if run > 0 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    sequences.iter().for_each(|&s| engine.scheduler().remove(s));
    Ok(times)
}
