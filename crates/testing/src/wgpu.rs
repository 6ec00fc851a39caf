//! The wgpu device on whatever adapter this machine has (CI: Vulkan in software), and its kernels without any.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Completion, Failed, Trial};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use onetrip_core::cases::{case_plan, on_target};
use onetrip_core::ops::{Case, Op};
use onetrip_devices::selftest::{Verdict, run_case};
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_ir::device::Device as _;
use onetrip_ir::kernel::{Code, Text};
use onetrip_ir::plan::Plan;
use onetrip_ir::target::{Compute, Target, WgslCaps};
use onetrip_ir::tensor::Sig;
use onetrip_wgpu::WgpuDevice;

use crate::harness::{Options, differences, exceeds, forced, load, sequences};

/// The embedded model.
pub(crate) static TINY: &[u8] = include_bytes!("../../../assets/tiny.gguf");

/// Operations of a case that is large for a processor that plays the GPU.
const LARGE: u64 = 4_000_000;

/// Shards of a weight that cases are run with.
const MOST_SHARDS: usize = 3;

/// A device, opened once; the error says why there is none. A processor that plays the GPU compiles a kernel on one thread,
/// which takes most of the time of the tests: it is opened twice, for two threads.
type Opened = Result<Vec<Mutex<WgpuDevice>>, String>;

type Open = fn() -> &'static Opened;

fn open(options: onetrip_wgpu::Options) -> Opened {
    let device = || WgpuDevice::open(&options).map_err(|e| e.to_string());
    let first = device()?;
    let second = first.is_software().then(device).transpose()?;
    Ok([first].into_iter().chain(second).map(Mutex::new).collect())
}

fn device() -> &'static Opened {
    static DEVICE: OnceLock<Opened> = OnceLock::new();
    DEVICE.get_or_init(|| open(Default::default()))
}

/// The same adapter, as if it had nothing optional.
fn plain() -> &'static Opened {
    static DEVICE: OnceLock<Opened> = OnceLock::new();
    DEVICE.get_or_init(|| open(onetrip_wgpu::Options { plain: true, ..Default::default() }))
}

/// The same adapter with bindings so small that matrices of cases lie in shards: of formats with few bits,
fn small_bindings() -> &'static Opened {
    static DEVICE: OnceLock<Opened> = OnceLock::new();
    DEVICE.get_or_init(|| open(onetrip_wgpu::Options { binding_bytes: Some(9 << 10), ..Default::default() }))
}

/// and of floats.
fn medium_bindings() -> &'static Opened {
    static DEVICE: OnceLock<Opened> = OnceLock::new();
    DEVICE.get_or_init(|| open(onetrip_wgpu::Options { binding_bytes: Some(34 << 10), ..Default::default() }))
}

/// One test per op for its kernels as text and one for their results.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for op in crate::ops::on_gpus() {
        tests.push(Trial::test(format!("kernels/{op}/wgsl is valid and translates"), move || translate(op)));
        let devices: [(&str, Open, bool); 4] = [
            ("wgpu", device, false),
            ("wgpu without subgroups", plain, true),
            ("wgpu with bindings of 9 KB", small_bindings, true),
            ("wgpu with bindings of 34 KB", medium_bindings, true),
        ];
        let has_matrices = matches!(op, "matmul" | "embed");
        for (name, device, others) in devices.into_iter().take(if has_matrices { 4 } else { 2 }) {
            tests.push(Trial::ignorable_test(format!("op/{op}/{name}"), move || match device() {
                Err(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
                Ok(devices) => cases(devices, op, others).map(|()| Completion::Completed),
            }));
        }
    }
    type Test = fn() -> Result<(), Failed>;
    let models: [(&str, Test); 4] = [
        ("definitions/qwen35/computes what the numpy implementation does (wgpu)", crate::qwen35::numpy_on_gpu),
        ("definitions/qwen35/replays of a step begin from the same states (wgpu)", crate::qwen35::replays_on_gpu),
        ("models/tiny/logits are those of the CPU (wgpu)", tiny),
        ("models/tiny/logits are the same with every matrix in shards (wgpu)", tiny_in_shards),
    ];
    for (name, test) in models {
        tests.push(Trial::ignorable_test(name, move || match device() {
            Err(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
            Ok(_) => test().map(|()| Completion::Completed),
        }));
    }
    tests
}

