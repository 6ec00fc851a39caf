//! The counts that a device keeps while it runs must equal the plan's ledger.

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_core::probe::{Probe, Silent, Stamps, dispatch_times};
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::step::{Engine, StepError};
use onetrip_ir::device::{Choice, Commit, Counts, DeviceError, SubmitMode};
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::plan::{Ledger, Plan};
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::harness::{Options, load};
use crate::small::Small;
use crate::wgpu::TINY;

/// The tests of this module, named `counts/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    type Test = fn(&Options) -> Result<(), Failed>;
    let on_gpu: [(&str, Test); 4] = [
        ("counts/a wgpu device counts what the ledger says, by every commit policy and on either thread", gpu_policies),
        ("counts/tokens are the same by every commit policy, on either thread, and while captured", gpu_tokens),
        (
            "counts/a wgpu device stamps each submission when asked, or each dispatch, inside of passes or at their ends",
            gpu_stamps,
        ),
        ("counts/a wgpu device has no kept recording, and says so", gpu_replay),
    ];
    let mut tests: Vec<Trial> =
        on_gpu.into_iter().map(|(name, test)| Trial::ignorable_test(name, move || on(test))).collect();
    tests.extend([
        Trial::test("counts/a device counts what the ledger says, for every bucket of batch", every_bucket),
        Trial::test("counts/a run that is not the plan's does not count as the ledger says", wrong_counts),
        Trial::test("counts/a dispatch with another device's code is off the device", off_device),
        Trial::test("counts/stamps do not change what runs, and there are two for each dispatch", stamped),
        Trial::test("counts/steps of an engine count as their plans", steps),
        Trial::test("counts/a cpu has nothing to submit, and says so", cpu_submits_nothing),
        Trial::test("counts/the barriers that are modelled for wgpu are those of a Vulkan trace", traced),
    ]);
    tests
}

/// Runs a test where there is a GPU adapter.
fn on(test: fn(&Options) -> Result<(), Failed>) -> Result<Completion, Failed> {
    if onetrip_wgpu::adapters().is_empty() {
        return Ok(Completion::ignored_with("not run: there is no GPU adapter"));
    }
    test(&Options { sequences: 3, ..Options::default().on_gpu() }).map(|()| Completion::Completed)
}

/// Runs every commit policy, each with encoding on the calling thread and on a second one.
fn ways() -> Vec<SubmitMode> {
    let all = [Commit::Each, Commit::Every(4), Commit::Every(7), Commit::Tick].map(SubmitMode::by);
    all.into_iter().flat_map(|how| [how, SubmitMode { encode_thread: true, ..how }]).collect()
}

fn gpu_engine(o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::from_slice("small model", &Small::new("llama", false, 1).gguf(&|_| DType::Q8_0)?)?, o)
}

