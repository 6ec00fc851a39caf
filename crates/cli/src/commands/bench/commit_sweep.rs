//! Which commit policy is fastest: `onetrip bench --commit-sweep`.
//!
//! Measures every policy, with and without the encoding thread where the device has one, for decode (ticks that run ahead) and
//! for prefill (one step with a wait), with 1 and 8 sequences. The policies of a group run in rounds, in another order in each
//! round, and each is compared with the group's best by the ratios of their times in the same round. The command fails unless
//! all policies give the same token ids. The output is Markdown.
//!
//! JSON: `rows`, a list of `{phase, batch, commit, encode_thread, submissions, encode_us, device_us, idle_us, time_us:
//! {median, min, max}, verdict}`. Times are of a tick, or of the prompt's step. `encode_us` is host time for encoding and
//! submitting; `device_us` the sum over submissions between stamps at their begin and end, from runs of their own, and null
//! where the driver offers no stamps; `idle_us` the rest of `time_us`. `verdict` is against the best of its phase and batch:
//! `best`, `slower` or `coin flip`. `fastest` is `{hand_over, usual, ratio, verdict}`: the policy with the lowest geometric
//! mean over all groups, the one used where nothing is said, their ratio of times and the verdict on it. `written` is the
//! file that `--write` changed, or null.

use std::path::{Path, PathBuf};
use std::time::Instant;

use onetrip_core::probe::{Silent, dispatch_times};
use onetrip_devices::{DeviceKind, DeviceSpec};
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_engine::profiles;
use onetrip_engine::step::Engine;
use onetrip_ir::device::{Commit, RING, SubmitMode};
use onetrip_ir::expr::Bind;
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::options::{ModelArgs, Phase};
use crate::support::output::{Out, note};
use crate::support::skipped::note_skipped;
use crate::support::stats::{Spread, verdict};
use crate::support::texts::{begin, ids, steps};
use crate::support::{device, load, machine};

/// The fewest rounds.
pub const ROUNDS: usize = 8;
/// Tokens of each prompt, where none are asked for.
pub const PROMPT: usize = 64;
/// Ticks of a run, where none are asked for.
pub const TICKS: usize = 16;
/// Numbers of sequences, where none is asked for.
pub const BATCHES: [usize; 2] = [1, 8];
/// Dispatches of a submission, between one and all.
const GROUPS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Runs with stamps; one more comes before them.
const TIMED: usize = 3;

/// What is measured.
pub struct Sizes {
    /// Tokens of each prompt.
    pub prompt: usize,
    /// Ticks of a run.
    pub ticks: usize,
    /// Rounds.
    pub rounds: usize,
    /// Numbers of sequences.
    pub batches: Vec<usize>,
    /// Policies to compare; all that the device has if there is none.
    pub policies: Vec<Commit>,
}

/// One policy of a group, with a time for each round, in seconds.
struct Cell {
    how: SubmitMode,
    times: Vec<f64>,
    /// Host time a run's dispatch took, by round.
    encode: Vec<f64>,
    device: Option<f64>,
}

/// Policies of one phase and number of sequences.
struct Group {
    phase: Phase,
    batch: usize,
    dispatches: usize,
    cells: Vec<Cell>,
}

/// Submit modes that a kind of device has: by these policies, or by every one.
fn ways(kind: DeviceKind, policies: &[Commit]) -> Vec<SubmitMode> {
    let mut all = policies.to_vec();
    if all.is_empty() {
        all.push(Commit::Each);
        all.extend(GROUPS.map(Commit::Every));
        all.push(Commit::Tick);
        all.extend(kind.keeps_ticks().then_some(Commit::Replay));
    }
    let threads: &[bool] = if kind.has_encode_thread() { &[false, true] } else { &[false] };
    let way = |commit| threads.iter().map(move |&t| SubmitMode { encode_thread: t, ..SubmitMode::by(commit) });
    all.into_iter().flat_map(way).collect()
}

