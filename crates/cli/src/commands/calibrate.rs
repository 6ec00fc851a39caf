//! `onetrip calibrate`: measures a device of this machine once and stores the curves in which the cost model interpolates.
//! The CPU is measured here, a GPU in [`gpu`].

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memmap2::{Mmap, MmapMut};
use onetrip_core::probe::{Stamps, dispatch_times};
use onetrip_core::record::record;
use onetrip_cost::calibrate::{FLUSH, FLUSH_BYTES, MOST_BYTES, Probe, Timed, probes};
use onetrip_cost::profile::{Caps, VERSION};
use onetrip_cost::{Kind, Profile};
use onetrip_cpu::CpuDevice;
use onetrip_cpu::pool::Pool;
use onetrip_devices::DeviceKind;
use onetrip_engine::scheduler::PAGE_LEN;
use onetrip_ir::batch::{RopeSpec, StepBatch};
use onetrip_ir::device::{Device, WeightData};
use onetrip_ir::formats::DType;
use onetrip_ir::simd::simd;

use crate::support::fail::Fail;
use crate::support::options::DEFAULT_DEVICE;
use crate::support::output::{Out, note, progress, seconds, table};
use crate::support::stats::Spread;
use crate::support::{device, machine};

mod gpu;
mod store;

pub use store::CalibrateArgs;
use store::{Curves, slug, store};

/// Memory that serves as weights, in huge pages like the weights of a model.
struct Arena {
    memory: Arc<Mmap>,
}

