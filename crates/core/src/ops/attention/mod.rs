//! Causal attention of the step's queries over the paged cache, with its reduction; the fused form also norms and
//! rotates q and k and writes k and v to the cache, all in one op.
//!
//! `out[t, h] = Σ_p softmax_p(scale · q·k_p) v_p` over the positions `p` that token t sees: up to its own, at most
//! `window` of them. Query head h reads cache head `h / (heads / kv_heads)`. With `softcap` c, scores become
//! `c·tanh(score / c)`. With a gate, the output is multiplied by `sigmoid(gate)`: each head of a packed projection is
//! `[query, gate]`, and the queries are read from that row too, or are an input of their own. Inputs in order: q (or the
//! packed projection); q's norm weight; if the op writes the cache: k, v, k's norm weight; the packed projection if q is an
//! input of its own; a mask; key cache, value cache. Outputs: `[T, heads·dim]`; if the op writes the cache: both caches. A
//! mask `[T, …]` repeats which positions a token sees: recorded listings of other engines have one, no kernel here reads it.
//! Source of the streaming form: FlashAttention, alg. 1.

use super::*;
use crate::ops::cache_write::{CacheWrite, cache_row};
use crate::ops::elementwise::Elementwise;
use crate::ops::matmul::Matmul;
use crate::ops::rope::Rope;
use crate::reference::{Part, Parts};
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Cache;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tree::Unary;

mod cpu;
mod cuda;
mod wgsl;

/// The candidates of its kernels.
pub(super) fn candidates() -> Vec<Described> {
    [cpu::select::described(), cuda::select::described(), wgsl::select::described()].concat()
}

/// See the module for inputs, shapes and the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub dim: usize,
    /// Factor on scores.
    pub scale: f32,
    /// Positions a token sees at most.
    pub window: Option<u32>,
    /// Bound c of the scores, which become `c·tanh(score / c)`.
    pub softcap: Option<f32>,
    /// Where the output gate comes from.
    pub gate: Gate,
    /// Rotates (and norms) the queries.
    pub q_rope: Option<Rope>,
    /// Writes k and v to the cache first.
    pub write: Option<CacheWrite>,
    /// There is a mask among the inputs.
    pub mask: bool,
}

/// Where an output gate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// No gate.
    None,
    /// A packed projection `[query, gate]` for each head, of which only the gates are read; the queries are another input.
    Separate,
    /// A packed projection, from which the queries are read too.
    Packed,
}

/// Index of each operand among the op's inputs.
pub(crate) struct Operands {
    pub q_norm: Option<usize>,
    pub k: usize,
    pub k_norm: Option<usize>,
    /// The packed projection with the gates.
    pub gate: Option<usize>,
    pub mask: Option<usize>,
    pub states: usize,
    pub count: usize,
}

impl Operands {
    /// The operands of the cache write: k, v, the norm's weight, the caches.
    pub fn of_write(&self) -> impl Iterator<Item = usize> {
        (self.k..self.k + 2).chain(self.k_norm).chain([self.states, self.states + 1])
    }
}

impl Attention {
    /// Attention over caches that are written already, without gate, rotation, window, softcap or mask.
    pub fn plain(heads: usize, kv_heads: usize, dim: usize, scale: f32) -> Attention {
        let (window, softcap, q_rope, write) = (None, None, None, None);
        Attention { heads, kv_heads, dim, scale, window, softcap, gate: Gate::None, q_rope, write, mask: false }
    }

    /// Elements from one query to the next.
    pub(crate) fn q_stride(&self) -> usize {
        if self.gate == Gate::Packed { 2 * self.dim } else { self.dim }
    }

    /// The queries (from 0) or gates (from `dim`) of a packed projection.
    pub fn half(&self, start: usize) -> Slice {
        Slice { group: 2 * self.dim, start, len: self.dim }
    }

    pub(crate) fn operands(&self) -> Operands {
        let q_norm = self.q_rope.as_ref().is_some_and(|r| r.norm.is_some()).then_some(1);
        let k = 1 + q_norm.is_some() as usize;
        let k_norm = self.write.as_ref().is_some_and(|w| w.has_norm()).then_some(k + 2);
        let mut next = k + if self.write.is_some() { 2 + k_norm.is_some() as usize } else { 0 };
        let mut take = |is_there: bool| {
            next += is_there as usize;
            is_there.then_some(next - 1)
        };
        let gate = take(self.gate == Gate::Separate).or((self.gate == Gate::Packed).then_some(0));
        let mask = take(self.mask);
        Operands { q_norm, k, k_norm, gate, mask, states: next, count: next + 2 }
    }
}

