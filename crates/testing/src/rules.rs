//! Every rule on random graphs: a rule changes neither results nor the order of states, and never adds bytes.

use onetrip_core::compile::lower::lower;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use onetrip_core::cases::Rng;
use onetrip_core::compile::layout::Layouts;
use onetrip_core::fuse::{FRAGMENT_LAYOUT, Fuse, RULES, fuse, fuse_assuming};
use onetrip_core::graph::Graph;
use onetrip_core::probe::Silent;
use onetrip_core::record::record;
use onetrip_core::reference::{RefState, RefTensor, eval_graph};
use onetrip_cpu::CpuDevice;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::device::{Device, DeviceError, TestDevice};
use onetrip_ir::plan::Plan;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, CudaCaps, RowBucket, Target};

use crate::random::Case;
use crate::random::listed::two_layers;

/// Number of random graphs for every rule, and for every kind of subset of rules.
const GRAPHS: u64 = 250;
/// Tolerances relative to the largest element of an output. The references of the graph and of the rewritten graph compute the
/// same sums in f64; the rewritten one rounds to f32 at fewer places (`REFERENCE`). The device sums in f32 in another order
/// (`DEVICE`).
const REFERENCE: f32 = 2e-5;
const DEVICE: f32 = 2e-4;

/// One test per rule, one of random subsets, one of all, one of devices that have no kernels.
pub fn tests() -> Vec<Trial> {
    let mut tests: Vec<Trial> = RULES
        .iter()
        .map(|rule| {
            let name = format!("rules/{}/keeps the results and adds no bytes", rule.name);
            Trial::test(name, move || if rule.name == FRAGMENT_LAYOUT { fragments() } else { alone(rule.name) })
        })
        .collect();
    tests.push(Trial::test("rules/all together keep the results and add no bytes", || {
        let mut check = Checker::new()?;
        for seed in 0..GRAPHS {
            check.case(seed, &Fuse::All)?;
        }
        check.all_fired()
    }));
    tests.push(Trial::test("rules/random subsets keep the results and add no bytes", || {
        let mut check = Checker::new()?;
        for seed in 0..GRAPHS {
            let mut rng = Rng::new(seed + 77_000);
            let some = RULES.iter().filter(|_| rng.below(2) == 0).map(|r| r.name.to_string()).collect();
            check.case(seed, &Fuse::Some(some))?;
        }
        Ok(())
    }));
    tests.push(Trial::test("rules/on two layers as another engine lists them, each saves what it should", ladder));
    tests
}

/// Dispatches that each rule saves in a layer with a delta net, in a layer with attention and around the layers, in the order
/// of the list of rules; rules that find nothing there are left out.
const LADDER: &[(&str, usize)] = &[
    ("empty-nodes", 6),
    ("norm-weight", 3 + 4 + 1),
    ("states-in-place", 3),
    ("conv-group", 5),
    ("bias-epilogue", 1),
    ("gate-chain", 3),
    ("gated-norm", 2),
    ("merged-projections", 3),
    ("gate-up", 2 + 2),
    ("residual-norm", 2 + 2),
    ("merged-qkv", 2),
    ("norm-rope", 2),
    ("rope-cache-write", 2),
    ("attention-gate", 3),
    ("one-index-gathers", 1),
    ("mask-cast", 1),
    ("output-gathers", 1),
    ("delta-conv", 1),
    ("delta-norm", 1),
    ("attention-write", 1),
    ("attention-rope", 1),
    ("norm-prologue", 2 + 2 + 1),
];

fn ladder() -> Result<(), Failed> {
    let graph = two_layers();
    let ctx = LoweringContext {
        tokens: RowBucket::R1,
        seqs: RowBucket::R1,
        one_each: true,
        compute: Compute::F32,
        target: Target::Cuda(CudaCaps::default()),
    };
    let mut nodes = graph.nodes.len();
    if nodes != 39 + 26 + 7 {
        return Err(format!("{nodes} nodes").into());
    }
    for n in 1..=RULES.len() {
        let names = RULES[..n].iter().map(|r| r.name.to_string()).collect();
        let mut after = graph.clone();
        fuse_assuming(&mut after, &ctx, &Fuse::Some(names), true);
        after.check_order()?;
        let (rule, saved) = (RULES[n - 1].name, nodes - after.nodes.len());
        let want = LADDER.iter().find(|(name, _)| *name == rule).map_or(0, |(_, saved)| *saved);
        if saved != want {
            let left: Vec<String> = after.nodes.iter().map(|n| format!("  {} {:?}", n.name, n.op)).collect();
            return Err(format!("{rule} saved {saved} nodes, should be {want}; left:\n{}", left.join("\n")).into());
        }
        nodes = after.nodes.len();
    }
    match nodes {
        12 => Ok(()),
        n => Err(format!("{n} nodes left, should be 5 a layer, an embedding and a head").into()),
    }
}

