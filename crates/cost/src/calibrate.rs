//! The measurements of `onetrip calibrate` on a CPU: synthetic chains of one op each, through the real thread pool and
//! kernels. Sizes are round numbers that belong to no model, and no model plan is run.
//!
//! A [`Probe`] is one point of one curve, with the chain whose dispatches are measured for it. The ops are known here only;
//! the command that times the chains knows none. The measurements on a GPU are in [`pairs`] and [`layers`].

use std::collections::BTreeMap;

use crate::price::{GROUP, LONG_K, STREAM_K, rounds};
use onetrip_core::compile::layout::choose_layouts;
use onetrip_core::compile::lower::lower;
use onetrip_core::fuse::{FRAGMENT_LAYOUT, Fuse};
use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::Op;
use onetrip_core::ops::attention::Attention;
use onetrip_core::ops::cache_write::CacheWrite;
use onetrip_core::ops::conv::{Conv, Heads};
use onetrip_core::ops::delta_net::{DeltaNet, Front};
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::embed::Embed;
use onetrip_core::ops::l2_norm::L2Norm;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rms_norm::{RmsNorm, WHOLE_ROW};
use onetrip_core::ops::rope::Rope;
use onetrip_core::ops::sample::Sample;
use onetrip_ir::batch::{RopeSpec, SeqSpan, StepBatch};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::expr::{Bind, Expr};
use onetrip_ir::formats::DType;
use onetrip_ir::formats::tile::TILE_ROWS;
use onetrip_ir::plan::{Dispatch, Plan};
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::{Tree, Unary};

pub mod layers;
pub mod pairs;

/// The most bytes of measured weights in one chain.
pub const MOST_BYTES: u64 = 96 << 20;
/// Bytes that all workers read at the beginning of a cold chain: more than most processors' caches hold. On a processor with
/// larger caches "cold" is partly warm, which the curve `read` shows.
pub const FLUSH_BYTES: u64 = 72 << 20;
/// Name of the dispatch that reads them; it is not measured.
pub const FLUSH: &str = "flush";

/// How a measured time becomes the curve's `y`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// µs of the whole dispatch.
    Dispatch,
    /// µs of one item: the launch is subtracted, and the rest divided by the items in the longest share of a worker.
    Item {
        /// Items of the dispatch, with a grain of 1.
        items: u64,
    },
    /// A rate per second: this many operations over the time without the launch.
    Rate(f64),
}

impl Unit {
    /// The curve's `y` for `us`, with a launch of `launch` µs, on `threads` workers.
    pub fn y(self, us: f64, launch: f64, threads: usize) -> f64 {
        match self {
            Unit::Dispatch => us,
            Unit::Item { items } => (us - launch).max(0.0) / rounds(items, 1, threads).max(1) as f64,
            Unit::Rate(operations) => operations / (us - launch).max(0.01 * us) * 1e6,
        }
    }
}

/// The part of a chain's run that is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timed {
    /// The time until the first dispatch begins.
    Submit,
    /// Every dispatch of an op.
    Op(&'static str),
    /// Every dispatch of one kernel: the op, and the kernel's name.
    Kernel(&'static str, &'static str),
}

impl Timed {
    /// True if the dispatch is measured.
    pub fn is_of(&self, d: &Dispatch) -> bool {
        let Some(kernel) = &d.kernel else { return false };
        match self {
            Timed::Submit => false,
            Timed::Op(op) => kernel.op == *op,
            Timed::Kernel(op, name) => kernel.is(op, name),
        }
    }
}

/// One point of one curve.
pub struct Probe {
    /// Name of the curve.
    pub curve: String,
    /// The curve's `x` at this point.
    pub x: f64,
    /// How the time becomes the curve's `y`.
    pub unit: Unit,
    /// The part of the chain's run that is measured.
    pub timed: Timed,
    /// The chain begins with a dispatch that fills the caches of all workers with other data.
    pub cold: bool,
    /// The dispatches to run.
    pub chain: Chain,
}