/// Measures, prints, and with `write` keeps the fastest in a profile: the device's own, or that of a file.
pub fn main(args: &ModelArgs, sizes: Sizes, write: Option<Option<&Path>>, out: &Out) -> Result<(), Fail> {
    let kind = args.device().kind;
    if !kind.is_gpu() {
        let what = "--commit-sweep is for GPUs, the CPU submits nothing: give --device wgpu or --device cuda";
        return Err(Fail::Input(what.into()));
    }
    let Some((hardware, caps)) = device::identity(args.device())? else {
        return Err(Fail::Input(format!("there is no {} here: `onetrip devices` says why", args.device())));
    };
    // Before a minute of measuring.
    let file = write.map(|file| profile_file(file, &hardware, &caps.isa, args.device())).transpose()?;
    let model = load::model(load::file(args.file.path())?, args)?;
    let most = sizes.batches.iter().copied().max().unwrap_or(1);
    // With room to run ahead to the end: as many ticks are submitted in the measured time as are read in it.
    let mut engine = load::engine(model, args, sizes.prompt + sizes.ticks + 1 + RING, most)?;
    let (mut groups, usual) = (vec![], kind.default_hand_over());
    let mut ways = ways(kind, &sizes.policies);
    if !ways.contains(&usual) {
        ways.push(usual);
    }
    for phase in [Phase::Decode, Phase::Prefill] {
        for &batch in &sizes.batches {
            note(&format!("{} × {batch}", phase.name()));
            groups.push(measure(&mut engine, phase, batch, &sizes, &ways)?);
        }
    }
    let (fastest, ratios) = fastest(&groups, usual);
    let (word, ratio) = (verdict(&ratios), Spread::of(&ratios).map_or(1.0, |s| s.median));
    let kept = if word == "faster" { fastest } else { usual };
    if let Some(file) = &file {
        profiles::write_commit(file, kind.name(), kept).map_err(|e| Fail::Input(e.to_string()))?;
    }
    let path = args.file.path();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    if out.json {
        let rows: Vec<Value> = groups.iter().flat_map(Group::json).collect();
        let fastest = json!({ "hand_over": fastest, "usual": usual, "ratio": ratio, "verdict": word });
        return out.object(&json!({
            "model": name, "device": args.device(), "hardware": hardware, "machine": machine::name(),
            "date": machine::date(), "program_version": env!("CARGO_PKG_VERSION"), "prompt": sizes.prompt, "ticks": sizes.ticks,
            "rounds": sizes.rounds, "rows": rows, "fastest": fastest, "written": file,
        }));
    }
    out.line(&format!(
        "{hardware} ({}), {name}, onetrip {}, {}: medians of {} interleaved rounds, prompts of {} tokens, {} ticks a round.",
        args.device(),
        env!("CARGO_PKG_VERSION"),
        machine::date(),
        sizes.rounds,
        sizes.prompt,
        sizes.ticks
    ))?;
    groups.iter().try_for_each(|group| out.text(&group.text()))?;
    out.line(&format!(
        "\nOver all groups `{fastest}` has the lowest times; beside `{usual}`, which is used where nothing is said: {word} \
         (×{ratio:.3})."
    ))?;
    file.map_or(Ok(()), |file| out.line(&format!("\n`{kept}` is written into {}.", file.display())))
}

/// The profile that the fastest is written into.
fn profile_file(asked: Option<&Path>, hardware: &str, isa: &str, device: &DeviceSpec) -> Result<PathBuf, Fail> {
    match asked {
        Some(file) => {
            let known = profiles::named(&file.to_string_lossy()).map_err(|e| Fail::Input(e.to_string()))?;
            match known.device == hardware {
                true => Ok(file.into()),
                false => Err(Fail::Input(format!("{} is of {}, not of {hardware}", file.display(), known.device))),
            }
        }
        None => profiles::of_device(hardware, &mut note_skipped)
            .find(|(_, p)| p.caps.isa == isa)
            .map(|(path, _)| path)
            .ok_or_else(|| {
                Fail::Input(format!(
                    "no profile of {hardware} to write into: run `onetrip calibrate --device {device}` once"
                ))
            }),
    }
}

