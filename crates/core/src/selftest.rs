//! Every op's cases on a device against their meaning: fresh random inputs, poisoned outputs, guard bytes.

use crate::compile::lower::lower;
use std::sync::Arc;

use crate::compile::layout::Layouts;
use crate::fuse::Fuse;
use crate::graph::{Graph, Source};
use crate::lowering::Site;
use crate::ops::{Case, Op};
use crate::probe::Silent;
use crate::record::record;
use crate::reference::{RefState, RefTensor, eval_graph};
use onetrip_ir::batch::{RopeSpec, SampleParams, SeqSpan, StepBatch};
use onetrip_ir::context::Setting;
use onetrip_ir::cpu::memory::AlignedBytes;
use onetrip_ir::device::{Device, DeviceError, WeightData};
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::formats::planes;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::plan::Plan;
use onetrip_ir::target::{Compute, RowClass, Target};
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::{Layout, Role, Sig, tile_layout};

/// Positions in a page of the caches of cases: small, so that most cases cross pages.
const PAGE_LEN: u32 = 32;

/// What every kernel of a GPU may be off by, relative to the largest number.
const LAST_BITS: f32 = 1e-6;

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The error is within the case's tolerance.
    Pass,
    /// The device has no kernel, and why.
    Gap(&'static str),
    /// It is wrong, and how.
    Fail(String),
}

/// A row of the table op × case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The op.
    pub op: &'static str,
    /// The case.
    pub case: String,
    /// Kernels that ran.
    pub kernels: Vec<String>,
    /// Largest error, relative to the largest magnitude of the output.
    pub error: f32,
    /// What is allowed.
    pub tolerance: f32,
    /// What came of it.
    pub verdict: Verdict,
}

/// Random numbers for test inputs (xorshift64*).
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// Roughly normal, variance 1: the sum of four uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| (self.bits() >> 40) as f32 / (1u64 << 24) as f32).sum();
        (sum - 2.0) * 3f32.sqrt()
    }

    /// Many of them.
    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }
}

/// Random ragged batch of `t` tokens in `s` sequences, the longest of which ends at `l`; pages in random order.
pub fn random_batch(rng: &mut Rng, Bind { t, s, l }: Bind, vocabulary: u64, ropes: &[RopeSpec]) -> (StepBatch, usize) {
    let mut batch = StepBatch { page_len: PAGE_LEN, ..Default::default() };
    let pages_each = (l as usize).div_ceil(PAGE_LEN as usize);
    let total = pages_each * s as usize;
    let mut order: Vec<u32> = (0..total as u32).collect();
    for i in (1..total).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    for i in 0..s {
        let count = t / s + if i < t % s { 1 } else { 0 };
        let ids: Vec<u32> = (0..count).map(|_| rng.below(vocabulary) as u32).collect();
        // The first sequence is the longest.
        let first = if i == 0 { l - count } else { rng.below(l - count + 1) };
        let at = i as usize * pages_each;
        let pages = order[at..at + pages_each].to_vec();
        let sample = SampleParams { top: 5, temperature: i as f32 * 0.7, seed: rng.bits(), ..Default::default() };
        // Slots in another order than the sequences, and one that is nobody's.
        let slot = (s - i) as u32;
        batch.push(&ids, first as u32, SeqSpan { pages, slot, sample, ..Default::default() });
    }
    batch.logit_rows = batch.seqs.iter().map(|s| s.start + s.count - 1).collect();
    batch.fill_rope(ropes);
    (batch, total)
}

/// Stores random numbers in a weight's type and layout; also gives what they are.
pub fn random_weight(rng: &mut Rng, sig: &Sig, rows: usize) -> (AlignedBytes, RefTensor) {
    let k = sig.width;
    let numbers: Vec<f32> = rng.normals(rows * k).iter().map(|x| x * 0.5).collect();
    let row_bytes = sig.row_bytes();
    let mut stored = AlignedBytes::zeroed(rows * row_bytes);
    let mut data = vec![0.0; rows * k];
    for r in 0..rows {
        let bytes = &mut stored.as_mut()[r * row_bytes..(r + 1) * row_bytes];
        sig.dtype.def().quantize(&numbers[r * k..(r + 1) * k], bytes);
        sig.dtype.def().dequantize(bytes, &mut data[r * k..(r + 1) * k]);
    }
    if sig.role == Role::Weight(Layout::Tile16)
        && let Some(tiled) = repack(sig.dtype, k, rows, stored.as_ref())
    {
        stored = tiled;
    }
    if sig.role == Role::Weight(Layout::Planes)
        && let Some(planes) = Planes::new(sig.dtype, rows, k)
    {
        // What the planes hold is what the kernel is compared with: they may round scales.
        let packed = planes.packed(stored.as_ref());
        data = planes.values(&packed, rows);
        stored = AlignedBytes::copy_of(&packed);
    }
    (stored, RefTensor { width: k, data })
}

