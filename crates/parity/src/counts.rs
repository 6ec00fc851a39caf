//! Counted is run: what the device counts while it runs is what the plan's ledger says.

use libtest_mimic::{Failed, Trial};
use onetrip_core::device::Counts;
use onetrip_core::expr::Bind;
use onetrip_core::formats::DType;
use onetrip_core::fuse::Fuse;
use onetrip_core::ops::{Target, WgslCaps};
use onetrip_core::probe::{Probe, Silent, Stamps, dispatch_times};
use onetrip_engine::files::ModelFile;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::page::Want;
use onetrip_engine::step::Engine;

use crate::gpu::TINY;
use crate::harness::{Options, load};
use crate::small::Small;

/// The tests.
pub fn tests() -> Vec<Trial> {
    vec![
        Trial::test("counts/a device counts what the ledger says, for every class of batch", every_class),
        Trial::test("counts/stamps do not change what runs, and there are two for each dispatch", stamped),
        Trial::test("counts/steps of an engine count as their plans", steps),
        Trial::test("counts/the barriers that are modelled for wgpu are those of a Vulkan trace", traced),
    ]
}

const BATCHES: [Bind; 5] = [
    Bind { t: 1, s: 1, l: 20 },
    Bind { t: 3, s: 3, l: 9 },
    Bind { t: 6, s: 2, l: 7 },
    Bind { t: 40, s: 1, l: 50 },
    Bind { t: 100, s: 2, l: 50 },
];

fn engine(arch: &'static str, fuse: Fuse) -> Result<Engine, Failed> {
    let file = Small::new(arch, false, 1).gguf(&|_| DType::Q8_0)?;
    let o = Options { sequences: 3, threads: 2, ..Options::default().fused(fuse) };
    load(ModelFile::from_slice("small model", &file)?, &o)
}

fn since(now: Counts, before: Counts) -> [u64; 5] {
    let Counts { dispatches, barriers, commits, waits, copies } = now;
    [
        dispatches - before.dispatches,
        barriers - before.barriers,
        commits - before.commits,
        waits - before.waits,
        copies - before.copies,
    ]
}

fn every_class() -> Result<(), Failed> {
    for arch in ["llama", "gemma3"] {
        for fuse in [Fuse::None, Fuse::All] {
            let mut engine = engine(arch, fuse.clone())?;
            for bind in BATCHES {
                counted(&mut engine, bind, 4, &mut Silent).map_err(|e| format!("{arch}, {fuse:?}, {bind:?}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// Runs a batch some times; the counts must be as many times the ledger's.
fn counted(engine: &mut Engine, bind: Bind, times: u64, probe: &mut dyn Probe) -> Result<(), String> {
    let text = |e: onetrip_engine::step::StepError| e.to_string();
    let mut batch = engine.shaped_batch(bind).map_err(text)?;
    let key = PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 });
    let recorded = engine.record_with(key, probe).map_err(text)?;
    let before = engine.device().counts();
    for _ in 0..times {
        engine.submit(&recorded, &mut batch).map_err(text)?;
    }
    let have = since(engine.device().counts(), before);
    let l = recorded.plan.ledger(bind);
    let want = [l.dispatches, l.barriers, l.commits, l.waits, l.copies].map(|n| n * times);
    if have == want { Ok(()) } else { Err(format!("counted {have:?}, the ledger says {want:?}")) }
}

fn stamped() -> Result<(), Failed> {
    let mut engine = engine("qwen3", Fuse::All)?;
    let bind = BATCHES[0];
    counted(&mut engine, bind, 3, &mut Stamps)?;
    let key = PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 });
    let rows = engine.recorded(key)?.plan.dispatches.len();
    let (times, gaps) = dispatch_times(engine.device().stamps());
    if times.len() != rows || engine.device().stamps().len() != 2 * rows {
        return Err(format!("{} stamps for {rows} dispatches", engine.device().stamps().len()).into());
    }
    if times.iter().any(|t| *t < 0.0) || gaps < 0.0 || times.iter().sum::<f64>() <= 0.0 {
        return Err(format!("times {times:?}, gaps {gaps}").into());
    }
    Ok(())
}

/// Dispatches and barriers of a decode step of the embedded model that GFXReconstruct saw on Mesa's software Vulkan while
/// this very test ran (`bench/runs/2026-11-30-software-vulkan`): with all rules, and with none.
const TRACED: [(Fuse, (usize, u64)); 2] = [(Fuse::All, (28, 28)), (Fuse::None, (101, 99))];

fn traced() -> Result<(), Failed> {
    for (fuse, traced) in TRACED {
        let caps = WgslCaps { subgroups: Some((8, 8)), ..WgslCaps::default() };
        let o = Options::default().fused(fuse);
        let options = ModelOptions { target: Target::Wgsl(caps), device: "gpu".into(), ..o.model() };
        let plan =
            Model::new(ModelFile::from_bytes(TINY)?, options)?.plan(PlanKey::of(1, 1, Want::Sample { top: 0 }))?;
        let have = (plan.dispatches.len(), plan.barriers());
        if have != traced {
            return Err(format!("dispatches and barriers {have:?}, traced {traced:?}").into());
        }
        // What a trace can be made of.
        if !onetrip_gpu::adapters().is_empty() {
            let mut engine = load(ModelFile::from_bytes(TINY)?, &o.on_gpu())?;
            let mut batch = engine.shaped_batch(Bind { t: 1, s: 1, l: 20 })?;
            engine.time_step(&mut batch)?;
        }
    }
    Ok(())
}

fn steps() -> Result<(), Failed> {
    let mut engine = engine("llama", Fuse::All)?;
    let seqs = crate::harness::sequences(&mut engine, 2)?;
    engine.scheduler().set_tokens(seqs[0], &[5; 30]);
    engine.scheduler().set_tokens(seqs[1], &[6; 2]);
    let before = engine.device().counts();
    let mut want = [0; 5];
    // One step reads both prompts, the others make a token for each.
    for (tokens, n) in [(32, 1), (2, 6)] {
        let bind = Bind { t: tokens, s: 2, l: 36 };
        let key = PlanKey::of(tokens as usize, 2, Want::Sample { top: 0 });
        let l = engine.recorded(key)?.plan.ledger(bind);
        for (sum, x) in want.iter_mut().zip([l.dispatches, l.barriers, l.commits, l.waits, l.copies]) {
            *sum += x * n;
        }
        for _ in 0..n {
            let out = engine.step()?.ok_or("nothing to run")?;
            if out.len() != 2 {
                return Err(format!("{} tokens for two sequences", out.len()).into());
            }
        }
    }
    let have = since(engine.device().counts(), before);
    if have == want { Ok(()) } else { Err(format!("counted {have:?}, the ledgers say {want:?}").into()) }
}
