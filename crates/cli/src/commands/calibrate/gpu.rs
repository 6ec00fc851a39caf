//! Calibration of a GPU through the `Device` trait alone: pairs of chains of dispatches that differ in length, the host's time
//! for a submission, and copies.

use std::sync::Arc;
use std::time::Instant;

use onetrip_core::probe::Silent;
use onetrip_core::record::{prepare, record};
use onetrip_cost::calibrate::Chain;
use onetrip_cost::calibrate::layers::{Layers, layers};
use onetrip_cost::calibrate::pairs::{Extent, FORMATS, Pair, pairs, tiny};
use onetrip_cost::profile::VERSION;
use onetrip_cost::{Curve, Kind, Profile};
use onetrip_devices::{DeviceKind, DeviceSpec};
use onetrip_engine::profiles;
use onetrip_engine::scheduler::PAGE_LEN;
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{Device, DeviceError, Recording, WeightData};
use onetrip_ir::plan::Plan;

use super::store::{CalibrateArgs, Curves, slug, store};
use crate::support::fail::Fail;
use crate::support::output::{Out, note, progress, seconds, table};
use crate::support::skipped::note_skipped;
use crate::support::stats::Spread;
use crate::support::{device, machine};

/// Seconds that a series of back-to-back runs takes, of which one time is measured: so long that the clock's resolution and
/// the last wait are negligible.
const BURST_S: f64 = 4e-3;
const MOST_IN_BURST: f64 = 32.0;
/// Lower bound for the time of a dispatch: shorter results are noise of a busy machine.
const LEAST_US: f64 = 0.01;

/// Bytes on the host that serve as every weight.
struct Filler(Arc<Vec<u8>>, usize);

/// Bytes that are small positive values in every element type and differ from each other, so that an op that looks for the
/// largest (sampling) has real work to do.
fn filler(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = |i: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let byte = (state >> 24) as u8;
        // The upper byte of a 16-bit or 32-bit number.
        if i % 2 == 1 { 0x2c + byte % 8 } else { byte }
    };
    let block: Vec<u8> = (0..bytes.min(1 << 20)).map(&mut next).collect();
    block.iter().copied().cycle().take(bytes).collect()
}