/// Part of the arena, as a weight.
struct Part(Arc<Mmap>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

/// Largest working set, in bytes, for which read bandwidth is measured.
const LARGEST_SET: usize = 256 << 20;
/// What comes before each measurement: workers wake, and the system spreads them over the processors.
const WARM_UP: Duration = Duration::from_millis(8);

impl Arena {
    fn new() -> std::io::Result<Arena> {
        let mut memory = MmapMut::map_anon(LARGEST_SET.max((MOST_BYTES + FLUSH_BYTES) as usize + (16 << 20)))?;
        #[cfg(target_os = "linux")]
        // Systems without huge pages refuse this; then small pages are used, as for a model.
        let _ = memory.advise(memmap2::Advice::HugePage);
        // Every page is written once, so that it is backed by memory of its own. Zeros are valid values in every format.
        memory.fill(0);
        Ok(Arena { memory: Arc::new(memory.make_read_only()?) })
    }

    /// Weights of these sizes one behind the other; large ones at one place if they are shared.
    fn weights(&self, sizes: &[u64], is_shared: bool) -> Vec<WeightData> {
        let (mut at, room) = (0usize, self.memory.len());
        let place = |&size: &u64| -> WeightData {
            let size = size as usize;
            if at + size > room {
                at = 0;
            }
            let start = if is_shared && size > 1 << 14 { 0 } else { at };
            at += size.next_multiple_of(64);
            Arc::new(Part(self.memory.clone(), start..start + size))
        };
        sizes.iter().map(place).collect()
    }
}

/// Runs the command.
pub fn main(args: CalibrateArgs, out: &Out) -> Result<(), Fail> {
    if args.repeat < 5 {
        return Err(Fail::Input(format!("--repeat {}: a median of fewer than 5 runs is none", args.repeat)));
    }
    let spec = args.device.as_ref().unwrap_or(&DEFAULT_DEVICE);
    match spec.kind {
        DeviceKind::Cpu => {}
        DeviceKind::Cuda | DeviceKind::Wgpu => return gpu::main(&args, spec, out),
    }
    if args.quick {
        return Err(Fail::Input("--quick is for GPUs: give --device, or leave it out".into()));
    }
    let start = Instant::now();
    let work = |what: &str, e: &dyn std::fmt::Display| Fail::Work(format!("{what}: {e}"));
    let arena = Arena::new().map_err(|e| work("cannot get 300 MB of memory to measure with", &e))?;
    let most = args.threads.unwrap_or_else(machine::cores);
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
    counts.push(most);
    let formats = if args.formats.is_empty() { DType::ALL.to_vec() } else { args.formats };
    let mut curves = Curves::default();
    let mut bar = None;
    for (turn, &threads) in counts.iter().enumerate() {
        read_bandwidth(&arena, threads, args.repeat, &mut curves)?;
        let mut all = probes(&formats).map_err(|e| work("a probe cannot be made", &e))?;
        let (total, mut launch) = (all.len(), 0.0);
        let device = CpuDevice::with_isa(Some(threads), device::isa()?);
        let mut device = device.map_err(|e| work("cannot start the threads", &e))?;
        for (n, probe) in all.iter_mut().enumerate() {
            progress(&mut bar, "measuring", turn * total + n, counts.len() * total);
            // Work of a single worker takes equally long with any number of threads.
            let is_alone = probe.is_alone();
            if is_alone && threads > 1 {
                continue;
            }
            let times = run(probe, &arena, &mut device, args.repeat)?;
            let Some(time) = Spread::of(&times) else { continue };
            if probe.curve == "launch" {
                launch = time.median;
            }
            let ys: Vec<f64> = [time.median, time.min, time.max].map(|us| probe.unit.y(us, launch, threads)).to_vec();
            let (low, high) = (ys[1].min(ys[2]), ys[1].max(ys[2]));
            curves.add(
                &probe.curve,
                if is_alone { 0 } else { threads },
                probe.x,
                Spread { median: ys[0], min: low, max: high },
            );
        }
    }
    host(&mut curves, args.repeat);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let isa = device::isa()?.name().to_string();
    let device = machine::name();
    let date = machine::date();
    let took = start.elapsed().as_secs_f64();
    let profile = Profile {
        version: VERSION,
        name: args.name.unwrap_or_else(|| slug(&device)),
        note: format!(
            "Measured by `onetrip calibrate` {} on {date} in {took:.0} s: medians of {} runs with min and max, synthetic \
             chains of one op, no model plan. Times in µs.",
            env!("CARGO_PKG_VERSION"),
            args.repeat
        ),
        device,
        date,
        kind: Kind::Cpu,
        caps: Caps { cores: machine::cores(), isa, caches: machine::caches() },
        commit: BTreeMap::new(),
        curves: curves.finish(),
    };
    let Some(place) = store(&profile, args.write.as_deref(), took, out)? else { return Ok(()) };
    out.line(&format!("{}, {} kernels, {}", profile.device, profile.caps.isa, profile.date))?;
    let value = |name: &str, n: usize, x: f64| profile.value(name, n, |c| c.rate(x)).unwrap_or(0.0);
    let rows: Vec<Vec<String>> = counts
        .iter()
        .map(|&n| {
            let gb = |set: f64| format!("{:.1}", value("read", n, set) / 1e9);
            let launch = profile.value("launch", n, |c| c.time(0.0)).unwrap_or(0.0);
            let gops = format!("{:.0}", value("matmul.q8_0", n, 256.0) / 1e9);
            vec![n.to_string(), format!("{launch:.2}"), gb(32e3), gb(1e6), gb(16e6), gb(256e6), gops]
        })
        .collect();
    out.text(&table(&[">threads", ">launch µs", ">GB/s 32 KB", ">1 MB", ">16 MB", ">256 MB", ">int8 GOPS"], &rows))?;
    out.line(&format!("\n{} curves in {}: {place}", profile.curves.len(), seconds(took)))?;
    note("`explain` and `profile` predict with it from now on");
    Ok(())
}

/// µs of the probe's dispatches, one number a run: the median over the chain's links.
fn run(probe: &mut Probe, arena: &Arena, device: &mut CpuDevice, repeat: usize) -> Result<Vec<f64>, Fail> {
    let plan = probe.chain.plan(device.target()).map_err(|e| Fail::Work(format!("{}: {e}", probe.curve)))?;
    let plan = Arc::new(plan);
    device.set_weights(arena.weights(&probe.chain.weights, probe.chain.is_shared))?;
    device.set_states(&probe.chain.state_bytes(PAGE_LEN))?;
    let recording = record(&plan, device, &mut Stamps)?;
    let mut batch = probe.chain.batch(PAGE_LEN);
    batch.fill_rope(&plan.ropes);
    let measured = plan.dispatches.iter().map(|d| probe.timed.is_of(d) && d.name != FLUSH);
    let is_measured: Vec<bool> = measured.collect();
    let start = Instant::now();
    let (mut found, mut turn) = (vec![], 0);
    while found.len() < repeat {
        device.submit(&recording, &batch)?;
        turn += 1;
        // At least one run, and then as many as it takes.
        if turn == 1 || (found.is_empty() && start.elapsed() < WARM_UP) {
            continue;
        }
        let stamps = device.stamps();
        let s = match probe.timed {
            // Until the first dispatch begins.
            Timed::Submit => stamps.first().copied(),
            _ => {
                let (times, _) = dispatch_times(stamps);
                let times: Vec<f64> = times.iter().zip(&is_measured).filter(|(_, m)| **m).map(|(t, _)| *t).collect();
                Spread::of(&times).map(|s| s.median)
            }
        };
        let Some(s) = s else { return Ok(found) };
        found.push(s * 1e6);
    }
    Ok(found)
}

/// Bytes per second at which `threads` threads read working sets from 32 KB to 256 MB, again and again.
fn read_bandwidth(arena: &Arena, threads: usize, repeat: usize, curves: &mut Curves) -> Result<(), Fail> {
    let kernels = simd(device::isa()?);
    let mut pool = Pool::new(threads).map_err(|e| Fail::Work(format!("cannot start {threads} threads: {e}")))?;
    for shift in [15, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28] {
        let size = 1usize << shift;
        let turns = ((8usize << 20) / size).max(1);
        let mut rates = vec![];
        let warm = Instant::now();
        while rates.len() < repeat {
            let start = Instant::now();
            pool.run(&|worker, _, _| {
                let share = size / threads / 4096 * 4096;
                let part = &arena.memory[worker * share..(worker + 1) * share];
                for _ in 0..turns {
                    for chunk in part.as_chunks::<4096>().0 {
                        black_box((kernels.max)(bytes_as_numbers(chunk)));
                    }
                }
            });
            if warm.elapsed() > WARM_UP {
                let bytes = size / threads / 4096 * 4096 * threads * turns;
                rates.push(bytes as f64 / start.elapsed().as_secs_f64());
            }
        }
        if size / threads >= 4096 {
            curves.add(
                "read",
                threads,
                size as f64,
                Spread::of(&rates).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 }),
            );
        }
    }
    Ok(())
}