/// The embedded model on the GPU and on the CPU: read in chunks, then token by token; and two texts together, run ahead.
fn tiny() -> Result<(), Failed> {
    let file = || ModelFile::from_bytes(TINY);
    let (text, then): (Vec<u32>, Vec<u32>) = ((3..150).collect(), (20..50).collect());
    for (o, allowed) in [(Options::f32(), 1e-3), (Options::default(), 0.5)] {
        let answer = |o: &Options| -> Result<_, Failed> {
            let mut engine = load(file()?, o)?;
            let seq = sequences(&mut engine, 1)?;
            forced(&mut engine, &seq, &[&text], &then, 70)
        };
        let (have, want) = (answer(&o.on_gpu())?, answer(&o)?);
        let off = differences(&have, &want);
        if exceeds(off, allowed) {
            return Err(format!("{:?}: logits differ by {off:.2e} > {allowed:.0e}", o.compute).into());
        }
    }
    // The same tokens whether a device runs ahead or not, and whatever stops in between.
    let greedy = |o: &Options| -> Result<Vec<Vec<u32>>, Failed> {
        let mut engine = load(file()?, &Options { sequences: 2, ..o.clone() })?;
        let seqs = sequences(&mut engine, 2)?;
        engine.scheduler().set_tokens(seqs[0], &text[..40]);
        engine.scheduler().set_tokens(seqs[1], &text[50..57]);
        for _ in 0..12 {
            engine.step()?;
        }
        engine.scheduler().remove(seqs[1]);
        for _ in 0..6 {
            engine.step()?;
        }
        let tokens = engine.scheduler().tokens(seqs[0]).to_vec();
        Ok(vec![tokens])
    };
    let (have, want) = (greedy(&Options::f32().on_gpu())?, greedy(&Options::f32())?);
    let same = have[0].len().min(want[0].len());
    if same >= 55 && have[0][..same] == want[0][..same] {
        return Ok(());
    }
    Err(format!("greedy tokens {:?}, on the CPU {:?}", have[0], want[0]).into())
}

/// The embedded model where a binding takes 64 KB: most matrices lie in shards, the table that is the head too.
fn tiny_in_shards() -> Result<(), Failed> {
    let answer = |binding_bytes: Option<u64>| -> Result<_, Failed> {
        let o = Options { binding_bytes, ..Options::default().on_gpu() };
        let mut engine = load(ModelFile::from_bytes(TINY)?, &o)?;
        let key = PlanKey::of(1, 1, Want::LastLogits);
        let plan = engine.recorded(key)?.plan.clone();
        let bound: usize = plan.dispatches.iter().map(|d| d.args.len()).sum();
        let seq = sequences(&mut engine, 1)?;
        let text: Vec<u32> = (3..80).collect();
        Ok((bound, plan.dispatches.len(), forced(&mut engine, &seq, &[&text], &[5, 6, 7], 70)?))
    };
    let (bound, dispatches, want) = answer(None)?;
    let (in_shards, same, have) = answer(Some(64 << 10))?;
    if in_shards <= bound || same != dispatches {
        return Err(format!("{in_shards} operands in shards, {bound} without; {same} dispatches, {dispatches}").into());
    }
    // The same sums in the same order: not a bit differs.
    let off = differences(&have, &want);
    if exceeds(off, 0.0) { Err(format!("logits differ by {off:.2e}").into()) } else { Ok(()) }
}

/// Texts of a case.
fn texts(case: &Case, target: Target) -> Result<Vec<Arc<Text>>, Failed> {
    let codes = case_plan(case, target)?.dispatches.into_iter().filter_map(|d| d.code);
    Ok(codes.filter_map(|code| if let Code::Text(text) = code { Some(text) } else { None }).collect())
}