impl AsRef<[u8]> for Filler {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// Runs the command for a GPU.
pub fn main(args: &CalibrateArgs, spec: &DeviceSpec, out: &Out) -> Result<(), Fail> {
    if args.threads.is_some() {
        return Err(Fail::Input("--threads is for the CPU: leave it out, or leave --device out".into()));
    }
    let start = Instant::now();
    let mut gpu = device::open(spec, &device::settings(spec)?, Default::default())?;
    let Some((title, caps)) = device::identity(spec)? else {
        return Err(Fail::Work(format!("{spec} is gone")));
    };
    let formats = if args.formats.is_empty() { FORMATS.to_vec() } else { args.formats.clone() };
    let mut curves = Curves::default();
    let extent = Extent { quick: args.quick };
    let skipped = measure(&mut *gpu, spec.kind, &formats, extent, args.repeat, &mut curves)?;
    let (date, took) = (machine::date(), start.elapsed().as_secs_f64());
    let how = if args.quick { ", --quick" } else { "" };
    let commit = profiles::of_device(&title, &mut note_skipped)
        .next()
        .map_or_else(Default::default, |(_, before)| before.commit);
    let profile = Profile {
        version: VERSION,
        name: args.name.clone().unwrap_or_else(|| slug(&format!("{title} {}", spec.kind))),
        note: format!(
            "Measured by `onetrip calibrate --device {spec}{how}` {} on {date} in {took:.0} s: medians of {} runs with min \
             and max, of what a longer chain of one op takes more than a shorter one; no model plan. Times in µs.",
            env!("CARGO_PKG_VERSION"),
            args.repeat
        ),
        device: title,
        date,
        kind: Kind::Gpu,
        caps,
        // What a sweep found stays.
        commit,
        curves: curves.finish(),
    };
    let Some(place) = store(&profile, args.write.as_deref(), took, out)? else { return Ok(()) };
    out.line(&format!("{}, {}, {}", profile.device, profile.caps.isa, profile.date))?;
    let time = |name: &str, x: f64| profile.value(name, 0, |c| c.time(x));
    let rows: Vec<Vec<String>> = profile.curves.iter().map(row).collect();
    out.text(&table(&["curve", ">points", ">least x", ">y", ">largest x", ">y"], &rows))?;
    if let (Some(launch), Some(apart)) = (time("launch", 0.0), time("launch.independent", 0.0)) {
        out.line(&format!("\na dispatch that waits for another {launch:.2} µs, one that does not {apart:.2} µs"))?;
    }
    out.line(&format!("{} curves in {}: {place}", profile.curves.len(), seconds(took)))?;
    if !skipped.is_empty() {
        note(&format!("left out for want of memory or of a kernel: {}", skipped.join(", ")));
    }
    note("`explain` and `profile` predict with it from now on");
    Ok(())
}

fn row(c: &Curve) -> Vec<String> {
    let short = |v: f64| if v >= 1e4 { format!("{v:.2e}") } else { format!("{v:.2}") };
    let last = c.x.len() - 1;
    let ends = [c.x[0], c.y[0], c.x[last], c.y[last]].map(short);
    [vec![c.name.clone(), c.x.len().to_string()], ends.to_vec()].concat()
}

/// Fills the curves; gives the points that could not be measured.
fn measure(
    gpu: &mut dyn Device,
    kind: DeviceKind,
    formats: &[onetrip_ir::formats::DType],
    extent: Extent,
    repeat: usize,
    curves: &mut Curves,
) -> Result<Vec<String>, Fail> {
    let mut all = pairs(formats, extent).map_err(|e| Fail::Work(format!("a chain cannot be made: {e}")))?;
    let mut groups = layers(formats, extent).map_err(|e| Fail::Work(format!("a layer cannot be made: {e}")))?;
    let chains = all.iter_mut().map(|p| &mut p.short).chain(groups.iter_mut().map(|g| &mut g.chain));
    let plans: Vec<Plan> = chains.map(|chain| plan_of(gpu, chain)).collect::<Result<_, _>>()?;
    prepare(plans, gpu);
    let mut filled = Arc::default();
    let (mut launch, mut skipped, mut bar, total) = (0.0, vec![], None, all.len() + groups.len());
    for (n, pair) in all.iter_mut().enumerate() {
        progress(&mut bar, "measuring", n, total);
        let found = match one(gpu, pair, &mut filled, repeat) {
            Ok(found) => found,
            Err(DeviceError::Memory { .. } | DeviceError::Gap { .. }) => {
                skipped.push(format!("{} at {:.0}", pair.curve, pair.x));
                continue;
            }
            Err(e) => {
                note(&format!("it was measuring {} at {:.0}", pair.curve, pair.x));
                return Err(e.into());
            }
        };
        let each: Vec<f64> =
            found.iter().map(|(short, long)| ((long - short) * 1e6 / pair.links as f64).max(LEAST_US)).collect();
        let Some(time) = Spread::of(&each) else { continue };
        if pair.curve == "launch" {
            launch = time.median;
            // What a run costs besides its dispatches, which are one more than the links.
            let rest: Vec<f64> =
                found.iter().map(|(s, _)| (s * 1e6 - launch * (pair.least + 1) as f64).max(0.0)).collect();
            rest_of(curves, "submit", 1.0, &rest);
        }
        let ys = [time.median, time.min, time.max].map(|us| pair.unit.y(us, launch, 1));
        let (min, max) = (ys[1].min(ys[2]), ys[1].max(ys[2]));
        if pair.curve == "launch.independent" && kind.keeps_ticks() {
            rest_of(curves, "graph_node", 0.0, &each);
        }
        curves.add(&pair.curve, 0, pair.x, Spread { median: ys[0], min, max });
    }
    let mut switches = vec![];
    for (n, group) in groups.iter_mut().enumerate() {
        progress(&mut bar, "measuring", all.len() + n, total);
        let points = group.rows.iter().filter_map(|r| r.point.as_ref());
        let what = points.map(|(curve, x)| format!("{curve} at {x:.0}")).collect::<Vec<_>>().join(", ");
        match in_layers(gpu, group, &mut filled, repeat, curves, &mut switches) {
            Ok(()) => {}
            Err(DeviceError::Memory { .. } | DeviceError::Gap { .. }) => skipped.push(what),
            Err(e) => {
                note(&format!("it was measuring {what}"));
                return Err(e.into());
            }
        }
    }
    rest_of(curves, "kernel_switch", 0.0, &switches.iter().map(|us| us.max(0.0)).collect::<Vec<_>>());
    host(gpu, &mut filled, repeat, extent, curves)?;
    copies(gpu, repeat, extent, curves)?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(skipped)
}

fn rest_of(curves: &mut Curves, name: &str, x: f64, values: &[f64]) {
    if let Some(spread) = Spread::of(values) {
        curves.add(name, 0, x, spread);
    }
}

/// A chain that is ready to run.
struct Ready {
    recording: Recording,
    batch: StepBatch,
}

impl Ready {
    fn new(gpu: &mut dyn Device, chain: &Chain, plan: Plan) -> Result<Ready, DeviceError> {
        let mut batch = chain.batch(PAGE_LEN);
        batch.fill_rope(&plan.ropes);
        Ok(Ready { recording: record(&Arc::new(plan), gpu, &mut Silent)?, batch })
    }