fn measure(engine: &mut Engine, phase: Phase, batch: usize, sizes: &Sizes, ways: &[SubmitMode]) -> Result<Group, Fail> {
    let (s, prompt) = (batch as u64, sizes.prompt as u64);
    let bind = match phase {
        Phase::Decode => Bind { t: s, s, l: prompt + sizes.ticks as u64 / 2 + 1 },
        Phase::Prefill => Bind { t: s * prompt, s, l: prompt },
    };
    let key = PlanKey::of(bind.t as usize, batch, Want::Sample { top: 0 });
    let dispatches = engine.recorded(key)?.plan.dispatches.len();
    let cell = |&how: &SubmitMode| Cell { how, times: vec![], encode: vec![], device: None };
    let mut cells: Vec<Cell> = ways.iter().map(cell).collect();
    let step = engine.record_with(key, &mut Silent)?;
    let mut shaped = engine.shaped_batch(bind)?;
    // The first round warms up.
    for round in 0..=sizes.rounds {
        let mut answer: Option<(SubmitMode, Vec<Vec<u32>>)> = None;
        for turn in 0..cells.len() {
            // Another order each time: round by round from another cell on, forwards and backwards.
            let turn = if round % 2 == 0 { turn } else { cells.len() - 1 - turn };
            let n = (turn + 5 * round) % cells.len();
            let how = cells[n].how;
            engine.set_submit_mode(how)?;
            let (host, counts) = (engine.device().host_time(), engine.device().counts());
            let (time, tokens) = match phase {
                Phase::Decode => ticks(engine, batch, sizes, round)?,
                Phase::Prefill => {
                    let (run, time) = engine.submit(&step, &mut shaped)?;
                    let out = engine.output(run, &step, batch)?;
                    (time, vec![out.chunks_exact(2).map(|row| row[0].to_bits()).collect()])
                }
            };
            match &answer {
                None => answer = Some((how, tokens)),
                Some((other, same)) if *same != tokens => {
                    let what = format!("{} × {batch}: {how} and {other} give different tokens", phase.name());
                    return Err(Fail::Work(format!("{what}: {tokens:?}, {same:?}")));
                }
                Some(_) => {}
            }
            if round > 0 {
                let encode = (engine.device().host_time().encode - host.encode).as_secs_f64();
                let ran = engine.device().counts().dispatches - counts.dispatches;
                cells[n].times.push(time);
                cells[n].encode.push(encode / ran.max(1) as f64 * dispatches as f64);
            }
        }
    }
    for cell in &mut cells {
        engine.set_submit_mode(SubmitMode { timed: true, ..cell.how })?;
        let mut busy = vec![];
        for run in 0..=TIMED {
            engine.submit(&step, &mut shaped)?;
            let stamps = engine.device().stamps();
            if run > 0 && !stamps.is_empty() {
                busy.push(dispatch_times(stamps).0.iter().sum::<f64>());
            }
        }
        cell.device = Spread::of(&busy).map(|s| s.median);
    }
    Ok(Group { phase, batch, dispatches, cells })
}

/// Seconds of a tick, of ticks that follow the first new token of every sequence; and all texts.
fn ticks(engine: &mut Engine, batch: usize, sizes: &Sizes, round: usize) -> Result<(f64, Vec<Vec<u32>>), Fail> {
    let vocabulary = engine.vocabulary();
    let texts: Vec<Vec<u32>> = (0..batch).map(|i| ids(sizes.prompt, i + batch * round, vocabulary)).collect();
    let sequences = begin(engine, &texts)?;
    steps(engine, &sequences, sizes.prompt + 1)?;
    let start = Instant::now();
    steps(engine, &sequences, sizes.prompt + 1 + sizes.ticks)?;
    let time = start.elapsed().as_secs_f64() / sizes.ticks as f64;
    let texts = sequences.iter().map(|&s| engine.scheduler().tokens(s)[..sizes.prompt + 1 + sizes.ticks].to_vec());
    let texts = texts.collect();
    sequences.iter().for_each(|&s| engine.scheduler().remove(s));
    Ok((time, texts))
}

/// The way with the lowest geometric mean of its times over the groups, and for each round the usual way's mean ÷ its.
fn fastest(groups: &[Group], usual: SubmitMode) -> (SubmitMode, Vec<f64>) {
    let logs = |how: SubmitMode| -> Vec<f64> {
        let of = |g: &Group| g.cells.iter().find(|c| c.how == how).map(|c| c.times.clone()).unwrap_or_default();
        let all: Vec<Vec<f64>> = groups.iter().map(of).collect();
        let rounds = all.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |round: usize| all.iter().map(|t| t[round].ln()).sum::<f64>() / all.len() as f64;
        (0..rounds).map(mean).collect()
    };
    let median = |how: SubmitMode| Spread::of(&logs(how)).map_or(f64::INFINITY, |s| s.median);
    let all = groups.first().into_iter().flat_map(|g| &g.cells).map(|c| c.how);
    let best = all.min_by(|a, b| median(*a).total_cmp(&median(*b))).unwrap_or(usual);
    (best, logs(usual).iter().zip(logs(best)).map(|(usual, best)| (usual - best).exp()).collect())
}

impl Cell {
    fn time(&self) -> Spread {
        Spread::of(&self.times).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 }).scaled(1e6)
    }

    fn encode(&self) -> f64 {
        Spread::of(&self.encode).map_or(0.0, |s| s.median * 1e6)
    }
}

impl Group {
    fn best(&self) -> usize {
        let median = |n: &usize| self.cells[*n].time().median;
        (0..self.cells.len()).min_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or(0)
    }