/// All cases of an op. A processor that plays the GPU takes seconds for large ones: it runs each with one seed, and leaves
/// out large ones whose kernels a smaller one has run already. `others`: only kernels that this adapter does not run
/// otherwise, each once.
fn cases(devices: &[Mutex<WgpuDevice>], op: &str, others: bool) -> Result<(), Failed> {
    let mut devices: Vec<_> = devices.iter().map(|d| d.lock().unwrap_or_else(|e| e.into_inner())).collect();
    let (target, is_software) = (devices[0].target(), devices[0].is_software());
    let all: Vec<_> = Op::all_cases().into_iter().filter(|(name, _)| *name == op).collect();
    let all = || all.iter().flat_map(|(name, cases)| cases.iter().map(|case| (*name, case)));
    // Kernels that have a device which runs all their cases, or which are not to be run.
    let mut homes: HashMap<Arc<Text>, usize> = HashMap::new();
    if others {
        let usual = onetrip_wgpu::adapters().first().map_or_else(WgslCaps::default, |a| a.caps);
        for (_, case) in all() {
            homes.extend(texts(case, Target::Wgsl(usual))?.into_iter().map(|text| (text, 0)));
        }
    }
    let (mut shares, mut in_shards, mut next) = (vec![vec![]; devices.len()], 0, 0);
    for (name, case) in all() {
        // A processor compiles a kernel over many shards for minutes.
        let shards = |sig: &Sig| on_target(sig, target, case.compute).shards(target.binding_bytes()).len();
        let most = case.all_ins().map(shards).max().unwrap_or(1);
        if most > MOST_SHARDS {
            continue;
        }
        let texts = texts(case, target)?;
        let is_new = texts.iter().any(|text| !homes.contains_key(text));
        let flops = case_plan(case, target)?.dispatches.iter().map(|d| d.cost.flops.eval(case.batch)).sum::<u64>();
        if !is_new && (others || is_software && flops > LARGE) {
            continue;
        }
        let home = texts.iter().find_map(|text| homes.get(text)).copied().filter(|_| !is_new);
        let home = home.unwrap_or_else(|| {
            next += 1;
            next % shares.len()
        });
        texts.into_iter().for_each(|text| _ = homes.entry(text).or_insert(home));
        in_shards += (most > 1) as usize;
        shares[home].push((name, case));
    }
    let seeds = if is_software || others { 1 } else { 2 };
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = std::iter::zip(devices.iter_mut().map(|d| &mut **d), &shares)
            .map(|(device, share)| scope.spawn(|| wrong_of(device, share, seeds)))
            .collect();
        running.into_iter().flat_map(|r| r.join().unwrap_or_else(|_| vec!["a case panicked".into()])).collect()
    });
    if target.binding_bytes() < 1 << 20 && in_shards == 0 {
        wrong.push("no case had a weight in shards".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// What is wrong with some cases on a device.
fn wrong_of(device: &mut WgpuDevice, cases: &[(&'static str, &Case)], seeds: u64) -> Vec<String> {
    let mut wrong = vec![];
    for ((name, case), seed) in cases.iter().flat_map(|case| (1..=seeds).map(move |seed| (*case, seed))) {
        let result = run_case(device, name, case, seed);
        match result.verdict {
            Verdict::Pass => {}
            Verdict::Gap(why) => wrong.push(format!("{}: no kernel: {why}", case.name)),
            Verdict::Fail(why) => wrong.push(format!("{} (seed {seed}, {:?}): {why}", case.name, result.kernels)),
        }
    }
    wrong
}

/// Adapters whose kernels differ: without subgroups, with small ones, with NVIDIA's and what they can do, Apple's.
fn kinds() -> Vec<WgslCaps> {
    let common = WgslCaps::default();
    vec![
        WgslCaps { subgroups: None, f16: false, workgroup_bytes: 16384, ..common },
        WgslCaps { subgroups: Some((8, 8)), ..common },
        common,
        WgslCaps { coop: 16, workgroup_bytes: 49152, invocations: 1024, ..common },
        WgslCaps { coop: 8, subgroups: Some((4, 64)), invocations: 1024, ..common },
    ]
}

/// The plan of a case alone, for a target; none where the case is none there.
pub fn lowered(case: &Case, target: Target, compute: Compute) -> Option<Plan> {
    case_plan(&Case { compute, ..case.clone() }, target).ok()
}

/// Every text that an op's cases are lowered to, for these adapters and both precisions: kernel, case, text.
pub fn texts_of(op: &str, kinds: &[WgslCaps]) -> Vec<(String, String, Arc<Text>)> {
    let mut seen = HashSet::new();
    let mut out = vec![];
    let cases = Op::all_cases().into_iter().filter(|(name, _)| *name == op).flat_map(|(_, cases)| cases);
    for case in cases {
        for (caps, compute) in kinds.iter().flat_map(|c| [(*c, Compute::Int8), (*c, Compute::F32)]) {
            let Some(plan) = lowered(&case, Target::Wgsl(caps), compute) else { continue };
            for d in plan.dispatches {
                if let Some(Code::Text(text)) = &d.code
                    && seen.insert(text.clone())
                {
                    out.push((d.kernel_name(), case.name.clone(), text.clone()));
                }
            }
        }
    }
    out
}

/// naga accepts every text, and writes SPIR-V and MSL of it.
fn translate(op: &str) -> Result<(), Failed> {
    let texts = texts_of(op, &kinds());
    let mut wrong = vec![];
    for (kernel, case, text) in &texts {
        if let Err(e) = translated(text, false) {
            wrong.push(format!("{kernel} ({case}): {e}"));
        }
    }
    match wrong.first() {
        None if !texts.is_empty() => Ok(()),
        None => Err(format!("{op} has no kernel at all").into()),
        Some(first) => Err(format!("{} of {} texts: {first}", wrong.len(), texts.len()).into()),
    }
}

/// SPIR-V words and MSL of a text; with `compact`, without what its entry does not use.
pub fn translated(text: &Text, compact: bool) -> Result<(Vec<u32>, String), String> {
    let mut module = naga::front::wgsl::parse_str(&text.source).map_err(|e| e.emit_to_string(&text.source))?;
    if compact {
        naga::compact::compact(&mut module, naga::compact::KeepUnused::No);
    }
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).map_err(|e| e.emit_to_string(&text.source))?;
    let spv = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    let words = naga::back::spv::write_vec(&module, &info, &spv, None).map_err(|e| e.to_string())?;
    let mut msl = naga::back::msl::Options { lang_version: (2, 4), ..Default::default() };
    msl.fake_missing_bindings = true;
    let pipeline = naga::back::msl::PipelineOptions::default();
    let (source, _) = naga::back::msl::write_string(&module, &info, &msl, &pipeline).map_err(|e| e.to_string())?;
    Ok((words, source))
}