    /// Seconds of one of `n` runs in a row.
    fn burst(&self, gpu: &mut dyn Device, n: usize) -> Result<f64, DeviceError> {
        let start = Instant::now();
        for _ in 0..n {
            gpu.submit(&self.recording, &self.batch)?;
        }
        gpu.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    }
}

fn plan_of(gpu: &dyn Device, chain: &mut Chain) -> Result<Plan, DeviceError> {
    chain.plan(gpu.target()).map_err(|e| DeviceError::Batch(e.to_string()))
}

fn load_weights(gpu: &mut dyn Device, chain: &Chain, filled: &mut Arc<Vec<u8>>) -> Result<(), DeviceError> {
    let most = chain.weights.iter().copied().max().unwrap_or(0) as usize;
    if filled.len() < most {
        *filled = Arc::new(filler(most));
    }
    let weight = |&size: &u64| -> WeightData { Arc::new(Filler(filled.clone(), size as usize)) };
    gpu.set_weights(chain.weights.iter().map(weight).collect())?;
    gpu.set_states(&chain.state_bytes(PAGE_LEN))
}

/// Seconds of a run of the shorter and of the longer chain, in turns.
fn one(
    gpu: &mut dyn Device,
    pair: &mut Pair,
    filled: &mut Arc<Vec<u8>>,
    repeat: usize,
) -> Result<Vec<(f64, f64)>, DeviceError> {
    let (short, long) = (plan_of(gpu, &mut pair.short)?, plan_of(gpu, &mut pair.long)?);
    // The shorter chain's weights and states are the first of the longer one's.
    load_weights(gpu, &pair.long, filled)?;
    let (short, long) = (Ready::new(gpu, &pair.short, short)?, Ready::new(gpu, &pair.long, long)?);
    in_turns(gpu, &short, &long, repeat)
}

/// Seconds of a run of each, in turns, so that a slow moment of the machine hits both.
fn in_turns(gpu: &mut dyn Device, short: &Ready, long: &Ready, repeat: usize) -> Result<Vec<(f64, f64)>, DeviceError> {
    let mut once = 0.0;
    // A recording is kept from its second run on.
    for _ in 0..3 {
        short.burst(gpu, 1)?;
        once = long.burst(gpu, 1)?;
    }
    let n = (BURST_S / once).clamp(1.0, MOST_IN_BURST) as usize;
    (0..repeat).map(|_| Ok((short.burst(gpu, n)?, long.burst(gpu, n)?))).collect()
}

/// Measures the time of each dispatch of a layer, and adds to `switches` the extra time of dispatches within whole layers
/// (the kernel-switch overhead).
fn in_layers(
    gpu: &mut dyn Device,
    group: &mut Layers,
    filled: &mut Arc<Vec<u8>>,
    repeat: usize,
    curves: &mut Curves,
    switches: &mut Vec<f64>,
) -> Result<(), DeviceError> {
    let (target, depth) = (gpu.target(), group.depth);
    plan_of(gpu, &mut group.chain)?;
    load_weights(gpu, &group.chain, filled)?;
    // µs a layer, by run: of rows, or of whole layers.
    let each = |gpu: &mut dyn Device, group: &mut Layers, rows: Option<&[&str]>, all: usize| {
        let mut ready = |gpu: &mut dyn Device, layers: usize| {
            let plan = group.plan(target, rows, layers).map_err(|e| DeviceError::Batch(e.to_string()))?;
            Ready::new(gpu, &group.chain, plan)
        };
        let (short, long) = (ready(gpu, all / 2)?, ready(gpu, all)?);
        let found = in_turns(gpu, &short, &long, repeat)?;
        let us = found.iter().map(|(short, long)| 1e6 * (long - short) / (all - all / 2) as f64);
        Ok::<Vec<f64>, DeviceError>(us.collect())
    };
    let mut found: Vec<(&'static str, Vec<f64>)> = vec![];
    for n in 0..group.rows.len() {
        let (name, times, behind) = (group.rows[n].name, group.rows[n].times, group.rows[n].behind);
        let rows: Vec<&str> = behind.into_iter().chain([name]).collect();
        let mut us = each(gpu, group, Some(&rows), times)?;
        if let Some((_, before)) = found.iter().find(|(name, _)| Some(*name) == behind) {
            us.iter_mut().zip(before).for_each(|(us, before)| *us -= before);
        }
        if let Some((curve, x)) = &group.rows[n].point {
            rest_of(curves, curve, *x, &us.iter().map(|us| us.max(LEAST_US)).collect::<Vec<_>>());
        }
        found.push((name, us));
    }
    if group.is_whole {
        let whole = each(gpu, group, None, depth)?;
        let rows: Vec<&Vec<f64>> =
            group.rows.iter().zip(&found).filter(|(row, _)| row.is_in_layers()).map(|(_, (_, us))| us).collect();
        let alone = |run: usize| rows.iter().map(|us| us[run]).sum::<f64>();
        switches.extend(whole.iter().enumerate().map(|(run, us)| (us - alone(run)) / rows.len() as f64));
    }
    Ok(())
}

/// The host's side: submitting so many dispatches, one, and one with its wait.
fn host(
    gpu: &mut dyn Device,
    filled: &mut Arc<Vec<u8>>,
    repeat: usize,
    extent: Extent,
    curves: &mut Curves,
) -> Result<(), Fail> {
    let depths: &[usize] = if extent.quick { &[0, 63] } else { &[0, 15, 63, 255] };
    for &depth in depths {
        let mut chain = tiny(depth, false).map_err(|e| Fail::Work(e.to_string()))?;
        let plan = plan_of(gpu, &mut chain)?;
        load_weights(gpu, &chain, filled)?;
        let ready = Ready::new(gpu, &chain, plan)?;
        ready.burst(gpu, 3)?;
        let (mut submit, mut wait) = (vec![], vec![]);
        for _ in 0..8 * repeat {
            let start = Instant::now();
            gpu.submit(&ready.recording, &ready.batch)?;
            submit.push(start.elapsed().as_secs_f64() * 1e6);
            gpu.wait()?;
            wait.push(start.elapsed().as_secs_f64() * 1e6);
        }
        rest_of(curves, "encode", depth as f64 + 1.0, &submit);
        if depth == 0 {
            rest_of(curves, "commit", 1.0, &submit);
            rest_of(curves, "commit_wait", 1.0, &wait);
        }
    }
    Ok(())
}

/// Bytes per second from and to the host, by size.
fn copies(gpu: &mut dyn Device, repeat: usize, extent: Extent, curves: &mut Curves) -> Result<(), Fail> {
    let sizes: &[u64] = if extent.quick { &[1 << 16, 1 << 22] } else { &[1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26] };
    for &size in sizes {
        gpu.set_states(&[size])?;
        let bytes = vec![0u8; size as usize];
        let (mut up, mut down) = (vec![], vec![]);
        for turn in 0..=repeat {
            let start = Instant::now();
            gpu.write_state(0, &bytes);
            gpu.wait()?;
            let there = start.elapsed().as_secs_f64();
            let start = Instant::now();
            std::hint::black_box(gpu.read_state(0));
            let back = start.elapsed().as_secs_f64();
            if turn > 0 {
                up.push(size as f64 / there);
                down.push(size as f64 / back);
            }
        }
        rest_of(curves, "copy.to", size as f64, &up);
        rest_of(curves, "copy.from", size as f64, &down);
    }
    Ok(())
}