/// Uniform random f32 from `low` to `high`, as bytes and as numbers.
fn uniform(rng: &mut Rng, width: usize, rows: usize, low: f32, high: f32) -> (AlignedBytes, RefTensor) {
    let mut one = || low + (high - low) * (rng.bits() >> 40) as f32 / (1u64 << 24) as f32;
    let data: Vec<f32> = (0..rows * width).map(|_| one()).collect();
    (AlignedBytes::copy_of(bytemuck::cast_slice(&data)), RefTensor { width, data })
}

/// A stored weight in interleaved tiles; none where the format or width has no such layout.
pub fn repack(dtype: DType, k: usize, rows: usize, stored: &[u8]) -> Option<AlignedBytes> {
    let layout = tile_layout(dtype, k)?;
    let row_bytes = dtype.row_bytes(k)?;
    let mut out = AlignedBytes::zeroed(rows.div_ceil(16) * layout.tile_bytes());
    for (rows, tile) in stored.chunks(16 * row_bytes).zip(out.as_mut().chunks_exact_mut(layout.tile_bytes())) {
        let rows: Vec<&[u8]> = rows.chunks_exact(row_bytes).collect();
        layout.pack(&rows, &|block, parts| dtype.def().unpack(block, parts), tile);
    }
    Some(out)
}

/// The signature of a case's input on a target: quantized matrices lie in planes on GPUs, and in tiles on the CPU only
/// where activations are int8.
pub fn on_target(sig: &Sig, target: Target, compute: Compute) -> Sig {
    let role = match sig.role {
        Role::Weight(_) if target.is_text() && planes::spec(sig.dtype).is_some() => Role::Weight(Layout::Planes),
        Role::Weight(Layout::Tile16) if compute != Compute::Int8 => Role::Weight(Layout::Stored),
        role => role,
    };
    Sig { role, ..sig.clone() }
}

/// Runs one case on a device and compares it with the reference.
pub fn run_case(device: &mut dyn Device, op: &'static str, case: &Case, seed: u64) -> CaseResult {
    let mut result = CaseResult {
        op,
        case: case.name.clone(),
        kernels: vec![],
        error: 0.0,
        // A GPU may join a product and a sum, and its functions are right to a few last bits.
        tolerance: if device.target().is_text() { case.tolerance.max(LAST_BITS) } else { case.tolerance },
        verdict: Verdict::Pass,
    };
    match try_case(device, case, seed, &mut result) {
        Ok(()) => {}
        Err(DeviceError::Gap { why, .. }) => result.verdict = Verdict::Gap(why),
        Err(e) => result.verdict = Verdict::Fail(e.to_string()),
    }
    result
}

/// The plan of a case on a target: what `run_case` runs, without a device.
pub fn case_plan(case: &Case, target: Target) -> Result<Plan, ShapeError> {
    let (graph, setting) = case_graph(case, target)?;
    lower(graph, setting, &Fuse::None, &Layouts::new(), "test")
}