/// Tests a rule alone. Rules that match the result of an earlier rule (a weighted norm, a pair of cache writes), always or more
/// often (a matmul with a bias), also run after the rules that they build on.
fn alone(rule: &'static str) -> Result<(), Failed> {
    let behind: &[&str] = match rule {
        "slices-in-place" => &["norm-weight"],
        "conv-group" => &["empty-nodes", "slices-in-place", "states-in-place"],
        "merged-projections" => &["bias-epilogue", "gate-chain"],
        "merged-qkv" => &["bias-epilogue", "gate-up"],
        "gated-norm" | "norm-residual" | "residual-norm" | "norm-rope" => &["norm-weight"],
        "residual-epilogue" => &["norm-weight", "bias-epilogue", "gate-up", "residual-norm"],
        "norm-prologue" => &["norm-weight", "bias-epilogue", "gate-up", "merged-qkv", "residual-epilogue"],
        "rope-cache-write" => &["norm-weight", "norm-rope"],
        "attention-gate" => &["norm-weight", "slices-in-place", "norm-rope"],
        "attention-write" => &["norm-weight", "norm-rope", "rope-cache-write"],
        "attention-rope" => &["norm-weight", "slices-in-place", "norm-rope", "attention-gate", "attention-write"],
        "delta-conv" => &["empty-nodes", "slices-in-place", "states-in-place", "conv-group"],
        "delta-norm" => &["norm-weight", "gated-norm"],
        _ => &[],
    };
    let lists = [vec![rule], behind.iter().copied().chain([rule]).collect()];
    let mut check = Checker::new()?;
    for list in &lists[..1 + !behind.is_empty() as usize] {
        let wanted = Fuse::Some(list.iter().map(|s| s.to_string()).collect());
        for seed in 0..GRAPHS {
            check.case(seed, &wanted)?;
        }
    }
    match check.fired.contains(&rule) {
        true => Ok(()),
        false => Err(format!("rule {rule} never fired on {GRAPHS} random graphs").into()),
    }
}

/// The rule that finds nothing on the CPU: its plans are made for CUDA, and `fragment_layout/…` runs some of them.
fn fragments() -> Result<(), Failed> {
    let mut fired = [0; 3];
    for seed in 0..GRAPHS {
        let n = crate::fragment_layout::keeps_results(seed)
            .map_err(|why| format!("layer of seed {seed}: {}", why.message().unwrap_or("no reason")))?;
        fired[n.min(2)] += 1;
    }
    // Layers in which the rule finds no site, one or two.
    match fired.contains(&0) {
        false => Ok(()),
        true => Err(format!("fired 0, 1 and 2 times in {fired:?} layers").into()),
    }
}

struct Checker {
    devices: Vec<CpuDevice>,
    fired: Vec<&'static str>,
}

impl Checker {
    fn new() -> Result<Checker, Failed> {
        let devices = [1, 2].into_iter().map(|n| CpuDevice::with_isa(Some(n), Isa::detect()));
        let devices = devices.collect::<Result<_, _>>()?;
        Ok(Checker { devices, fired: vec![] })
    }

    fn all_fired(&self) -> Result<(), Failed> {
        // No CPU kernel reads the MMA fragment layout.
        let fires = RULES.iter().map(|r| r.name).filter(|name| *name != FRAGMENT_LAYOUT);
        let never: Vec<&str> = fires.filter(|name| !self.fired.contains(name)).collect();
        if never.is_empty() { Ok(()) } else { Err(format!("never fired: {}", never.join(", ")).into()) }
    }

    fn case(&mut self, seed: u64, wanted: &Fuse) -> Result<(), Failed> {
        let case = Case::new(seed);
        // One graph in four runs on two threads: barriers are where kernels could go wrong, but they make the test slow.
        let device = &mut self.devices[(seed.is_multiple_of(4)) as usize];
        let fired = check(&case, wanted, device).map_err(|why| format!("graph of seed {seed}, {wanted:?}: {why}"))?;
        self.fired.extend(fired.into_iter().filter(|(_, n)| *n > 0).map(|(name, _)| name));
        Ok(())
    }
}