/// Pages of the arena as numbers.
fn bytes_as_numbers(page: &[u8; 4096]) -> &[f32] {
    bytemuck::cast_slice(page)
}

/// The host's time for rotary tables: µs for each pair and position.
fn host(curves: &mut Curves, repeat: usize) {
    const PAIRS: usize = 64;
    const POSITIONS: usize = 64;
    let spec =
        RopeSpec { inv_freq: (0..PAIRS).map(|i| 10000f32.powf(-(i as f32) / PAIRS as f32)).collect(), factor: 1.0 };
    let mut batch = StepBatch { positions: (500..500 + POSITIONS as u32).collect(), ..Default::default() };
    let mut times = vec![];
    for turn in 0..=repeat {
        let start = Instant::now();
        for _ in 0..16 {
            batch.fill_rope(std::slice::from_ref(&spec));
        }
        if turn > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e6 / (16 * PAIRS * POSITIONS) as f64);
        }
    }
    if let Some(time) = Spread::of(&times) {
        curves.add("host.rope", 0, 1.0, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_sorted_and_keep_their_spread() {
        let mut curves = Curves::default();
        let spread = |m: f64| Spread { median: m, min: m - 1.0, max: m + 1.0 };
        curves.add("a", 2, 64.0, spread(9.0));
        curves.add("a", 2, 16.0, spread(5.0));
        curves.add("a", 1, 16.0, spread(7.0));
        let all = curves.finish();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].x.clone(), all[1].y.clone()), (vec![16.0, 64.0], vec![5.0, 9.0]));
        assert_eq!((all[1].min.clone(), all[1].max.clone()), (vec![4.0, 8.0], vec![6.0, 10.0]));
    }

    #[test]
    fn a_device_becomes_a_name_without_spaces() {
        assert_eq!(slug("AMD EPYC, 2 cores, linux"), "amd-epyc-2-cores-linux");
    }

    #[test]
    fn weights_of_a_chain_lie_apart_unless_they_are_shared() {
        let arena = Arena::new().expect("memory");
        let sizes = [1 << 16, 100, 1 << 16];
        let at =
            |shared| arena.weights(&sizes, shared).iter().map(|w| (**w).as_ref().as_ptr() as usize).collect::<Vec<_>>();
        let (apart, shared) = (at(false), at(true));
        assert!(apart[2] - apart[0] > 1 << 16 && apart[1] != apart[0]);
        assert_eq!(shared[0], shared[2]);
    }
}