/// The op of a case as a graph, and what follows it; the inputs of both as weights and states in their order.
fn case_graph(case: &Case, target: Target) -> Result<(Graph, Setting), ShapeError> {
    let inv_freq = (0..rope_pairs(&case.op)).map(|i| 10000f32.powf(-(i as f32) / 32.0)).collect();
    let mut graph = Graph { ropes: vec![RopeSpec { inv_freq, factor: 1.0 }], ..Default::default() };
    let (mut weights, mut states) = (0, 0..);
    let mut ins = vec![];
    for (i, sig) in case.all_ins().enumerate() {
        let source = match sig.is_state() {
            true => Source::State(states.next().unwrap_or(0)),
            false => Source::Weight(weights),
        };
        let sig = on_target(sig, target, case.compute);
        if !sig.is_state() {
            weights += sig.shards(target.binding_bytes()).len();
        }
        ins.push(graph.source(format!("input {i}"), sig, source));
    }
    let (ins, more) = ins.split_at(case.ins.len());
    let mut outs = graph.push("case", case.op.clone(), ins)?;
    if let Some((op, _)) = &case.then {
        outs = graph.push("then", op.clone(), &[&outs[..1], more].concat())?;
    }
    graph.outputs = outs.iter().copied().filter(|&v| !graph.values[v].sig.is_state()).collect();
    let setting = Setting {
        tokens: RowClass::of(case.batch.t as usize),
        seqs: RowClass::of(case.batch.s as usize),
        one_each: case.batch.t == case.batch.s,
        compute: case.compute,
        target,
    };
    Ok((graph, setting))
}

fn try_case(device: &mut dyn Device, case: &Case, seed: u64, result: &mut CaseResult) -> Result<(), DeviceError> {
    let mut rng = Rng::new(seed);
    let wrong = |e: String| DeviceError::Batch(e);
    let (graph, setting) = case_graph(case, device.target()).map_err(|e| wrong(e.to_string()))?;
    let vocabulary = case.ins[0].rows.constant().unwrap_or(8);
    let (batch, pages) = random_batch(&mut rng, case.batch, vocabulary, &graph.ropes);
    let (mut weights, mut numbers, mut states): (Vec<WeightData>, Vec<RefTensor>, Vec<RefState>) = Default::default();
    for (i, value) in graph.values.iter().enumerate().filter(|(_, value)| value.source != Source::Node) {
        let sig = &value.sig;
        match sig.role {
            Role::State(cache) => {
                let mut state = RefState::new(cache, sig.dtype, PAGE_LEN as usize, pages);
                fill_state(&mut rng, &mut state);
                states.push(state);
            }
            Role::Recurrent => {
                let mut state = RefState::recurrent(sig.width, case.batch.s as usize + 1);
                fill_state(&mut rng, &mut state);
                states.push(state);
            }
            _ => {
                let mut all = RefTensor { width: sig.width, data: vec![] };
                for shard in sig.shards(setting.target.binding_bytes()) {
                    let rows = shard.rows.eval(case.batch) as usize;
                    let (bytes, part) = match case.ranges.iter().find(|(input, ..)| *input == i) {
                        Some(&(_, low, high)) => uniform(&mut rng, sig.width, rows, low, high),
                        None => random_weight(&mut rng, &shard, rows),
                    };
                    weights.push(Arc::new(bytes));
                    all.data.extend(part.data);
                }
                numbers.push(all);
                // A weight goes by the number of its first shard.
                numbers.resize(weights.len(), RefTensor::default());
            }
        }
    }
    if let Some(want) = case.cost {
        // Counted by hand for weights as they are stored.
        let site = Site { ins: case.ins.clone(), ..graph.site(&setting, &graph.nodes[0].ins, &graph.nodes[0].outs) };
        let cost = case.op.cost(&site);
        let have = (cost.read.eval(case.batch), cost.written.eval(case.batch), cost.flops.eval(case.batch));
        if have != want {
            return Err(wrong(format!("claims {have:?} bytes read, written, operations; counted by hand {want:?}")));
        }
    }
    let mut expected_states = states.clone();
    for node in &graph.nodes {
        let Op::Matmul(m) = &node.op else { continue };
        let site = graph.site(&setting, &node.ins, &node.outs);
        let weights = &site.ins[m.first_weight()..m.first_operand()];
        let most = weights.iter().map(|w| site.rounding(w).tolerance()).fold(0.0, f32::max);
        result.tolerance = result.tolerance.max(most);
    }
    let expected = eval_graph(&graph, &numbers, &setting, &batch, &mut expected_states);
    // Layouts are in the signatures already.
    let plan = lower(graph, setting, &Fuse::None, &Layouts::new(), device.name());
    let plan = Arc::new(plan.map_err(|e| wrong(e.to_string()))?);
    result.kernels = plan.dispatches.iter().map(|d| d.kernel.clone()).collect();
    device.set_guards(true);
    device.set_weights(weights)?;
    device.set_states(&states.iter().map(|s| s.bytes.len() as u64).collect::<Vec<_>>())?;
    let recording = record(&plan, device, &mut Silent)?;
    // Twice: a kernel that leaves something behind, or reads what it should write, differs the second time.
    for run in 0..2 {
        for (i, s) in states.iter().enumerate() {
            device.write_state(i, &s.bytes);
        }
        let counted = device.counts().dispatches;
        let ran = device.submit(&recording, &batch)?;
        // What went wrong on the device is said as that, and not as guards that cannot be read.
        device.wait()?;
        if !device.guards_intact() {
            return Err(wrong(format!("run {run} wrote beyond an output, or two workers wrote to one place")));
        }
        for (i, want) in expected.iter().enumerate() {
            let have = device.output(ran, &plan, i, want.rows())?;
            if matches!(case.op, Op::Sample(_)) {
                same_ids(&have, want)?;
            }
            compare(result, &format!("output {i}, run {run}"), &have, &want.data)?;
        }
        let counted = device.counts().dispatches - counted;
        if counted != plan.dispatches.len() as u64 {
            return Err(wrong(format!("run {run} was {counted} dispatches, the plan has {}", plan.dispatches.len())));
        }
        for (i, want) in expected_states.iter().enumerate() {
            let have = RefState { bytes: device.read_state(i), ..want.clone() };
            compare(result, &format!("state {i}, run {run}"), &numbers_of(&have), &numbers_of(want))?;
        }
    }
    device.set_guards(false);
    Ok(())
}

