//! Causal depthwise convolution over time; the input rows of earlier steps that it needs are in a recurrent state.
//!
//! `y[t, c] = Σ_i w[c, i] · x[t - (taps - 1) + i, c]`, where rows before the sequence's first one are zeros.
//! Inputs: `x [T, channels]`, `w [channels, taps]`, state `[slot][taps - 1][channels]` (the last inputs, oldest
//! first), updated in place. Outputs: `[T, channels]`, the state. Without a state, x is a window that has the earlier rows
//! already (op `window`), and there is one output. With heads, SiLU follows, and the row is split into queries, keys (the
//! heads of both L2-normed) and values: three outputs `[T, …]` and the state.
//! Source: Mamba (Gu and Dao, 2023), section 3.4.

use super::*;
use crate::ops::elementwise::Elementwise;
use crate::ops::l2_norm::L2Norm;
use crate::ops::window::Window;
use crate::reference::{Part, Parts, RefValue};
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tree::Unary;

mod cuda;
mod wgsl;

/// See the module for inputs, shapes and the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Input rows that an output sees: its own and those before it.
    pub taps: usize,
    /// In the fused form, the heads for SiLU and L2 norms after the convolution.
    pub heads: Option<Heads>,
}

/// The packed projection of queries, keys and values of a delta net.
#[derive(Clone, Debug, PartialEq)]
pub struct Heads {
    /// Elements of all queries of a row, and as many of all keys.
    pub keys: usize,
    /// Elements of all values of a row.
    pub values: usize,
    /// Elements of one query or key head.
    pub dim: usize,
    /// Epsilon of their L2 norms.
    pub eps: f32,
}

impl Heads {
    /// The columns of queries, keys and values in a packed projection.
    pub fn slices(&self) -> [Slice; 3] {
        let (k, v) = (self.keys, self.values);
        [(0, k), (k, k), (2 * k, v)].map(|(start, len)| Slice { group: 2 * k + v, start, len })
    }
}

/// Most input rows that an output may see.
pub const MAX_TAPS: usize = 16;

/// Channels of a work item.
const CHANNELS: usize = 256;

impl OpDef for Conv {
    const NAME: &'static str = "conv";