impl Probe {
    /// Whether one worker does the whole work, so that it is measured with one thread only.
    pub fn is_alone(&self) -> bool {
        self.unit == Unit::Item { items: 1 } || self.curve == "quantize"
    }
}

/// A synthetic graph with the batch that it runs on.
pub struct Chain {
    graph: Graph,
    batch: (usize, usize, usize),
    /// Bytes of each weight, by index, in the layout of the plan.
    pub weights: Vec<u64>,
    /// Shapes of the states, by index.
    pub states: Vec<Sig>,
    /// All large weights may be at one address, so that they are read from a cache (hot).
    pub is_shared: bool,
    /// Values that must not share a slot. If there are none, the last value is the only output.
    kept: Vec<ValueId>,
}

impl Chain {
    fn new(t: usize, s: usize, l: usize) -> Chain {
        Chain {
            graph: Graph::default(),
            batch: (t, s, l),
            weights: vec![],
            states: vec![],
            is_shared: false,
            kept: vec![],
        }
    }

    fn weight(&mut self, rows: usize, width: usize, dtype: DType) -> ValueId {
        self.weights.push(0);
        let index = self.weights.len() - 1;
        self.graph.source(format!("w{index}"), Sig::weight(rows, width, dtype), Source::Weight(index))
    }

    fn state(&mut self, sig: Sig) -> ValueId {
        self.states.push(sig.clone());
        let index = self.states.len() - 1;
        self.graph.source(format!("s{index}"), sig, Source::State(index))
    }

    fn input(&mut self, width: usize) -> Result<ValueId, ShapeError> {
        let table = self.weight(16, width, DType::F32);
        self.push(Embed { scale: 1.0 }, &[table])
    }

    /// Appends a dispatch in which all workers read other data, so that the caches hold nothing that the next dispatches read.
    fn flush(&mut self) -> Result<(), ShapeError> {
        let x = self.input(2048)?;
        let row = DType::Q8_0.row_bytes(2048).unwrap_or(2176) as u64;
        let w = self.weight((FLUSH_BYTES / row) as usize, 2048, DType::Q8_0);
        self.graph.push(FLUSH, Matmul::plain(), &[x, w])?;
        Ok(())
    }