type Fired = Vec<(&'static str, usize)>;

fn check(case: &Case, wanted: &Fuse, device: &mut CpuDevice) -> Result<Fired, String> {
    let ctx = case.ctx(device.target());
    let mut after = case.graph.clone();
    let report = fuse(&mut after, &ctx, wanted);
    if !report.refused.is_empty() {
        return Err(format!("the CPU has every kernel, yet refused: {:?}", report.refused));
    }
    after.check_order()?;
    let (want, want_states) = reference(case, &case.graph);
    let (have, have_states) = reference(case, &after);
    same("reference", &have, &want, REFERENCE)?;
    same_states("reference", &have_states, &want_states, REFERENCE)?;

    let lower = |wanted| lower(case.graph.clone(), ctx, wanted, &Layouts::new(), "cpu").map_err(|e| e.to_string());
    let (plain, fused) = (lower(&Fuse::None)?, lower(wanted)?);
    let bytes = |plan: &Plan| {
        let ledger = plan.ledger(case.batch.bind());
        ledger.bytes_read + ledger.bytes_written
    };
    if bytes(&fused) > bytes(&plain) {
        return Err(format!("moves {} bytes, before the rule {}\n{}", bytes(&fused), bytes(&plain), fused.table(None)));
    }
    if fused.dispatches.len() > plain.dispatches.len() {
        return Err(format!("{} dispatches became {}", plain.dispatches.len(), fused.dispatches.len()));
    }
    let (have, have_states) = run(case, fused, device).map_err(|e| e.to_string())?;
    same("device", &have, &want, DEVICE)?;
    same_states("device", &have_states, &want_states, DEVICE)?;
    Ok(report.fired)
}

fn reference(case: &Case, graph: &Graph) -> (Vec<RefTensor>, Vec<RefState>) {
    let mut states = case.states.clone();
    let (one, target) = (RowBucket::R1, Target::Cpu(Isa::Portable));
    let exact = LoweringContext { tokens: one, seqs: one, one_each: false, compute: Compute::F32, target };
    (eval_graph(graph, &case.numbers, &exact, &case.batch, &mut states), states)
}

fn run(case: &Case, plan: Plan, device: &mut CpuDevice) -> Result<(Vec<RefTensor>, Vec<RefState>), DeviceError> {
    device.set_guards(true);
    device.set_weights(case.weights.clone())?;
    device.set_states(&case.states.iter().map(|s| s.bytes.len() as u64).collect::<Vec<_>>())?;
    case.states.iter().enumerate().for_each(|(i, s)| device.write_state(i, &s.bytes));
    let plan = Arc::new(plan);
    let recording = record(&plan, device, &mut Silent)?;
    let ran = device.submit(&recording, &case.batch)?;
    if !device.guards_intact() {
        return Err(DeviceError::Batch("a kernel wrote beyond its output".into()));
    }
    let bind = case.batch.bind();
    let outputs = case.graph.outputs.iter().enumerate().map(|(i, &v)| {
        let sig = &case.graph.values[v].sig;
        let data = device.output(ran, &plan, i, sig.rows.eval(bind) as usize)?;
        Ok(RefTensor { width: sig.width, data })
    });
    let outputs = outputs.collect::<Result<_, DeviceError>>()?;
    let states = case.states.iter().enumerate().map(|(i, s)| RefState { bytes: device.read_state(i), ..s.clone() });
    Ok((outputs, states.collect()))
}

fn same(what: &str, have: &[RefTensor], want: &[RefTensor], tolerance: f32) -> Result<(), String> {
    if have.len() != want.len() {
        return Err(format!("{what}: {} outputs, should be {}", have.len(), want.len()));
    }
    have.iter()
        .zip(want)
        .enumerate()
        .try_for_each(|(i, (have, want))| close(&format!("{what}, output {i}"), &have.data, &want.data, tolerance))
}

fn same_states(what: &str, have: &[RefState], want: &[RefState], tolerance: f32) -> Result<(), String> {
    let numbers = |s: &RefState| {
        let row = s.dtype.row_bytes(s.cache.dim).unwrap_or(1);
        let mut out = vec![0.0; s.bytes.len() / row * s.cache.dim];
        s.dtype.def().dequantize(&s.bytes, &mut out);
        out
    };
    have.iter().zip(want).enumerate().try_for_each(|(i, (have, want))| {
        // A value halfway between two f16 may round either way.
        let tolerance = if want.dtype == onetrip_ir::formats::DType::F32 { tolerance } else { 1e-3 };
        close(&format!("{what}, state {i}"), &numbers(have), &numbers(want), tolerance)
    })
}

fn close(what: &str, have: &[f32], want: &[f32], tolerance: f32) -> Result<(), String> {
    if have.len() != want.len() {
        return Err(format!("{what}: {} numbers, should be {}", have.len(), want.len()));
    }
    let scale = want.iter().fold(1e-3f32, |a, x| a.max(x.abs()));
    for (i, (h, w)) in have.iter().zip(want).enumerate() {
        let error = (h - w).abs() / scale;
        if crate::harness::exceeds(error, tolerance) {
            return Err(format!("{what}, number {i}: {h}, should be {w}: {error:.1e} > {tolerance:.0e}"));
        }
    }
    Ok(())
}