    fn ggml(&self) -> &'static str {
        "SSM_CONV"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        if let [x, w] = ins {
            self.check(x, w, None)?;
            if x.rows != (Window { rows: self.taps - 1 }).all_rows() || self.heads.is_some() {
                let why =
                    format!("without a state, a window of {} earlier rows is wanted, not {}", self.taps - 1, x.rows);
                return Err(ShapeError { op: Self::NAME, why });
            }
            return Ok(vec![Sig::slot(Expr::T, x.width)]);
        }
        want_inputs(Self::NAME, ins, 3)?;
        self.check(&ins[0], &ins[1], Some(&ins[2]))?;
        let row = Sig::slot(ins[0].rows.clone(), ins[0].width);
        let mut outs = match &self.heads {
            None => vec![row],
            Some(heads) => {
                let mut parts = vec![];
                for slice in heads.slices() {
                    parts.extend(slice.shape(std::slice::from_ref(&row))?);
                }
                let norm = L2Norm { eps: heads.eps, dim: heads.dim, view: None };
                norm.shape(&parts[..1])?;
                parts
            }
        };
        outs.push(ins[2].clone());
        Ok(outs)
    }

    fn meaning(&self) -> Meaning {
        let taps = self.taps;
        if let Some(heads) = &self.heads {
            let mut p = Parts::default();
            let conv = p.op(Conv { taps, heads: None }, &[0, 1, 2].map(Part::In));
            let y = p.op(Elementwise::unary(Unary::Silu), &[conv]);
            let norm = L2Norm { eps: heads.eps, dim: heads.dim, view: None };
            let mut outs = heads.slices().map(|slice| p.op(slice, &[y])).to_vec();
            outs[..2].iter_mut().for_each(|x| *x = p.op(norm.clone(), &[*x]));
            outs.push(conv.sibling(1));
            return p.finish(&outs);
        }
        Meaning::Direct(Box::new(move |c| {
            let (x, w) = (c.input(0).clone(), c.input(1).clone());
            let (width, old) = (x.width, (taps - 1) * x.width);
            let mut out = vec![0f32; c.batch.ids.len() * width];
            for (i, span) in c.batch.seqs.clone().iter().enumerate() {
                let (slot, start, count) = (span.slot as usize, span.start as usize, span.count as usize);
                let mut rows = vec![];
                // First element of the sequence's rows; a window has earlier rows in front of them.
                let mut from = start * width;
                match c.ins.get(2) {
                    Some(RefValue::State(_)) if span.is_first_chunk() => rows.resize(old, 0.0),
                    Some(RefValue::State(state)) => rows = c.states[*state].get(slot, 0, 0),
                    _ => {
                        from += i * old;
                        rows.extend_from_slice(&x.data[from..from + old]);
                        from += old;
                    }
                }
                rows.extend_from_slice(&x.data[from..from + count * width]);
                for (t, ch) in (0..count).flat_map(|t| (0..width).map(move |ch| (t, ch))) {
                    let sum: f64 = (0..taps).map(|i| w.row(ch)[i] as f64 * rows[(t + i) * width + ch] as f64).sum();
                    out[(start + t) * width + ch] = sum as f32;
                }
                if let Some(RefValue::State(state)) = c.ins.get(2) {
                    c.states[*state].set(slot, 0, 0, &rows[rows.len() - old..]);
                }
            }
            c.output(0).copy_from_slice(&out);
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let (x, w) = (&site.ins[0], &site.ins[1]);
        let state = site.ins[2..].iter().fold(Expr::Const(0), |a, s| a + Expr::S * s.row_bytes());
        let made = Expr::T * x.row_bytes();
        let mut flops = x.width * 2 * self.taps;
        if let Some(heads) = &self.heads {
            flops += 8 * x.width + 3 * 2 * heads.keys;
        }
        Cost::of(x.bytes() + w.bytes() + state.clone(), made + state, Expr::T * flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let filter = Filter { taps: self.taps, channels: site.ins[0].width, dtype: site.ins[1].dtype };
        let state_arg = (site.ins.len() == 3).then_some(2);
        let first_out = site.ins.len();
        let blocks = self.blocks(filter.channels);
        let (heads, count) = (self.heads.clone(), blocks.len());
        let kernel = if heads.is_some() { "conv/heads" } else { "conv/channels" };
        Lowering::one(site, kernel, Expr::S * count, 1, self.cost(site), move |c, scratch| {
            while let Some(range) = c.items.take() {
                for item in range {
                    let (seq, Block { out, at, width, from, n }) = (item / count, blocks[item % count]);
                    let span = &c.batch.seqs[seq];
                    let [taps, raw] = scratch.split_f32([filter.taps * n, n]);
                    filter.load(c.bytes(1), from, n, taps);
                    for t in 0..span.count as usize {
                        let at = (span.start as usize + t) * width + at;
                        let y = c.write(first_out + out, at..at + n);
                        // Outputs 0 and 1, queries and keys, are computed in scratch and then L2-normed.
                        let made = if heads.is_some() && out < 2 { &mut *raw } else { &mut *y };
                        filter.row(c, (0, state_arg), seq, t, from, taps, made);
                        if let Some(heads) = &heads {
                            (c.simd.silu)(made);
                            if out < 2 {
                                L2Norm { eps: heads.eps, dim: heads.dim, view: None }.group(c, raw, y);
                            }
                        }
                    }
                    if let Some(state) = state_arg {
                        filter.keep(c, (0, state), seq, from, n);
                    }
                }
            }
        })
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let ins =
            |width, taps| vec![x(width), Sig::weight(width, taps, DType::F32), Sig::recurrent((taps - 1) * width)];
        let mut cases = vec![];
        for (class, (t, s, l)) in [("one", (1, 1, 9)), ("start", (2, 1, 2)), ("few", (7, 3, 9)), ("many", (70, 2, 40))]
        {
            // x and the filter are read once, three earlier rows of each sequence are read and written, and each element takes
            // four multiply-adds.
            let op = |taps| Conv { taps, heads: None };
            let case = Case::new(format!("4 taps, {class}"), op(4), ins(300, 4), (t, s, l));
            let state = s * 3 * 1200;
            cases.push(case.costs(t * 1200 + 300 * 16 + state, t * 1200 + state, t * 300 * 8));
            cases.push(Case::new(format!("2 taps, {class}"), op(2), ins(33, 2), (t, s, l)));
            let mut half = ins(64, 4);
            half[1].dtype = DType::F16;
            cases.push(Case::new(format!("half-precision filter, {class}"), op(4), half, (t, s, l)));
            let window = vec![Sig::slot(Window { rows: 3 }.all_rows(), 300), Sig::weight(300, 4, DType::F32)];
            let case = Case::new(format!("of a window, {class}"), op(4), window, (t, s, l));
            cases.push(case.costs((t + 3 * s) * 1200 + 300 * 16, t * 1200, t * 300 * 8));
            // Two heads of queries and of keys, and values that do not fill their last block: 64 + 64 + 300.
            let heads = Heads { keys: 64, values: 300, dim: 32, eps: 1e-6 };
            let case =
                Case::new(format!("heads, {class}"), Conv { taps: 4, heads: Some(heads) }, ins(428, 4), (t, s, l));
            let state = s * 3 * 1712;
            let flops = t * (428 * (8 + 8) + 3 * 128);
            cases.push(case.costs(t * 1712 + 428 * 16 + state, t * 1712 + state, flops));
        }
        cases
    }
}

/// Channels `from..from + n` of a work item, which go to column `at` of output `out` with rows of `width`.
#[derive(Clone, Copy)]
struct Block {
    out: usize,
    at: usize,
    width: usize,
    from: usize,
    n: usize,
}

impl Conv {
    /// The CPU work items of a sequence: one for each query head and each key head, and one for every [`CHANNELS`] channels of the
    /// values.
    fn blocks(&self, channels: usize) -> Vec<Block> {
        let outputs = match &self.heads {
            None => vec![(channels, CHANNELS)],
            Some(h) => vec![(h.keys, h.dim), (h.keys, h.dim), (h.values, CHANNELS)],
        };
        let (mut blocks, mut first) = (vec![], 0);
        for (out, (width, size)) in outputs.into_iter().enumerate() {
            let of = |at| Block { out, at, width, from: first + at, n: size.min(width - at) };
            blocks.extend((0..width).step_by(size).map(of));
            first += width;
        }
        blocks
    }

    /// Checks that the shapes of filter and state match x.
    pub(crate) fn check(&self, x: &Sig, w: &Sig, state: Option<&Sig>) -> Result<(), ShapeError> {
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        if !(2..=MAX_TAPS).contains(&self.taps) {
            return fail(format!("{} taps, should be 2 to {MAX_TAPS}", self.taps));
        }
        if w.width != self.taps || w.rows.constant() != Some(x.width as u64) || !w.is_weight() {
            let (have, want) = (format!("{}x{}", w.rows, w.width), format!("{}x{}", x.width, self.taps));
            return fail(format!("a filter of {have} for {} channels, should be {want}", x.width));
        }
        match state {
            Some(s) if s.role != onetrip_ir::tensor::Role::Recurrent || s.width != (self.taps - 1) * x.width => {
                fail(format!("a state of {} numbers for {} rows of {}", s.width, self.taps - 1, x.width))
            }
            _ => Ok(()),
        }
    }
}

/// The filter as a CPU kernel applies it; the delta net also uses it, on the channels of a head.
#[derive(Clone, Copy)]
pub(crate) struct Filter {
    pub taps: usize,
    pub channels: usize,
    pub dtype: DType,
}

impl Filter {
    /// Transposes the filters of `n` channels to f32 `[taps, n]`.
    pub fn load(self, weight: &[u8], from: usize, n: usize, out: &mut [f32]) {
        let row_bytes = self.dtype.row_bytes(self.taps).unwrap_or(0);
        let stored = &weight[from * row_bytes..(from + n) * row_bytes];
        if let (DType::F32, Ok(numbers)) = (self.dtype, bytemuck::try_cast_slice::<u8, f32>(stored)) {
            for (i, filter) in numbers.chunks_exact(self.taps).enumerate() {
                filter.iter().enumerate().for_each(|(tap, w)| out[tap * n + i] = *w);
            }
            return;
        }
        let mut one = [0f32; MAX_TAPS];
        for i in 0..n {
            self.dtype.def().dequantize(&stored[i * row_bytes..(i + 1) * row_bytes], &mut one[..self.taps]);
            (0..self.taps).for_each(|tap| out[tap * n + i] = one[tap]);
        }
    }

    /// Output row `t` of a sequence in this step, for the channels `from..from + out.len()`. `x_arg` and `state_arg` are the
    /// args of x and of the state, which must not be updated yet; without a state, x is a window.
    #[allow(clippy::too_many_arguments)]
    pub fn row(
        self,
        c: &CpuCall,
        (x_arg, state_arg): (usize, Option<usize>),
        seq: usize,
        t: usize,
        from: usize,
        taps: &[f32],
        out: &mut [f32],
    ) {
        let (span, n) = (&c.batch.seqs[seq], out.len());
        out.fill(0.0);
        for tap in 0..self.taps {
            // Input row, counted from the oldest row in the state.
            let row = t + tap;
            let of_step = |row: usize| {
                let at = (span.start as usize + row) * self.channels + from;
                &c.f32s(x_arg)[at..at + n]
            };
            let x = match (row.checked_sub(self.taps - 1), state_arg) {
                (_, None) => of_step(row + seq * (self.taps - 1)),
                (Some(row), _) => of_step(row),
                (None, _) if span.is_first_chunk() => continue,
                (None, Some(state_arg)) => {
                    let at = (span.slot as usize * (self.taps - 1) + row) * self.channels + from;
                    bytemuck::cast_slice(c.bytes_at(state_arg, at * 4..(at + n) * 4))
                }
            };
            let w = &taps[tap * n..(tap + 1) * n];
            out.iter_mut().zip(w.iter().zip(x)).for_each(|(o, (w, x))| *o += w * x);
        }
    }

    /// Updates the state with the last rows of a sequence's channels `from..from + n`, for the next step.
    pub fn keep(self, c: &CpuCall, (x_arg, state_arg): (usize, usize), seq: usize, from: usize, n: usize) {
        let span = &c.batch.seqs[seq];
        let (count, old) = (span.count as usize, self.taps - 1);
        let place = |row: usize| (span.slot as usize * old + row) * self.channels + from;
        // In ascending order, each row of the state is read before it is overwritten.
        for row in 0..old {
            let at = place(row);
            let out = c.write(state_arg, at..at + n);
            match (row + count).checked_sub(old) {
                Some(x_row) => {
                    let at = (span.start as usize + x_row) * self.channels + from;
                    out.copy_from_slice(&c.f32s(x_arg)[at..at + n]);
                }
                None if span.is_first_chunk() => out.fill(0.0),
                None => {
                    let at = place(row + count);
                    out.copy_from_slice(bytemuck::cast_slice(c.bytes_at(state_arg, at * 4..(at + n) * 4)));
                }
            }
        }
    }
}
