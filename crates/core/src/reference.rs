//! The reference interpreter: evaluates ops by their definitions, in plain f32, one after the other.

use half::f16;

use crate::graph::{Graph, Source};
use crate::ops::matmul::Matmul;
use crate::ops::{Meaning, Op};
use crate::precision::{Rounding, rounding};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::{Isa, Q8Rows, q8_row_bytes, simd};
use onetrip_ir::tensor::{Cache, Sig};

/// A value of the reference: a tensor, or a state by its index.
#[derive(Clone, Debug, PartialEq)]
pub enum RefValue {
    /// `rows × width` elements in f32.
    Tensor(RefTensor),
    /// Index of a state.
    State(usize),
}

/// A matrix of f32, row by row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RefTensor {
    /// Elements in a row.
    pub width: usize,
    /// All rows, one after the other.
    pub data: Vec<f32>,
}

impl RefTensor {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.width).unwrap_or(0)
    }

    /// Row `r`, of `width` elements.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.data[r * self.width..(r + 1) * self.width]
    }
}

/// A KV cache `[page][head][position][dim]`, in the bytes that a device would hold.
#[derive(Clone, Debug, PartialEq)]
pub struct RefState {
    /// Heads and elements per head.
    pub cache: Cache,
    /// Type in which elements are stored.
    pub dtype: DType,
    /// Positions in a page.
    pub page_len: usize,
    /// The stored cache, `dim` elements of `dtype` to a vector.
    pub bytes: Vec<u8>,
}

impl RefState {
    /// A zeroed cache of some pages.
    pub fn new(cache: Cache, dtype: DType, page_len: usize, pages: usize) -> RefState {
        let row = dtype.row_bytes(cache.dim).unwrap_or(0);
        RefState { cache, dtype, page_len, bytes: vec![0; pages * cache.heads * page_len * row] }
    }

    /// Zeroed recurrent states of `width` f32 each: a cache with one position per page and one page per slot.
    pub fn recurrent(width: usize, slots: usize) -> RefState {
        RefState::new(Cache { heads: 1, dim: width }, DType::F32, 1, slots)
    }

    fn range(&self, page: usize, head: usize, offset: usize) -> std::ops::Range<usize> {
        let row = self.dtype.row_bytes(self.cache.dim).unwrap_or(0);
        let at = ((page * self.cache.heads + head) * self.page_len + offset) * row;
        at..at + row
    }

    /// One head's vector at an offset in a page, dequantized.
    pub fn get(&self, page: usize, head: usize, offset: usize) -> Vec<f32> {
        let mut out = vec![0.0; self.cache.dim];
        self.dtype.def().dequantize(&self.bytes[self.range(page, head, offset)], &mut out);
        out
    }

    /// Stores one head's vector, rounded to the cache's type.
    pub fn set(&mut self, page: usize, head: usize, offset: usize, x: &[f32]) {
        let range = self.range(page, head, offset);
        encode_row(self.dtype, x, &mut self.bytes[range]);
    }
}

/// Converts a row of f32 to the bytes of a type: f32, f16 or a quantized format.
pub fn encode_row(dtype: DType, x: &[f32], out: &mut [u8]) {
    match dtype {
        DType::F32 => out.copy_from_slice(bytemuck::cast_slice(x)),
        DType::F16 => {
            for (o, x) in out.chunks_exact_mut(2).zip(x) {
                o.copy_from_slice(&f16::from_f32(*x).to_le_bytes());
            }
        }
        _ => dtype.def().quantize(x, out),
    }
}

/// One evaluation of an op.
pub struct RefCall<'a> {
    /// The op's inputs.
    pub ins: &'a [RefValue],
    /// The op's outputs, zeroed, with their final sizes.
    pub outs: &'a mut [RefValue],
    /// The step batch.
    pub batch: &'a StepBatch,
    /// All states.
    pub states: &'a mut [RefState],
}

impl RefCall<'_> {
    /// A tensor input. Panics on a state, which the op's `shape` has refused before.
    pub fn input(&self, i: usize) -> &RefTensor {
        match &self.ins[i] {
            RefValue::Tensor(t) => t,
            RefValue::State(_) => panic!("input {i} is a state, not a tensor"),
        }
    }

    /// The index of the state that is input `i`. Panics on a tensor.
    pub fn state(&self, i: usize) -> usize {
        match self.ins[i] {
            RefValue::State(s) => s,
            RefValue::Tensor(_) => panic!("input {i} is a tensor, not a state"),
        }
    }

    /// The elements of tensor output `i`. Panics on a state.
    pub fn output(&mut self, i: usize) -> &mut [f32] {
        match &mut self.outs[i] {
            RefValue::Tensor(t) => &mut t.data,
            RefValue::State(_) => panic!("output {i} is a state, not a tensor"),
        }
    }
}

/// The decomposition of a fused op: a list of ops on its inputs.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    nodes: Vec<(Op, Vec<Part>)>,
    outputs: Vec<Part>,
}

/// A value inside [`Parts`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// An input of the fused op, by index.
    In(usize),
    /// An output of an op in the list: index of the op, index of its output.
    Out(usize, usize),
}

impl Part {
    /// Another output of the same op in the list.
    pub fn sibling(self, output: usize) -> Part {
        match self {
            Part::In(_) => self,
            Part::Out(part, _) => Part::Out(part, output),
        }
    }
}