fn gpu_policies(o: &Options) -> Result<(), Failed> {
    let mut engine = gpu_engine(o)?;
    for bind in [BATCHES[0], BATCHES[2]] {
        let mut ways = ways();
        // Prompts are submitted by the same code, so two policies are enough for them.
        ways.truncate(if bind.t > 1 { 4 } else { ways.len() });
        for how in ways {
            engine.set_submit_mode(how)?;
            for stamped in [false, true] {
                let probe: &mut dyn Probe = if stamped { &mut Stamps } else { &mut Silent };
                counted_by(&mut engine, bind, 2, probe, how.commit).map_err(|e| format!("{how}, {bind:?}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// Greedy texts of three sequences that run ahead, with a prompt in between.
fn texts(engine: &mut Engine) -> Result<Vec<Vec<u32>>, Failed> {
    let seqs = crate::harness::sequences(engine, 3)?;
    let until = |engine: &mut Engine, seqs: &[usize], n: usize| -> Result<(), Failed> {
        while seqs.iter().any(|&s| engine.known(s) < n) {
            engine.step()?.ok_or("nothing left to run")?;
        }
        Ok(())
    };
    for (i, &seq) in seqs[..2].iter().enumerate() {
        engine.scheduler().set_tokens(seq, &[5 + i as u32; 9]);
    }
    until(engine, &seqs[..2], 14)?;
    engine.scheduler().set_tokens(seqs[2], &[9; 20]);
    until(engine, &seqs, 24)?;
    let texts = seqs.iter().map(|&s| engine.scheduler().tokens(s)[..24].to_vec()).collect();
    seqs.iter().for_each(|&s| engine.scheduler().remove(s));
    Ok(texts)
}

fn gpu_tokens(o: &Options) -> Result<(), Failed> {
    let mut engine = gpu_engine(o)?;
    let want = texts(&mut engine)?;
    for how in ways() {
        engine.set_submit_mode(how)?;
        let have = texts(&mut engine)?;
        if have != want {
            return Err(format!("{how}: {have:?}, by tick {want:?}").into());
        }
    }
    for n in [1, 4] {
        let options = onetrip_wgpu::Options { capture: Some(n), ..Default::default() };
        let model = onetrip_engine::model::Model::new(
            ModelFile::from_slice("small model", &Small::new("llama", false, 1).gguf(&|_| DType::Q8_0)?)?,
            o.model(),
        )?;
        let device = Box::new(onetrip_wgpu::WgpuDevice::open(&options)?);
        let mut captured = Engine::load(model, device, o.context, o.sequences, 1, &|_, _| {})?;
        if texts(&mut captured)? != want {
            return Err(format!("while step {n} is captured the texts differ").into());
        }
    }
    Ok(())
}

fn gpu_stamps(o: &Options) -> Result<(), Failed> {
    let file = Small::new("llama", false, 1).gguf(&|_| DType::Q8_0)?;
    let bind = BATCHES[0];
    let key = PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 });
    for plain in [false, true] {
        let device = onetrip_wgpu::WgpuDevice::open(&onetrip_wgpu::Options { plain, ..Default::default() })?;
        let target = onetrip_ir::device::Device::target(&device);
        let options = onetrip_engine::model::ModelOptions { target, ..o.model() };
        let model = onetrip_engine::model::Model::new(ModelFile::from_slice("small model", &file)?, options)?;
        let mut engine = Engine::load(model, Box::new(device), o.context, o.sequences, 1, &|_, _| {})?;
        let mut batch = engine.shaped_batch(bind)?;
        let (silent, stamped) = (engine.record_with(key, &mut Silent)?, engine.record_with(key, &mut Stamps)?);
        let rows = silent.plan.dispatches.len();
        for how in ways() {
            let untimed = engine.set_submit_mode(how).and_then(|()| engine.submit(&silent, &mut batch));
            if untimed.is_err() || !engine.device().stamps().is_empty() {
                return Err(format!("{how}: stamps that nobody asked for").into());
            }
            engine.set_submit_mode(SubmitMode { timed: true, ..how })?;
            for (recorded, pairs) in [(&silent, how.commit.submissions(rows)), (&stamped, rows)] {
                engine.submit(recorded, &mut batch)?;
                let stamps = engine.device().stamps();
                if stamps.len() != 2 * pairs || stamps.windows(2).any(|w| w[1] < w[0]) || stamps.last() <= Some(&0.0) {
                    return Err(format!("{how}, plain: {plain}: for {pairs} pairs stamps {stamps:?}").into());
                }
            }
        }
    }
    Ok(())
}

fn gpu_replay(o: &Options) -> Result<(), Failed> {
    let mut engine = gpu_engine(o)?;
    match engine.set_submit_mode(SubmitMode::by(Commit::Replay)) {
        Err(StepError::Device(DeviceError::Choice { what: Choice::Replay, .. })) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn cpu_submits_nothing() -> Result<(), Failed> {
    let mut engine = engine("llama", Fuse::All)?;
    engine.set_submit_mode(SubmitMode::by(Commit::Tick))?;
    for how in ["each", "every:4", "replay", "tick+thread"] {
        match engine.set_submit_mode(how.parse()?) {
            Err(StepError::Device(DeviceError::Choice { what: Choice::Submission, .. })) => {}
            other => return Err(format!("{how}: {other:?}").into()),
        }
    }
    Ok(())
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

fn since(now: Counts, before: Counts) -> Counts {
    let Counts { dispatches, barriers, commits, waits } = now;
    Counts {
        dispatches: dispatches - before.dispatches,
        barriers: barriers - before.barriers,
        commits: commits - before.commits,
        waits: waits - before.waits,
    }
}

/// Compares the counts of a device after some runs with as many ledgers. Only the CPU counts its barriers: those of a GPU are
/// inserted by its driver.
fn agree(have: Counts, ledgers: &[(Ledger, u64)], counts_barriers: bool) -> Result<(), String> {
    let sum = |of: fn(&Ledger) -> u64| ledgers.iter().map(|(l, times)| of(l) * times).sum();
    let barriers = if counts_barriers { sum(|l| l.barriers) } else { have.barriers };
    let (dispatches, commits, waits) = (sum(|l| l.dispatches), sum(|l| l.commits), sum(|l| l.waits));
    let want = Counts { dispatches, barriers, commits, waits };
    if have == want { Ok(()) } else { Err(format!("counted {have:?}, the ledger says {want:?}")) }
}

fn every_bucket() -> Result<(), Failed> {
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
    counted_by(engine, bind, times, probe, Commit::Tick)
}

/// The same by a policy.
fn counted_by(
    engine: &mut Engine,
    bind: Bind,
    times: u64,
    probe: &mut dyn Probe,
    commit: Commit,
) -> Result<(), String> {
    let text = |e: onetrip_engine::step::StepError| e.to_string();
    let mut batch = engine.shaped_batch(bind).map_err(text)?;
    let key = PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 });
    let recorded = engine.record_with(key, probe).map_err(text)?;
    let before = engine.device().counts();
    for _ in 0..times {
        engine.submit(&recorded, &mut batch).map_err(text)?;
    }
    let have = since(engine.device().counts(), before);
    agree(have, &[(recorded.plan.ledger_by(bind, commit), times)], matches!(engine.device().target(), Target::Cpu(_)))
}

/// The comparison finds wrong counts: those of one run too many, of a plan without one of the dispatches, of another policy,
/// and any count that is off by one.
fn wrong_counts() -> Result<(), Failed> {
    let mut engine = engine("llama", Fuse::All)?;
    let bind = BATCHES[0];
    let key = PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 });
    let mut batch = engine.shaped_batch(bind)?;
    let recorded = engine.record_with(key, &mut Silent)?;
    let before = engine.device().counts();
    engine.submit(&recorded, &mut batch)?;
    let have = since(engine.device().counts(), before);
    let right = recorded.plan.ledger(bind);
    agree(have, &[(right.clone(), 1)], true)?;
    engine.submit(&recorded, &mut batch)?;
    if agree(since(engine.device().counts(), before), &[(right.clone(), 1)], true).is_ok() {
        return Err("two runs pass as one".into());
    }
    let mut shorter = (*recorded.plan).clone();
    shorter.dispatches.pop();
    let wrong = [
        ("a dispatch less", shorter.ledger(bind)),
        ("a submission for each dispatch", recorded.plan.ledger_by(bind, Commit::Each)),
        ("a dispatch more", Ledger { dispatches: right.dispatches + 1, ..right.clone() }),
        ("a barrier more", Ledger { barriers: right.barriers + 1, ..right.clone() }),
        ("a commit more", Ledger { commits: right.commits + 1, ..right.clone() }),
        ("a wait more", Ledger { waits: right.waits + 1, ..right.clone() }),
    ];
    match wrong.into_iter().find(|(_, ledger)| agree(have, &[(ledger.clone(), 1)], true).is_ok()) {
        Some((what, _)) => Err(format!("{what} passes as the counts of the run").into()),
        None => Ok(()),
    }
}

/// A dispatch whose code is of another target counts as off-device.
fn off_device() -> Result<(), Failed> {
    let plan = |target: Target| -> Result<Plan, Failed> {
        let options = ModelOptions { target, ..Options::default().model() };
        Ok(Model::new(ModelFile::from_bytes(TINY)?, options)?.plan(PlanKey::of(1, 1, Want::Sample { top: 0 }))?)
    };
    let cpu = plan(Target::Cpu(Isa::Portable))?;
    for target in [Target::Cuda(CudaCaps::default()), Target::Wgsl(WgslCaps::default())] {
        let mut text = plan(target)?;
        let code = text.dispatches[0].code.replace(cpu.dispatches[0].code.clone().ok_or("no CPU kernel")?);
        let mut other = cpu.clone();
        other.dispatches[1].code = code;
        for (plan, what) in [(&text, "a CPU kernel"), (&other, "a text")] {
            let off = plan.ledger(BATCHES[0]).off_device;
            if off != 1 {
                return Err(format!("{what} in a plan for {:?}: {off} off the device", plan.ctx.target).into());
            }
        }
    }
    Ok(())
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
        let options = ModelOptions { target: Target::Wgsl(caps), device: "wgpu".into(), ..o.model() };
        let plan =
            Model::new(ModelFile::from_bytes(TINY)?, options)?.plan(PlanKey::of(1, 1, Want::Sample { top: 0 }))?;
        let have = (plan.dispatches.len(), plan.barriers());
        if have != traced {
            return Err(format!("dispatches and barriers {have:?}, traced {traced:?}").into());
        }
        // The calls that a trace is made of.
        if !onetrip_wgpu::adapters().is_empty() {
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
    let mut want = vec![];
    // One step reads both prompts, the others make a token for each.
    for (tokens, n) in [(32, 1), (2, 6)] {
        let bind = Bind { t: tokens, s: 2, l: 36 };
        let key = PlanKey::of(tokens as usize, 2, Want::Sample { top: 0 });
        want.push((engine.recorded(key)?.plan.ledger(bind), n));
        for _ in 0..n {
            let out = engine.step()?.ok_or("nothing to run")?;
            if out.len() != 2 {
                return Err(format!("{} tokens for two sequences", out.len()).into());
            }
        }
    }
    Ok(agree(since(engine.device().counts(), before), &want, true)?)
}