impl OpDef for Attention {
    const NAME: &'static str = "attention";

    fn ggml(&self) -> &'static str {
        "FLASH_ATTN_EXT"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let o = self.operands();
        want_inputs(Self::NAME, ins, o.count)?;
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return fail(format!("{} query heads do not divide among {} key heads", self.heads, self.kv_heads));
        }
        if ins[0].width != self.heads * self.q_stride() {
            let gates = if self.gate == Gate::Packed { " with gates" } else { "" };
            return fail(format!("queries{gates} of {} for {} heads of {}", ins[0].width, self.heads, self.dim));
        }
        if let Some(i) = o.gate
            && (ins[i].width != 2 * self.heads * self.dim || ins[i].rows != ins[0].rows)
        {
            return fail(format!("queries and gates of {} for {} heads of {}", ins[i].width, self.heads, self.dim));
        }
        if let Some(i) = o.mask
            && ins[i].rows != ins[0].rows
        {
            return fail(format!("a mask of {} rows for queries of {}", ins[i].rows, ins[0].rows));
        }
        let cache = Some(Cache { heads: self.kv_heads, dim: self.dim });
        if ins[o.states].cache() != cache || ins[o.states + 1].cache() != cache {
            return fail("the caches have another shape".into());
        }
        let mut outs = vec![Sig::slot(ins[0].rows.clone(), self.heads * self.dim)];
        if self.write.is_some() {
            outs.extend_from_slice(&ins[o.states..]);
        }
        Ok(outs)
    }

    fn meaning(&self) -> Meaning {
        let o = self.operands();
        let plain = Attention { gate: Gate::None, q_rope: None, write: None, mask: false, ..self.clone() };
        if *self != plain {
            let mut p = Parts::default();
            let mut q = Part::In(0);
            if self.gate == Gate::Packed {
                q = p.op(self.half(0), &[q]);
            }
            if let Some(rope) = &self.q_rope {
                let ins: Vec<Part> = [q].into_iter().chain(o.q_norm.map(Part::In)).collect();
                q = p.op(rope.clone(), &ins);
            }
            let (mut k, mut v) = (Part::In(o.states), Part::In(o.states + 1));
            if let Some(write) = &self.write {
                k = p.op(write.clone(), &o.of_write().map(Part::In).collect::<Vec<_>>());
                v = k.sibling(1);
            }
            let mut y = p.op(plain, &[q, k, v]);
            if let Some(gate) = o.gate {
                let gate = p.op(self.half(self.dim), &[Part::In(gate)]);
                let gate = p.op(Elementwise::unary(Unary::Sigmoid), &[gate]);
                y = p.op(Elementwise::mul(), &[y, gate]);
            }
            return if self.write.is_some() { p.finish(&[y, k, v]) } else { p.finish(&[y]) };
        }
        let op = self.clone();
        Meaning::Direct(Box::new(move |c| {
            let q = c.input(0).clone();
            let (ks, vs) = (c.state(1), c.state(2));
            let mut out = vec![0f64; q.data.len()];
            for t in 0..q.rows() {
                let (seq, pos) = (c.batch.seq[t] as usize, c.batch.positions[t]);
                let first = op.window.map_or(0, |w| (pos + 1).saturating_sub(w));
                for h in 0..op.heads {
                    let kv = h / (op.heads / op.kv_heads);
                    let head = &q.row(t)[h * op.dim..(h + 1) * op.dim];
                    let mut scores: Vec<f64> = vec![];
                    for p in first..=pos {
                        let (page, offset) = c.batch.cache_slot(seq, p);
                        let k = c.states[ks].get(page, kv, offset);
                        let dot: f64 = head.iter().zip(&k).map(|(a, b)| *a as f64 * *b as f64).sum();
                        let s = dot * op.scale as f64;
                        scores.push(op.softcap.map_or(s, |cap| cap as f64 * (s / cap as f64).tanh()));
                    }
                    let max = scores.iter().cloned().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                    for (i, p) in (first..=pos).enumerate() {
                        let (page, offset) = c.batch.cache_slot(seq, p);
                        let weight = (scores[i] - max).exp() / sum;
                        let at = (t * op.heads + h) * op.dim;
                        let v = c.states[vs].get(page, kv, offset);
                        out[at..at + op.dim].iter_mut().zip(v).for_each(|(o, v)| *o += weight * v as f64);
                    }
                }
            }
            c.output(0).iter_mut().zip(out).for_each(|(o, x)| *o = x as f32);
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let o = self.operands();
        // Keys and values of every visible position are read once; this step's positions are among them.
        let token = cache_row(&site.ins[o.states]) + cache_row(&site.ins[o.states + 1]);
        let mut read = Expr::Keys(self.window) * token;
        for (i, sig) in site.ins[..o.states].iter().enumerate() {
            let apart = self.gate == Gate::Separate && o.gate == Some(i);
            // If the queries are another input, only the gates of the packed projection are read.
            read = read + if apart { Expr::T * (4 * self.heads * self.dim) } else { sig.bytes() };
        }
        let mut written = site.outs[0].bytes();
        let mut flops = Expr::Pairs(self.window) * (4 * self.heads * self.dim);
        if self.gate != Gate::None {
            // A sigmoid and a product.
            flops = flops + Expr::T * (9 * self.heads * self.dim);
        }
        if self.write.is_some() {
            written = written + Expr::T * token;
        }
        let ropes = [self.q_rope.as_ref(), self.write.as_ref().and_then(|w| w.rope.as_ref())];
        for rope in ropes.into_iter().flatten() {
            let norm = if rope.norm.is_some() { 4 * rope.dim } else { 0 };
            flops = flops + Expr::T * (rope.heads * (6 * rope.pairs + norm));
        }
        if let Some(rope) = ropes.into_iter().flatten().next() {
            read = read + Expr::T * (rope.pairs * 8);
        }
        Cost::of(read, written, flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        cpu::lower(self, site)
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let plain = |heads, kv_heads, dim| Attention::plain(heads, kv_heads, dim, 1.0 / (dim as f32).sqrt());
        let rope = |heads, dim, norm| Rope { heads, dim, pairs: dim / 2, neox: true, table: 0, norm, view: None };
        let w = |dim| Sig::weight(1, dim, DType::F32);
        let mut cases = vec![];
        for (class, b) in [("one", (1, 1, 70)), ("few", (4, 2, 37)), ("some", (40, 1, 300)), ("many", (130, 2, 97))] {
            for dtype in [DType::F32, DType::F16, DType::Q8_0] {
                let state = |heads, dim| Sig::state(Cache { heads, dim }, dtype);
                let name = |what: &str| format!("{what}, {class}, {}", dtype.name());
                let ins = vec![x(576), state(3, 64), state(3, 64)];
                let mut case = Case::new(name("plain"), plain(9, 3, 64), ins, b).within(3e-5);
                if class == "one" {
                    let token = 2 * 3 * dtype.row_bytes(64).unwrap_or(0) as u64;
                    case = case.costs(70 * token + 2304, 2304, 70 * 4 * 576);
                }
                cases.push(case);
                let windowed = Attention { window: Some(16), softcap: Some(30.0), ..plain(4, 1, 32) };
                cases.push(
                    Case::new(name("window, softcap"), windowed, vec![x(128), state(1, 32), state(1, 32)], b)
                        .within(3e-5),
                );
                // After a rotation, an element may round to either neighbour in the cache's type: hence the wider bound.
                let tol = if dtype == DType::F32 { 3e-5 } else { 5e-3 };
                let write = |norm| CacheWrite { pair: true, rope: Some(rope(2, 64, norm)) };
                let fused = Attention { q_rope: Some(rope(4, 64, None)), write: Some(write(None)), ..plain(4, 2, 64) };
                let ins = vec![x(256), x(128), x(128), state(2, 64), state(2, 64)];
                cases.push(Case::new(name("rope and write"), fused, ins, b).within(tol));
                let norm = Some(1e-6);
                let fused = Attention { q_rope: Some(rope(4, 64, norm)), write: Some(write(norm)), ..plain(4, 2, 64) };
                let mut ins = vec![x(256), w(64), x(128), x(128), w(64), state(2, 64), state(2, 64)];
                cases.push(Case::new(name("norm, rope and write"), fused.clone(), ins.clone(), b).within(tol));
                let apart = Attention { gate: Gate::Separate, mask: true, ..fused.clone() };
                let mut both = ins.clone();
                both.splice(5..5, [x(512), x(8)]);
                cases.push(Case::new(name("all with a gate apart and a mask"), apart, both, b).within(tol));
                let gated = Attention { gate: Gate::Packed, ..fused };
                ins[0] = x(512);
                cases.push(Case::new(name("all with a gate"), gated, ins, b).within(tol));
                let gated = Attention { gate: Gate::Packed, ..plain(4, 2, 64) };
                let ins = vec![x(512), state(2, 64), state(2, 64)];
                let mut case = Case::new(name("gate"), gated, ins, b).within(3e-5);
                if class == "one" {
                    let token = 2 * 2 * dtype.row_bytes(64).unwrap_or(0) as u64;
                    case = case.costs(70 * token + 2048, 1024, 70 * 4 * 256 + 9 * 256);
                }
                cases.push(case);
                let apart = Attention { gate: Gate::Separate, ..plain(4, 2, 64) };
                let ins = vec![x(256), x(512), state(2, 64), state(2, 64)];
                let mut case = Case::new(name("gate apart"), apart, ins, b).within(3e-5);
                if class == "one" {
                    // The queries, and only the gates of the packed projection.
                    let token = 2 * 2 * dtype.row_bytes(64).unwrap_or(0) as u64;
                    case = case.costs(70 * token + 2048, 1024, 70 * 4 * 256 + 9 * 256);
                }
                cases.push(case);
            }
        }
        // Heads of other sizes, and groups of query heads for a key head that do not fill a tile or do not fit in one.
        let sizes = [(7, 1, 64), (4, 1, 80), (2, 2, 96), (8, 2, 128), (4, 1, 256), (20, 1, 40), (3, 3, 24)];
        let classes = [
            ("one", (1, 1, 75)),
            ("few", (5, 2, 40)),
            ("some", (19, 2, 50)),
            ("many", (66, 1, 131)),
            ("one each of 11", (11, 11, 75)),
        ];
        for (class, b) in classes {
            for (heads, kv_heads, dim) in sizes {
                let state = || Sig::state(Cache { heads: kv_heads, dim }, DType::F16);
                let name = format!("{heads} heads of {dim} for {kv_heads}, {class}");
                let op = Attention { window: Some(50), ..plain(heads, kv_heads, dim) };
                cases.push(Case::new(name, op, vec![x(heads * dim), state(), state()], b).within(3e-5));
            }
        }
        // Caches so long that they have several KV splits.
        for (class, b) in [("one", (1, 1, 1300)), ("few", (3, 2, 700)), ("one each of 9", (9, 9, 700))] {
            let state = || Sig::state(Cache { heads: 1, dim: 64 }, DType::F16);
            let name = |what: &str| format!("{what} on a long cache, {class}");
            let ins = vec![x(128), state(), state()];
            cases.push(Case::new(name("plain"), plain(2, 1, 64), ins, b).within(3e-5));
            let write = Some(CacheWrite { pair: true, rope: Some(rope(1, 64, None)) });
            let fused = Attention { window: Some(1100), q_rope: Some(rope(2, 64, None)), write, ..plain(2, 1, 64) };
            let ins = vec![x(128), x(64), x(64), state(), state()];
            cases.push(Case::new(name("window, rope and write"), fused, ins, b).within(5e-3));
        }
        // Decode of many sequences, one token each.
        for b in [(9, 9, 300), (33, 33, 150), (64, 64, 40), (70, 70, 90)] {
            let name = |what: &str| format!("{what}, one each of {}", b.0);
            let state = |heads, dim| Sig::state(Cache { heads, dim }, DType::F16);
            let write = |norm| Some(CacheWrite { pair: true, rope: Some(rope(2, 64, norm)) });
            let windowed = Attention { window: Some(37), softcap: Some(30.0), ..plain(4, 1, 32) };
            let ins = vec![x(128), state(1, 32), state(1, 32)];
            cases.push(Case::new(name("window, softcap"), windowed, ins, b).within(3e-5));
            let fused = Attention { q_rope: Some(rope(6, 64, None)), write: write(None), ..plain(6, 2, 64) };
            let ins = vec![x(384), x(128), x(128), state(2, 64), state(2, 64)];
            cases.push(Case::new(name("rope and write"), fused, ins, b).within(5e-3));
            let norm = Some(1e-6);
            let gated = Attention {
                q_rope: Some(rope(4, 64, norm)),
                write: write(norm),
                window: Some(100),
                gate: Gate::Packed,
                ..plain(4, 2, 64)
            };
            let ins = vec![x(512), w(64), x(128), x(128), w(64), state(2, 64), state(2, 64)];
            cases.push(Case::new(name("all with a gate and a window"), gated.clone(), ins.clone(), b).within(5e-3));
            // Output in the MMA fragment layout of the projection that reads it: with one KV split a row, and with several.
            for (compute, dtype) in [(Compute::Int8, DType::Q4_0), (Compute::Bf16, DType::Q8_0)] {
                let name = name(&format!("all with a gate and a window, then {} in {compute:?}", dtype.name()));
                let case = Case::new(name, gated.clone(), ins.clone(), b).computing(compute).within(1e-2);
                cases.push(case.then(Matmul::plain(), vec![Sig::weight(70, 256, dtype)]));
            }
        }
        cases
    }
}