impl Parts {
    /// Appends an op and returns its first output.
    pub fn op(&mut self, op: impl Into<Op>, ins: &[Part]) -> Part {
        self.nodes.push((op.into(), ins.to_vec()));
        Part::Out(self.nodes.len() - 1, 0)
    }

    /// Finishes the decomposition: these values are the outputs of the fused op.
    pub fn finish(mut self, outputs: &[Part]) -> Meaning {
        self.outputs = outputs.to_vec();
        Meaning::Decomposition(self)
    }

    /// The ops in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.nodes.iter().map(|(op, _)| op)
    }
}

/// Activations as an int8 kernel sees them: quantized in blocks of 32 and dequantized (the same bits on every processor).
fn rounded(x: &RefTensor) -> RefTensor {
    let mut out = x.clone();
    let mut bytes = vec![0; q8_row_bytes(x.width)];
    for row in out.data.chunks_exact_mut(x.width) {
        (simd(Isa::Portable).quantize_q8)(row, &mut bytes);
        if let Some(q) = Q8Rows::new(&bytes, row.len()) {
            row.iter_mut().enumerate().for_each(|(i, v)| *v = q.value(0, i));
        }
    }
    out
}

/// Evaluates an op. `sigs` are the signatures of the inputs; `Op::shape` gives the sizes of the outputs. The activations of a
/// matmul are first rounded to the type that kernels use in this lowering context.
pub fn eval(
    op: &Op,
    ins: &[RefValue],
    sigs: &[Sig],
    ctx: &LoweringContext,
    batch: &StepBatch,
    states: &mut [RefState],
) -> Vec<RefValue> {
    let shapes = op.shape(sigs).unwrap_or_else(|e| panic!("{e}"));
    let mut ins = ins.to_vec();
    if *op == Matmul::plain().into()
        && let RefValue::Tensor(x) = &ins[0]
    {
        match rounding(&sigs[1], ctx.compute, ctx.target, ctx.bucket(sigs)) {
            Rounding::None => {}
            Rounding::Int8 => ins[0] = RefValue::Tensor(rounded(x)),
            half => ins[0] = RefValue::Tensor(RefTensor { data: x.data.iter().map(|x| half.half(*x)).collect(), ..*x }),
        }
    }
    let ins = &ins[..];
    match op.meaning() {
        Meaning::Direct(f) => {
            let bind = batch.bind();
            let mut outs: Vec<RefValue> = shapes
                .iter()
                .map(|s| match s.is_state() {
                    true => RefValue::State(usize::MAX),
                    false => RefValue::Tensor(RefTensor {
                        width: s.width,
                        data: vec![0.0; s.width * s.rows.eval(bind) as usize],
                    }),
                })
                .collect();
            // State outputs are the next versions of the state inputs, in order of appearance.
            let mut written = ins.iter().filter(|v| matches!(v, RefValue::State(_)));
            for out in outs.iter_mut().filter(|o| matches!(o, RefValue::State(_))) {
                if let Some(state) = written.next() {
                    *out = state.clone();
                }
            }
            f(&mut RefCall { ins, outs: &mut outs, batch, states });
            outs
        }
        Meaning::Decomposition(parts) => {
            let mut made: Vec<(Vec<RefValue>, Vec<Sig>)> = vec![];
            let get = |made: &[(Vec<RefValue>, Vec<Sig>)], p: &Part| match *p {
                Part::In(i) => (ins[i].clone(), sigs[i].clone()),
                Part::Out(n, o) => (made[n].0[o].clone(), made[n].1[o].clone()),
            };
            for (part, refs) in &parts.nodes {
                let (vals, part_sigs): (Vec<_>, Vec<_>) = refs.iter().map(|p| get(&made, p)).unzip();
                let outs = eval(part, &vals, &part_sigs, ctx, batch, states);
                made.push((outs, part.shape(&part_sigs).unwrap_or_else(|e| panic!("{e}"))));
            }
            parts.outputs.iter().map(|p| get(&made, p).0).collect()
        }
    }
}

/// Evaluates a whole graph, with weights by index and states updated in place, and returns the graph's outputs.
pub fn eval_graph(
    graph: &Graph,
    weights: &[RefTensor],
    ctx: &LoweringContext,
    batch: &StepBatch,
    states: &mut [RefState],
) -> Vec<RefTensor> {
    let mut values: Vec<Option<RefValue>> = graph
        .values
        .iter()
        .map(|v| match v.source {
            Source::Weight(w) => Some(RefValue::Tensor(weights[w].clone())),
            Source::State(s) => Some(RefValue::State(s)),
            // The elements of a mask are not read: attention derives visibility from the batch's positions.
            Source::Batch => {
                let rows = v.sig.rows.eval(batch.bind()) as usize;
                Some(RefValue::Tensor(RefTensor { width: v.sig.width, data: vec![0.0; rows * v.sig.width] }))
            }
            Source::Node => None,
        })
        .collect();
    for node in &graph.nodes {
        let ins: Vec<RefValue> =
            node.ins.iter().map(|&v| values[v].clone().unwrap_or_else(|| panic!("{} too early", node.name))).collect();
        let outs = eval(&node.op, &ins, &graph.sigs(&node.ins), ctx, batch, states);
        node.outs.iter().zip(outs).for_each(|(&v, out)| values[v] = Some(out));
    }
    let output = |v: &usize| match &values[*v] {
        Some(RefValue::Tensor(t)) => t.clone(),
        _ => RefTensor::default(),
    };
    graph.outputs.iter().map(output).collect()
}