    /// One word on a cell.
    fn verdict(&self, n: usize) -> &'static str {
        let best = self.best();
        if n == best {
            return "best";
        }
        let ratios = self.cells[best].times.iter().zip(&self.cells[n].times).map(|(best, own)| best / own);
        verdict(&ratios.collect::<Vec<_>>())
    }

    fn json(&self) -> Vec<Value> {
        let row = |(n, c): (usize, &Cell)| {
            let device = c.device.map(|s| s * 1e6);
            json!({
                "phase": self.phase.name(), "batch": self.batch, "commit": c.how.commit.to_string(),
                "encode_thread": c.how.encode_thread, "submissions": c.how.commit.submissions(self.dispatches),
                "encode_us": c.encode(), "device_us": device, "idle_us": device.map(|us| c.time().median - us),
                "time_us": c.time(), "verdict": self.verdict(n),
            })
        };
        self.cells.iter().enumerate().map(row).collect()
    }

    /// A table in Markdown.
    fn text(&self) -> String {
        let (phase, n) = (self.phase.name(), self.batch);
        let unit = if self.phase == Phase::Decode { "tick" } else { "prompt" };
        let sequences = if n == 1 { "1 sequence".into() } else { format!("{n} sequences") };
        let mut out = format!("\n**{phase}, {sequences}, {} dispatches**\n\n", self.dispatches);
        out += &format!("| commit | submissions | encode µs | device µs | idle µs | {unit} µs (min–max) | |\n");
        out += "|---|--:|--:|--:|--:|--:|---|\n";
        for (n, c) in self.cells.iter().enumerate() {
            let time = c.time();
            let (device, idle) = match c.device {
                Some(s) => (format!("{:.0}", s * 1e6), format!("{:.0}", time.median - s * 1e6)),
                None => ("not offered".into(), "–".into()),
            };
            let submissions = c.how.commit.submissions(self.dispatches);
            out += &format!(
                "| {} | {submissions} | {:.0} | {device} | {idle} | {:.0} ({:.0}–{:.0}) | {} |\n",
                c.how,
                c.encode(),
                time.median,
                time.min,
                time.max,
                self.verdict(n)
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(times: &[(&str, [f64; 8])]) -> Group {
        let cell = |(how, times): &(&str, [f64; 8])| Cell {
            how: how.parse().expect("a policy"),
            times: times.to_vec(),
            encode: vec![1e-6; 8],
            device: None,
        };
        Group { phase: Phase::Decode, batch: 1, dispatches: 9, cells: times.iter().map(cell).collect() }
    }

    #[test]
    fn policies_are_compared_with_the_best_of_their_group_and_over_all_groups() {
        let near = |x: f64| [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01].map(|n| n * x);
        let a = group(&[("each", near(3.0)), ("tick", near(1.0)), ("every:4+thread", [1.003; 8])]);
        let b = group(&[("each", near(1.0)), ("tick", near(2.0)), ("every:4+thread", near(1.1))]);
        assert_eq!([0, 1, 2].map(|n| a.verdict(n)), ["slower", "best", "coin flip"]);
        assert_eq!([0, 1, 2].map(|n| b.verdict(n)), ["best", "slower", "slower"]);
        let (best, ratios) = fastest(&[a, b], SubmitMode::by(Commit::Tick));
        assert_eq!((best.to_string().as_str(), verdict(&ratios)), ("every:4+thread", "faster"));
    }

    #[test]
    fn a_row_of_a_driver_without_stamps_says_so() {
        let g = group(&[("tick", [1e-3; 8]), ("every:4", [2e-3; 8])]);
        let text = g.text();
        assert!(text.contains("| every:4 | 3 | 1 | not offered | – | 2000 (2000–2000) | slower |"), "{text}");
        assert!(g.json()[1]["device_us"].is_null() && g.json()[1]["idle_us"].is_null());
    }

    #[test]
    fn every_device_is_measured_with_what_it_has() {
        let names = |kind| ways(kind, &[]).iter().map(SubmitMode::to_string).collect::<Vec<_>>();
        assert_eq!(names(DeviceKind::Wgpu).len(), 16);
        let of_wgpu = names(DeviceKind::Wgpu);
        assert!(of_wgpu.contains(&"every:64+thread".into()) && !of_wgpu.contains(&"replay".into()));
        assert_eq!(names(DeviceKind::Cuda).len(), 9);
        assert!(names(DeviceKind::Cuda).contains(&"replay".into()));
        assert_eq!(ways(DeviceKind::Wgpu, &[Commit::Every(3)]).len(), 2);
    }
}