/// Ids are bits, in the first and every even column: a relative error would not see them.
fn same_ids(have: &[f32], want: &RefTensor) -> Result<(), DeviceError> {
    for (i, (h, w)) in have.iter().zip(&want.data).enumerate().filter(|(i, _)| (i % want.width).is_multiple_of(2)) {
        if h.to_bits() != w.to_bits() && !(h.is_nan() && w.is_nan()) {
            let (h, w) = (h.to_bits(), w.to_bits());
            return Err(DeviceError::Batch(format!("row {}: token {h}, should be {w}", i / want.width)));
        }
    }
    Ok(())
}

fn compare(result: &mut CaseResult, what: &str, have: &[f32], want: &[f32]) -> Result<(), DeviceError> {
    let scale = want.iter().filter(|x| x.is_finite()).fold(1e-6f32, |a, x| a.max(x.abs()));
    for (i, (h, w)) in have.iter().zip(want).enumerate() {
        if h.to_bits() == w.to_bits() || (h.is_nan() && w.is_nan()) {
            continue;
        }
        let error = (h - w).abs() / scale;
        result.error = result.error.max(error);
        if error.is_nan() || error > result.tolerance {
            let (e, t) = (error, result.tolerance);
            return Err(DeviceError::Batch(format!("{what}, number {i}: {h}, should be {w}: {e:.1e} > {t:.1e}")));
        }
    }
    Ok(())
}

fn numbers_of(state: &RefState) -> Vec<f32> {
    let row = state.dtype.row_bytes(state.cache.dim).unwrap_or(1);
    let mut out = vec![0.0; state.bytes.len() / row * state.cache.dim];
    state.dtype.def().dequantize(&state.bytes, &mut out);
    out
}

fn fill_state(rng: &mut Rng, state: &mut RefState) {
    let pages =
        state.bytes.len() / (state.cache.heads * state.page_len * state.dtype.row_bytes(state.cache.dim).unwrap_or(1));
    let heads = state.cache.heads;
    for (page, head) in (0..pages).flat_map(|p| (0..heads).map(move |h| (p, h))) {
        for offset in 0..state.page_len {
            state.set(page, head, offset, &rng.normals(state.cache.dim));
        }
    }
}

/// Pairs of the rotary table that an op wants.
fn rope_pairs(op: &crate::ops::Op) -> usize {
    use crate::ops::Op;
    let rope = match op {
        Op::Rope(r) => Some(r),
        Op::CacheWrite(w) => w.rope.as_ref(),
        Op::Attention(a) => a.q_rope.as_ref(),
        _ => None,
    };
    rope.map_or(1, |r| r.pairs)
}
