//! Random inputs, batches and weights for the cases of ops, and the plan of a case. Another crate runs them on a device.

use crate::compile::layout::Layouts;
use crate::compile::lower::lower;
use crate::fuse::{FRAGMENT_LAYOUT, Fuse};
use crate::graph::{Graph, Source};
use crate::ops::{Case, Op};
use crate::reference::RefTensor;
use onetrip_ir::batch::{RopeSpec, SampleParams, SeqSpan, StepBatch};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::cpu::memory::AlignedBytes;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::formats::planes;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::plan::Plan;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::{Layout, Role, Sig, tile_layout};

/// Positions in a page of the caches of cases: small, so that most cases cross pages.
pub const PAGE_LEN: u32 = 32;

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

    /// A random integer below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// A roughly normal number of mean 0 and variance 1: a scaled sum of four uniform ones.
    pub fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| (self.bits() >> 40) as f32 / (1u64 << 24) as f32).sum();
        (sum - 2.0) * 3f32.sqrt()
    }

    /// `n` numbers from [`Rng::normal`].
    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }
}

/// A random ragged batch of `t` tokens in `s` sequences, the longest of which ends at `l`, with pages in random order. Also
/// returns the number of pages.
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
        // Slots in another order than the sequences; slot 0 belongs to no sequence.
        let slot = (s - i) as u32;
        batch.push(&ids, first as u32, SeqSpan { pages, slot, sample, ..Default::default() });
    }
    batch.logit_rows = batch.seqs.iter().map(|s| s.start + s.count - 1).collect();
    batch.fill_rope(ropes);
    (batch, total)
}

/// A random weight in its type and layout, of numbers with this standard deviation, and the elements that it holds after rounding.
pub fn random_weight(rng: &mut Rng, sig: &Sig, rows: usize, size: f32) -> (AlignedBytes, RefTensor) {
    let k = sig.width;
    let numbers: Vec<f32> = rng.normals(rows * k).iter().map(|x| x * size).collect();
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
        // The kernel is compared with the elements that the planes hold, because planes may round scales.
        let packed = planes.packed(stored.as_ref());
        data = planes.values(&packed, rows);
        stored = AlignedBytes::copy_of(&packed);
    }
    (stored, RefTensor { width: k, data })
}

/// Uniform random f32 from `low` to `high`, `[rows][width]`, as bytes and as a tensor.
pub fn uniform(rng: &mut Rng, width: usize, rows: usize, low: f32, high: f32) -> (AlignedBytes, RefTensor) {
    let mut one = || low + (high - low) * (rng.bits() >> 40) as f32 / (1u64 << 24) as f32;
    let data: Vec<f32> = (0..rows * width).map(|_| one()).collect();
    (AlignedBytes::copy_of(bytemuck::cast_slice(&data)), RefTensor { width, data })
}

/// Repacks a stored weight into interleaved tiles of 16 rows; `None` where the format or width has no such layout.
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

/// The signature of a case's input on a target: quantized matrices are in planes on GPUs, and in tiles on the CPU only where
/// activations are int8.
pub fn on_target(sig: &Sig, target: Target, compute: Compute) -> Sig {
    let role = match sig.role {
        Role::Weight(_) if target.is_text() && planes::spec(sig.dtype).is_some() => Role::Weight(Layout::Planes),
        Role::Weight(Layout::Tile16) if compute != Compute::Int8 => Role::Weight(Layout::Stored),
        role => role,
    };
    Sig { role, ..sig.clone() }
}

/// The rules by which cases are planned. An op stays what it is; where a case has a reader of its output, the value between
/// them may be in MMA fragment layout.
pub fn case_rules() -> Fuse {
    Fuse::only(FRAGMENT_LAYOUT)
}

/// The plan of a case on a target, as the selftest runs it; it needs no device.
pub fn case_plan(case: &Case, target: Target) -> Result<Plan, ShapeError> {
    let (graph, ctx) = case_graph(case, target)?;
    lower(graph, ctx, &case_rules(), &Layouts::new(), "test")
}

/// The graph of a case: its op and the op that follows, with the inputs of both as weights and states, numbered in order.
pub fn case_graph(case: &Case, target: Target) -> Result<(Graph, LoweringContext), ShapeError> {
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
    let ctx = LoweringContext {
        tokens: RowBucket::of(case.batch.t as usize),
        seqs: RowBucket::of(case.batch.s as usize),
        one_each: case.batch.t == case.batch.s,
        compute: case.compute,
        target,
    };
    Ok((graph, ctx))
}

/// The pairs per row of the rotary table that an op reads; 1 for an op without a table.
fn rope_pairs(op: &Op) -> usize {
    let rope = match op {
        Op::Rope(r) => Some(r),
        Op::CacheWrite(w) => w.rope.as_ref(),
        Op::Attention(a) => a.q_rope.as_ref(),
        _ => None,
    };
    rope.map_or(1, |r| r.pairs)
}