    fn push(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> Result<ValueId, ShapeError> {
        Ok(self.graph.push(format!("probe{}", self.graph.nodes.len()), op, ins)?[0])
    }

    /// The chain's plan on a target: op by op, with values between ops in MMA fragment layout as plans of models have them.
    pub fn plan(&mut self, target: Target) -> Result<Plan, ShapeError> {
        let (t, s, _) = self.batch;
        let ctx = LoweringContext {
            tokens: RowBucket::of(t),
            seqs: RowBucket::of(s),
            one_each: t == s,
            compute: Compute::Int8,
            target,
        };
        let last = self.graph.nodes.last().map(|n| n.outs[0]).filter(|_| self.kept.is_empty());
        // A state cannot be an output, because it is in no slot.
        self.graph.outputs = last
            .into_iter()
            .chain(self.kept.iter().copied())
            .filter(|&v| self.graph.values[v].sig.cache().is_none())
            .collect();
        let layouts = choose_layouts(&self.graph, target, Compute::Int8);
        let mut plan = lower(self.graph.clone(), ctx, &Fuse::only(FRAGMENT_LAYOUT), &layouts, "chain")?;
        // A device copies a plan's outputs to the host after each run. Values that are outputs only to keep their slots apart
        // are removed from them.
        plan.outputs.truncate(1);
        let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
        for d in &plan.dispatches {
            for (arg, operand) in d.args.iter().zip(&d.operands) {
                if let onetrip_ir::plan::BufRef::Weight(w) = arg {
                    bytes.insert(*w, operand.bytes.eval(self.bind()));
                }
            }
        }
        for (w, size) in self.weights.iter_mut().enumerate() {
            *size = bytes.get(&w).copied().unwrap_or(0);
        }
        Ok(plan)
    }

    /// Tokens, sequences and context of the chain's batch.
    pub fn bind(&self) -> Bind {
        let (t, s, l) = self.batch;
        Bind { t: t as u64, s: s as u64, l: l as u64 }
    }

    /// Bytes of each state: a KV cache in pages of `page_len` positions, a recurrent state with one row per sequence.
    pub fn state_bytes(&self, page_len: usize) -> Vec<u64> {
        let (_, s, l) = self.batch;
        let rows = |sig: &Sig| if sig.cache().is_some() { s * l.div_ceil(page_len) * page_len } else { s };
        self.states.iter().map(|sig| (sig.row_bytes() * rows(sig)) as u64).collect()
    }

    /// The chain's batch, with KV caches in pages of `page_len` positions.
    pub fn batch(&self, page_len: usize) -> StepBatch {
        let (t, s, l) = self.batch;
        let mut batch = StepBatch { page_len: page_len as u32, ..Default::default() };
        let each = l.div_ceil(page_len);
        for i in 0..s {
            let ids: Vec<u32> = (0..t / s).map(|j| (j % 16) as u32).collect();
            let pages = (i * each..(i + 1) * each).map(|p| p as u32).collect();
            batch.push(&ids, (l - t / s) as u32, SeqSpan { pages, ..Default::default() });
        }
        batch.logit_rows = batch.seqs.iter().map(|s| s.start + s.count - 1).collect();
        batch
    }
}

type Probes = Result<Vec<Probe>, ShapeError>;

/// Every probe, for the formats that weights may have.
pub fn probes(formats: &[DType]) -> Probes {
    let mut all = launches()?;
    all.extend(rows()?);
    all.extend(attentions()?);
    all.extend(delta_nets()?);
    all.extend(epilogues()?);
    for &format in formats {
        all.extend(matmuls(format)?);
    }
    Ok(all)
}

fn probe(curve: impl Into<String>, x: f64, unit: Unit, timed: Timed, chain: Chain) -> Probe {
    Probe { curve: curve.into(), x, unit, timed, cold: false, chain }
}

/// A chain that applies the same op `depth` times to one input of `width` elements, for `t` tokens.
fn repeated(
    t: usize,
    width: usize,
    depth: usize,
    op: impl Fn(&mut Chain, ValueId) -> Result<ValueId, ShapeError>,
) -> Result<Chain, ShapeError> {
    let mut chain = Chain::new(t, 1, t);
    let x = chain.input(width)?;
    for _ in 0..depth {
        op(&mut chain, x)?;
    }
    Ok(chain)
}

/// Probes of the smallest possible dispatch, and of the submission by the number of dispatches.
fn launches() -> Probes {
    let chain = |depth| repeated(1, 16, depth, |c, x| c.push(Elementwise::scale(0.5), &[x]));
    let mut all = vec![probe("launch", 0.0, Unit::Dispatch, Timed::Op("elementwise"), chain(64)?)];
    // No kernel has the name `submit`: this probe measures the time before the first dispatch.
    for depth in [15, 63, 255] {
        all.push(probe("submit", depth as f64 + 1.0, Unit::Dispatch, Timed::Submit, chain(depth)?));
    }
    Ok(all)
}

/// Probes of ops that work row by row: one row of each width.
fn rows() -> Probes {
    let mut all = vec![];
    let item = Unit::Item { items: 1 };
    for width in [256, 1024, 4096, 16384] {
        let norm = RmsNorm::weighted(1e-5, WHOLE_ROW);
        let chain = repeated(1, width, 24, |c, x| {
            let w = c.weight(1, width, DType::F32);
            c.push(norm.clone(), &[x, w])
        })?;
        all.push(probe("rms_norm", width as f64, item, Timed::Op("rms_norm"), chain));
        let chain = repeated(1, width, 24, |c, x| {
            let w = c.weight(1, width, DType::F32);
            c.push(Elementwise::add(), &[x, w])
        })?;
        all.push(probe("elementwise", width as f64, item, Timed::Op("elementwise"), chain));
        let chain = repeated(1, width, 24, |c, x| {
            let w = c.weight(1, width, DType::F32);
            c.push(Elementwise::glu(Unary::Silu), &[x, w])
        })?;
        all.push(probe("elementwise.fn", width as f64, item, Timed::Op("elementwise"), chain));
        let chain = repeated(1, width, 24, |c, x| c.push(L2Norm { eps: 1e-6, dim: 64, view: None }, &[x]))?;
        all.push(probe("l2_norm", width as f64, item, Timed::Op("l2_norm"), chain));
        let half = Slice { group: width, start: width / 2, len: width / 2 };
        let chain = repeated(1, width, 24, |c, x| c.push(half.clone(), &[x]))?;
        all.push(probe("slice", width as f64, item, Timed::Op("slice"), chain));
        // A convolution for one token of a sequence that is past its first chunk, without and with SiLU and the heads' norms.
        for (curve, fused) in [("conv", false), ("conv.heads", true)] {
            let mut chain = Chain::new(1, 1, 2);
            let x = chain.input(width)?;
            let heads = Heads { keys: width / 4, values: width / 2, dim: 64, eps: 1e-6 };
            for _ in 0..8 {
                let w = chain.weight(width, TAPS, DType::F32);
                let state = chain.state(Sig::recurrent((TAPS - 1) * width));
                chain.push(Conv { taps: TAPS, heads: fused.then(|| heads.clone()) }, &[x, w, state])?;
            }
            all.push(probe(curve, width as f64, item, Timed::Op("conv"), chain));
        }
        let gather = repeated(1, width, 24, |c, x| c.push(onetrip_core::ops::gather_rows::GatherRows, &[x]))?;
        all.push(probe("gather_rows", width as f64, item, Timed::Op("gather_rows"), gather));
        let chain = repeated(1, width, 24, |c, x| {
            let table = c.graph.rope_table(RopeSpec { inv_freq: vec![0.01; 32], factor: 1.0 });
            let rope = Rope { heads: width / 64, dim: 64, pairs: 32, neox: true, table, norm: None, view: None };
            c.push(rope, &[x])
        })?;
        all.push(probe("rope", width as f64, item, Timed::Op("rope"), chain));
    }
    for width in [256, 1024, 4096] {
        let mut chain = Chain::new(1, 1, 1);
        for _ in 0..8 {
            // A matmul reads the table too, as with a tied head, so that the table is in interleaved tiles.
            let table = chain.weight(16, width, DType::Q8_0);
            let x = chain.push(Embed { scale: 1.0 }, &[table])?;
            chain.push(Matmul::plain(), &[x, table])?;
        }
        all.push(probe("embed", width as f64, item, Timed::Op("embed"), chain));
        let chain = repeated(1, width, 8, |c, x| {
            let state = c.state(Sig::state(Cache { heads: width / 64, dim: 64 }, DType::F16));
            c.push(CacheWrite { pair: false, rope: None }, &[x, state])
        })?;
        all.push(probe("cache_write", width as f64, item, Timed::Op("cache_write"), chain));
        // Activation quantization to int8: the first launch of a matmul with many rows.
        let t = 256;
        let chain = repeated(t, width, 2, |c, x| {
            let w = c.weight(TILE_ROWS, width, DType::Q8_0);
            c.push(Matmul::plain(), &[x, w])
        })?;
        all.push(probe(
            "quantize",
            width as f64,
            Unit::Item { items: t as u64 },
            Timed::Kernel("matmul", "quantize"),
            chain,
        ));
    }
    for width in [1024, 32768, 262_144] {
        let chain = repeated(1, width, 4, |c, x| c.push(Sample { top: 0 }, &[x]))?;
        all.push(probe("sample", width as f64, item, Timed::Op("sample"), chain));
    }
    Ok(all)
}

fn attentions() -> Probes {
    const HEADS: usize = 8;
    let mut all = vec![];
    for dim in [64, 128, 256] {
        let (kv, pairs) = (HEADS / GROUP, dim / 2);
        let attend = |chain: &mut Chain, fused: bool, layers: usize| {
            let spec = RopeSpec { inv_freq: vec![0.01; pairs], factor: 1.0 };
            let table = chain.graph.rope_table(spec);
            let rope = |heads| Rope { heads, dim, pairs, neox: true, table, norm: None, view: None };
            let q = chain.input(HEADS * dim)?;
            let (k, v) = (chain.input(kv * dim)?, chain.input(kv * dim)?);
            for _ in 0..layers {
                let cache = Cache { heads: kv, dim };
                let (ks, vs) = (chain.state(Sig::state(cache, DType::F16)), chain.state(Sig::state(cache, DType::F16)));
                let op = Attention {
                    q_rope: fused.then(|| rope(HEADS)),
                    write: fused.then(|| CacheWrite { pair: true, rope: Some(rope(kv)) }),
                    ..Attention::plain(HEADS, kv, dim, 0.1)
                };
                let ins: Vec<ValueId> = if fused { vec![q, k, v, ks, vs] } else { vec![q, ks, vs] };
                chain.push(op, &ins)?;
            }
            Ok::<(), ShapeError>(())
        };
        for (keys, cold) in [16, 128, 512, 2048].into_iter().flat_map(|keys| [(keys, false), (keys, true)]) {
            let mut chain = Chain::new(1, 1, keys);
            if cold {
                chain.flush()?;
            }
            // A hot chain has one layer, whose cache stays in the processor's caches from run to run.
            attend(&mut chain, true, if cold { 6 } else { 1 })?;
            let item = Unit::Item { items: HEADS as u64 };
            let name = format!("attention.decode.{dim}.{}", if cold { "cold" } else { "hot" });
            all.push(Probe { cold, ..probe(name, keys as f64, item, Timed::Kernel("attention", "decode"), chain) });
        }
        for (t, l) in [(64, 64), (128, 256), (256, 512), (256, 1024)] {
            let mut chain = Chain::new(t, 1, l);
            attend(&mut chain, false, 1)?;
            let keys = Expr::Pairs(None).eval(chain.bind()) as f64 / t as f64;
            // µs of one query of one head on one worker, by the keys that a query sees on average.
            let unit = Unit::Item { items: (HEADS * t) as u64 };
            all.push(probe(
                format!("attention.prefill.{dim}"),
                keys,
                unit,
                Timed::Kernel("attention", "prefill"),
                chain,
            ));
        }
    }
    Ok(all)
}

/// Taps of the chains' convolutions.
const TAPS: usize = 4;

/// Probes of the delta rule alone, and fused with its convolution and gated norm, by the elements of state per item.
fn delta_nets() -> Probes {
    const HEADS: usize = 8;
    let mut all = vec![];
    for (dim, each) in [(64, 1), (128, 1), (128, 2), (128, 4)] {
        let (keys, values) = (HEADS * dim, HEADS * each * dim);
        let net = |chain: &mut Chain, fused: bool, layers: usize| {
            let packed = chain.input(2 * keys + values)?;
            let (q, k, v) = (chain.input(keys)?, chain.input(keys)?, chain.input(values)?);
            let (g, beta) = (chain.input(HEADS * each)?, chain.input(HEADS * each)?);
            for _ in 0..layers {
                let op = DeltaNet {
                    k_heads: HEADS,
                    v_heads: HEADS * each,
                    k_dim: dim,
                    v_dim: dim,
                    scale: 0.1,
                    front: if fused { Front::Conv { taps: TAPS, eps: 1e-6 } } else { Front::Separate },
                    norm: fused.then_some(1e-6),
                };
                let state = Sig::recurrent(op.state_width());
                let ins = if fused {
                    let filter = chain.weight(2 * keys + values, TAPS, DType::F32);
                    let norm = chain.weight(1, dim, DType::F32);
                    let window = chain.state(Sig::recurrent((TAPS - 1) * (2 * keys + values)));
                    vec![packed, filter, g, beta, norm, v, window, chain.state(state)]
                } else {
                    vec![q, k, v, g, beta, chain.state(state)]
                };
                chain.push(op, &ins)?;
            }
            Ok::<(), ShapeError>(())
        };
        let x = (each * dim * dim) as f64;
        for (form, fused) in [("plain", false), ("fused", true)] {
            for cold in [false, true] {
                let mut chain = Chain::new(1, 1, 2);
                if cold {
                    chain.flush()?;
                }
                net(&mut chain, fused, if cold { 6 } else { 1 })?;
                let name = format!("delta_net.rows.{form}.{}", if cold { "cold" } else { "hot" });
                let item = Unit::Item { items: HEADS as u64 };
                all.push(Probe { cold, ..probe(name, x, item, Timed::Kernel("delta_net", "rows"), chain) });
            }
            let t = 256;
            let mut chain = Chain::new(t, 1, 2 * t);
            net(&mut chain, fused, 1)?;
            // µs of one token of one item.
            let unit = Unit::Item { items: (HEADS * t) as u64 };
            all.push(probe(format!("delta_net.chunks.{form}"), x, unit, Timed::Kernel("delta_net", "chunks"), chain));
        }
    }
    Ok(all)
}

/// Probes of a matmul with very short rows: the time of a tile besides streaming its bytes, by the flops per element of its
/// epilogue.
fn epilogues() -> Probes {
    const ROWS: usize = 1 << 14;
    let sum = Tree::sum(Tree::In(0), Tree::In(1));
    let gate = Tree::product(Tree::unary(Unary::Silu, Tree::In(0)), Tree::In(1));
    let mut all = vec![];
    for (x, products, tree) in [(0.0, 1, Tree::In(0)), (1.0, 1, sum), (9.0, 2, gate)] {
        let chain = repeated(1, 64, 4, |c, input| {
            let mut ins = vec![input];
            for _ in 0..products {
                ins.push(c.weight(ROWS, 64, DType::Q4_0));
            }
            if x == 1.0 {
                ins.push(c.weight(1, ROWS, DType::F32));
            }
            c.push(Matmul { products, outputs: vec![tree.clone()], norm: None }, &ins)
        })?;
        let unit = Unit::Item { items: (ROWS / TILE_ROWS) as u64 };
        all.push(probe("epilogue", x, unit, Timed::Op("matmul"), Chain { is_shared: true, ..chain }));
    }
    Ok(all)
}

/// The shape of the weights in a `stream` curve.
#[derive(Clone, Copy, PartialEq)]
enum Stream {
    /// One matrix with rows of [`STREAM_K`] elements.
    Single,
    /// Two such matrices, read tile by tile in turn, as gate and up projections are.
    Pair,
    /// One matrix with rows of [`LONG_K`] elements.
    Long,
}

/// A probe of products that depend on each other: between two of them one worker writes the next input.
fn stream(format: DType, kind: Stream, kb: u64, cold: bool) -> Result<Probe, ShapeError> {
    let k = if kind == Stream::Long { LONG_K } else { STREAM_K };
    let products = if kind == Stream::Pair { 2 } else { 1 };
    let per_row = format.row_bytes(k).unwrap_or(4 * k) as u64 * products as u64;
    let rows = ((kb << 10) / per_row).next_multiple_of(TILE_ROWS as u64).max(TILE_ROWS as u64) as usize;
    let size = rows as u64 * per_row;
    let mut chain = Chain::new(1, 1, 1);
    if cold {
        chain.flush()?;
    }
    let mut x = chain.input(k)?;
    for _ in 0..(MOST_BYTES / 2 / size).clamp(3, 12) {
        let mut ins = vec![x];
        (0..products).for_each(|_| ins.push(chain.weight(rows, k, format)));
        let gate = Elementwise::glu(Unary::Silu).tree;
        let tree = if products == 2 { gate } else { Tree::In(0) };
        chain.push(Matmul { products, outputs: vec![tree], norm: None }, &ins)?;
        x = chain.push(Elementwise::scale(0.5), &[x])?;
    }
    chain.is_shared = !cold;
    let name = match (kind, cold) {
        (Stream::Single, true) => "cold",
        (Stream::Single, false) => "hot",
        (Stream::Pair, _) => "pair",
        (Stream::Long, _) => "long",
    };
    let name = format!("stream.{}.{name}", format.name());
    Ok(Probe { cold, ..probe(name, size as f64, Unit::Dispatch, Timed::Op("matmul"), chain) })
}

fn matmuls(format: DType) -> Probes {
    let mut all = vec![];
    for (kind, kb) in [Stream::Single, Stream::Pair, Stream::Long].into_iter().flat_map(|kind| {
        // In a format with many bytes per element, one tile of long rows exceeds the smallest size.
        let least = (TILE_ROWS * format.row_bytes(LONG_K).unwrap_or(4 * LONG_K)) as u64 >> 10;
        let sizes = [64, 256, 1024, 4096, 16384].into_iter();
        sizes.filter(move |kb| kind != Stream::Long || *kb >= least || *kb > 64).map(move |kb| (kind, kb))
    }) {
        all.push(stream(format, kind, kb, true)?);
    }
    for kb in [64, 512, 2048, 6144] {
        all.push(stream(format, Stream::Single, kb, false)?);
    }
    let rows = 1024;
    for n in [2, 4, 8, 16, 64, 256] {
        let mut chain = repeated(n, STREAM_K, 2, |c, x| {
            let w = c.weight(rows, STREAM_K, format);
            c.push(Matmul::plain(), &[x, w])
        })?;
        chain.is_shared = true;
        let operations = Unit::Rate(2.0 * (rows * STREAM_K * n) as f64);
        let timed = if n > 8 && !format.is_float() { Timed::Kernel("matmul", "gemm") } else { Timed::Op("matmul") };
        all.push(probe(format!("matmul.{}", format.name()), n as f64, operations, timed, chain));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetrip_ir::simd::Isa;

    #[test]
    fn every_probe_has_a_plan_without_gaps_and_finds_the_dispatch_it_measures() {
        let mut seen = std::collections::BTreeSet::new();
        for mut p in probes(DType::ALL).expect("shapes") {
            let plan = p.chain.plan(Target::Cpu(Isa::detect())).expect("a plan");
            assert_eq!(plan.gaps().count(), 0, "{}", p.curve);
            let found = plan.dispatches.iter().filter(|d| p.timed.is_of(d)).count();
            assert!(found > 0 || p.timed == Timed::Submit, "{} finds no {:?}", p.curve, p.timed);
            assert!(p.chain.weights.iter().sum::<u64>() <= MOST_BYTES + FLUSH_BYTES + (8 << 20), "{}", p.curve);
            assert!(seen.insert((p.curve.clone(), p.x.to_bits())), "{} at {} twice", p.curve, p.x);
        }
    }

    #[test]
    fn a_time_becomes_what_the_curve_holds() {
        assert_eq!(Unit::Dispatch.y(7.0, 2.0, 4), 7.0);
        assert_eq!(Unit::Item { items: 8 }.y(10.0, 2.0, 2), 2.0);
        assert_eq!(Unit::Rate(1e6).y(3.0, 1.0, 1), 5e11);
    }
}
