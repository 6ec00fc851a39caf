//! Attention on the CPU.
//!
//! - `decode` (up to 8 rows): one work item per (token, query head). A fused cache write needs no barrier: each item
//!   recomputes this step's K/V in its scratch, rounded as the cache rounds them, and the item of the first head of a
//!   group stores the K/V of its own token; no item reads from the cache the K/V that the same dispatch writes.
//! - `prefill` (more rows): one work item per (16 queries of a sequence, head), with an online softmax over blocks of keys
//!   (running maximum and sum). A fused cache write is a launch of its own before it.

use super::*;
use crate::ops::cache_write::slot_bytes;
use crate::reference::encode_row;
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::scratch::Scratch;
use onetrip_ir::simd::{FloatKind, Mix};

/// Queries of a `prefill` work item.
const QUERIES: usize = 16;
/// Keys of a block of `prefill`, and rows that `decode` dequantizes at a time.
const KEYS: usize = 64;

/// The key cache or the value cache as a kernel reads it.
#[derive(Clone, Copy)]
struct CacheSide {
    arg: usize,
    cache: Cache,
    dtype: DType,
    row_bytes: usize,
}

impl CacheSide {
    /// The positions `from..to` of a head as runs within one page each: (first position, bytes of the run's vectors).
    fn runs<'a>(
        self,
        c: &'a CpuCall,
        seq: usize,
        head: usize,
        from: u32,
        to: u32,
    ) -> impl Iterator<Item = (u32, &'a [u8])> {
        let page_len = c.batch.page_len;
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let (page, offset) = c.batch.cache_slot(seq, at);
            let n = (page_len - offset as u32).min(to - at);
            let start = slot_bytes(self.cache, self.row_bytes, page_len as usize, page, head, offset);
            let run = (at, c.bytes_at(self.arg, start..start + n as usize * self.row_bytes));
            at += n;
            Some(run)
        })
    }

    fn float(self) -> Option<FloatKind> {
        match self.dtype {
            DType::F32 => Some(FloatKind::F32),
            DType::F16 => Some(FloatKind::F16),
            _ => None,
        }
    }
}

/// `scale · q·k` for packed rows of a cache; quantized rows are dequantized into `dequantized` first.
fn scores(c: &CpuCall, side: CacheSide, rows: &[u8], q: &[f32], scale: f32, dequantized: &mut [f32], out: &mut [f32]) {
    let dim = side.cache.dim;
    match side.float() {
        Some(kind) => (c.simd.scores)(kind, rows, out.len(), dim, q, scale, out),
        None => {
            for (rows, out) in rows.chunks(KEYS * side.row_bytes).zip(out.chunks_mut(KEYS)) {
                let dequantized = &mut dequantized[..out.len() * dim];
                side.dtype.def().dequantize(rows, dequantized);
                (c.simd.scores)(FloatKind::F32, bytemuck::cast_slice(dequantized), out.len(), dim, q, scale, out);
            }
        }
    }
}

/// `out += Σ p v` for packed rows of a cache.
fn mix(c: &CpuCall, side: CacheSide, rows: &[u8], p: &[f32], dequantized: &mut [f32], out: &mut [f32]) {
    let dim = side.cache.dim;
    match side.float() {
        Some(kind) => (c.simd.mix1)(kind, rows, p.len(), dim, p, out),
        None => {
            for (rows, p) in rows.chunks(KEYS * side.row_bytes).zip(p.chunks(KEYS)) {
                let dequantized = &mut dequantized[..p.len() * dim];
                side.dtype.def().dequantize(rows, dequantized);
                (c.simd.mix1)(FloatKind::F32, bytemuck::cast_slice(dequantized), p.len(), dim, p, out);
            }
        }
    }
}

fn softcap(c: &CpuCall, cap: Option<f32>, scores: &mut [f32]) {
    if let Some(cap) = cap {
        scores.iter_mut().for_each(|s| *s /= cap);
        (c.simd.tanh)(scores);
        scores.iter_mut().for_each(|s| *s *= cap);
    }
}

pub(super) mod select;

pub(super) fn lower(op: &Attention, site: &OpSite) -> Lowering {
    let o = op.operands();
    let sigs = [&site.ins[o.states], &site.ins[o.states + 1]];
    let supported = |s: &&Sig| matches!(s.dtype, DType::F32 | DType::F16) || s.dtype.row_bytes(op.dim).is_some();
    if !sigs.iter().all(supported) {
        return Lowering::Gap("the head size is no whole number of the cache format's blocks");
    }
    let side = |i: usize| CacheSide {
        arg: o.states + i,
        cache: Cache { heads: op.kv_heads, dim: op.dim },
        dtype: sigs[i].dtype,
        row_bytes: sigs[i].dtype.row_bytes(op.dim).unwrap_or(0),
    };
    let site = CpuAttention { op, site, sides: [side(0), side(1)] };
    Lowering::selected(crate::select::select(CpuAttention::CANDIDATES, site.site.bucket, &site))
}

/// A site of the op, with its key cache and its value cache.
struct CpuAttention<'a> {
    op: &'a Attention,
    site: &'a OpSite,
    sides: [CacheSide; 2],
}

impl CpuAttention<'_> {
    /// One launch, which rotates and writes the cache where that is fused.
    fn decode(&self) -> Lowering {
        let (op, [ks, vs]) = (self.op.clone(), self.sides);
        let form = match (&op.write, &op.q_rope) {
            (Some(_), _) => "rope+write",
            (None, Some(_)) => "rope",
            (None, None) => "plain",
        };
        let id = KernelId::new("attention", "decode").variants(form);
        let (grid, cost) = (Expr::T * op.heads, op.cost(self.site));
        Lowering::one(self.site, id, grid, 1, cost, move |c, s| decode(c, s, &op, ks, vs))
    }

    /// Tiles of queries. A fused cache write is a launch of its own in front; none if that has no kernel.
    fn prefill(&self) -> Option<Lowering> {
        let (op, site, [ks, vs], o) = (self.op, self.site, self.sides, self.op.operands());
        let grid = (Expr::CeilDiv(Box::new(Expr::T), QUERIES as u64) + Expr::S) * op.heads;
        let kernel_op = op.clone();
        let code = move |c: &CpuCall, s: &mut Scratch| prefill(c, s, &kernel_op, ks, vs);
        let Some(write) = &op.write else {
            return Some(Lowering::one(site, "attention/prefill", grid, 1, op.cost(site), code));
        };
        let ins = o.of_write().map(|i| site.ins[i].clone()).collect();
        let write_site = OpSite { ins, outs: site.outs[1..].to_vec(), ..site.clone() };
        let Lowering::Steps { mut launches, .. } = write.cpu(&write_site) else { return None };
        launches[0].args = o.of_write().map(Arg::In).collect();
        let rest = Attention { write: None, ..op.clone() };
        let mut ins = site.ins[..o.k].to_vec();
        ins.extend_from_slice(&site.ins[o.k + 2 + o.k_norm.is_some() as usize..]);
        let rest_site = OpSite { ins, outs: site.outs[..1].to_vec(), ..site.clone() };
        let attend = Lowering::one(&rest_site, "attention/prefill", grid, 1, rest.cost(&rest_site), code);
        let Lowering::Steps { launches: mut attend, .. } = attend else { return None };
        // The kernel addresses operands by their place in the whole op.
        attend[0].args = (0..o.count).map(Arg::In).chain([Arg::Out(0)]).collect();
        launches.append(&mut attend);
        Some(Lowering::steps(launches, vec![]))
    }
}

/// Index of the output among the args: after all inputs.
fn out_arg(op: &Attention) -> usize {
    op.operands().count
}

/// Multiplies a head's output by the sigmoid of its gate, if there is one. `dequantized` is scratch for a head.
fn gate(c: &CpuCall, op: &Attention, row: usize, head: usize, dequantized: &mut [f32], out: &mut [f32]) {
    if let Some(arg) = op.operands().gate {
        let at = (row * op.heads + head) * 2 * op.dim + op.dim;
        dequantized.copy_from_slice(&c.f32s(arg)[at..at + op.dim]);
        (c.simd.sigmoid)(dequantized);
        out.iter_mut().zip(dequantized).for_each(|(o, g)| *o *= *g);
    }
}

fn decode(c: &CpuCall, scratch: &mut Scratch, op: &Attention, ks: CacheSide, vs: CacheSide) {
    let (o, dim, group) = (op.operands(), op.dim, op.heads / op.kv_heads);
    let longest = c.bind.l as usize;
    let step_max = c.bind.t as usize;
    while let Some(range) = c.items.take() {
        for item in range {
            let (row, head) = (item / op.heads, item % op.heads);
            let kv = head / group;
            let seq = c.batch.seq[row] as usize;
            let (pos, span) = (c.batch.positions[row], &c.batch.seqs[seq]);
            let first = op.window.map_or(0, |w| (pos + 1).saturating_sub(w));
            // Positions from `step_first` on are this step's: their K/V are computed here if this op writes the cache, else
            // read from it. Both forms sum them separately from older positions, so that they give the same bits.
            let step_first = (span.length - span.count).max(first);
            let sizes =
                [dim * 4, longest * 4, dim * 4, KEYS * dim * 4, step_max * ks.row_bytes, step_max * vs.row_bytes];
            let [q, p, k, dequantized, step_k, step_v] = scratch.split(sizes);
            let q: &mut [f32] = bytemuck::cast_slice_mut(q);
            let p: &mut [f32] = bytemuck::cast_slice_mut(p);
            let k: &mut [f32] = bytemuck::cast_slice_mut(k);
            let dequantized: &mut [f32] = bytemuck::cast_slice_mut(dequantized);

            let at = (row * op.heads + head) * op.q_stride();
            let x = &c.f32s(0)[at..at + dim];
            match &op.q_rope {
                Some(rope) => rope.head(c, row, o.q_norm.map(|i| c.f32s(i)), x, q),
                None => q.copy_from_slice(x),
            }
            let n_step = if op.write.is_some() { (pos + 1 - step_first) as usize } else { 0 };
            let end = pos + 1 - n_step as u32;
            if let Some(write) = &op.write {
                for (i, t) in (0..n_step).map(|i| (i, row + 1 + i - n_step)) {
                    let at = (t * op.kv_heads + kv) * dim;
                    let x = &c.f32s(o.k)[at..at + dim];
                    match &write.rope {
                        Some(rope) => rope.head(c, t, o.k_norm.map(|i| c.f32s(i)), x, k),
                        None => k.copy_from_slice(x),
                    }
                    encode_row(ks.dtype, k, &mut step_k[i * ks.row_bytes..(i + 1) * ks.row_bytes]);
                    let v = &c.f32s(o.k + 1)[at..at + dim];
                    encode_row(vs.dtype, v, &mut step_v[i * vs.row_bytes..(i + 1) * vs.row_bytes]);
                }
                if head % group == 0 {
                    let (page, offset) = c.batch.cache_slot(seq, pos);
                    let page_len = c.batch.page_len as usize;
                    for (side, rows) in [(ks, &*step_k), (vs, &*step_v)] {
                        let at = slot_bytes(side.cache, side.row_bytes, page_len, page, kv, offset);
                        let own = &rows[(n_step - 1) * side.row_bytes..n_step * side.row_bytes];
                        c.write_bytes(side.arg, at..at + side.row_bytes).copy_from_slice(own);
                    }
                }
            }

            let p = &mut p[..(pos + 1 - first) as usize];
            for (at, rows) in ks.runs(c, seq, kv, first, step_first).chain(ks.runs(c, seq, kv, step_first, end)) {
                let n = rows.len() / ks.row_bytes;
                let at = (at - first) as usize;
                scores(c, ks, rows, q, op.scale, dequantized, &mut p[at..at + n]);
            }
            let from = (end - first) as usize;
            scores(c, ks, &step_k[..n_step * ks.row_bytes], q, op.scale, dequantized, &mut p[from..]);
            softcap(c, op.softcap, p);
            let max = (c.simd.max)(p);
            let sum = (c.simd.softmax_exp)(p, max);
            let out = c.write(out_arg(op), item * dim..(item + 1) * dim);
            out.fill(0.0);
            for (at, rows) in vs.runs(c, seq, kv, first, step_first).chain(vs.runs(c, seq, kv, step_first, end)) {
                let n = rows.len() / vs.row_bytes;
                let at = (at - first) as usize;
                mix(c, vs, rows, &p[at..at + n], dequantized, out);
            }
            mix(c, vs, &step_v[..n_step * vs.row_bytes], &p[from..], dequantized, out);
            let norm = 1.0 / sum;
            out.iter_mut().for_each(|x| *x *= norm);
            gate(c, op, row, head, q, out);
        }
    }
}

/// The `block`-th block of at most [`QUERIES`] rows of one sequence: (sequence, first row, rows).
fn query_block(c: &CpuCall, mut block: usize) -> Option<(usize, usize, usize)> {
    for (i, s) in c.batch.seqs.iter().enumerate() {
        let blocks = (s.count as usize).div_ceil(QUERIES);
        if block < blocks {
            let start = block * QUERIES;
            return Some((i, s.start as usize + start, (s.count as usize - start).min(QUERIES)));
        }
        block -= blocks;
    }
    None
}

fn prefill(c: &CpuCall, scratch: &mut Scratch, op: &Attention, ks: CacheSide, vs: CacheSide) {
    let (o, dim, group) = (op.operands(), op.dim, op.heads / op.kv_heads);
    while let Some(range) = c.items.take() {
        for item in range {
            // The grid is sized as if every sequence ended in a partial block; surplus items find no block.
            let Some((seq, row, n)) = query_block(c, item / op.heads) else { continue };
            let head = item % op.heads;
            let sizes = [QUERIES * dim, KEYS * dim, KEYS * dim, QUERIES * KEYS, QUERIES * dim];
            let [q, kt, v, p, acc] = scratch.split_f32(sizes);
            for i in 0..n {
                let at = ((row + i) * op.heads + head) * op.q_stride();
                let x = &c.f32s(0)[at..at + dim];
                let out = &mut q[i * dim..(i + 1) * dim];
                match &op.q_rope {
                    Some(rope) => rope.head(c, row + i, o.q_norm.map(|i| c.f32s(i)), x, out),
                    None => out.copy_from_slice(x),
                }
                out.iter_mut().for_each(|x| *x *= op.scale);
            }
            acc[..n * dim].fill(0.0);
            let (mut max, mut sum) = ([f32::NEG_INFINITY; QUERIES], [0f32; QUERIES]);
            let pos = c.batch.positions[row];
            let lowest = |p: u32| op.window.map_or(0, |w| (p + 1).saturating_sub(w));
            let (mut from, end) = (lowest(pos), pos + n as u32);
            while from < end {
                // A block of keys ends where its page ends.
                let page_left = c.batch.page_len - from % c.batch.page_len;
                let keys = (KEYS as u32).min(page_left).min(end - from) as usize;
                dequantize_keys(c, ks, seq, head / group, from, keys, v, kt);
                dequantize(c, vs, seq, head / group, from, keys, v);
                p[..n * KEYS].fill(0.0);
                let operands = Mix { p: q, p_stride: dim, v: kt, v_stride: KEYS, m: n, n: dim, d: keys };
                (c.simd.mix)(&operands, p, KEYS);
                for i in 0..n {
                    let scores = &mut p[i * KEYS..i * KEYS + keys];
                    softcap(c, op.softcap, scores);
                    // The causal and window mask of this token.
                    let own = pos + i as u32;
                    let visible = (own + 1).saturating_sub(from).min(keys as u32) as usize;
                    let hidden = (lowest(own).saturating_sub(from) as usize).min(keys);
                    scores[visible..].fill(f32::NEG_INFINITY);
                    scores[..hidden].fill(f32::NEG_INFINITY);
                    let new_max = (c.simd.max)(scores).max(max[i]);
                    if new_max == f32::NEG_INFINITY {
                        scores.fill(0.0);
                        continue;
                    }
                    let shrink = (max[i] - new_max).exp();
                    if shrink != 1.0 {
                        acc[i * dim..(i + 1) * dim].iter_mut().for_each(|x| *x *= shrink);
                    }
                    sum[i] = sum[i] * shrink + (c.simd.softmax_exp)(scores, new_max);
                    max[i] = new_max;
                }
                let operands = Mix { p, p_stride: KEYS, v, v_stride: dim, m: n, n: keys, d: dim };
                (c.simd.mix)(&operands, acc, dim);
                from += keys as u32;
            }
            for i in 0..n {
                let at = ((row + i) * op.heads + head) * dim;
                let out = c.write(out_arg(op), at..at + dim);
                let norm = 1.0 / sum[i];
                out.iter_mut().zip(&acc[i * dim..(i + 1) * dim]).for_each(|(o, a)| *o = a * norm);
                gate(c, op, row + i, head, &mut q[..dim], out);
            }
        }
    }
}

/// Vectors of `n` adjacent positions of one page, as f32 `[n, dim]`.
#[allow(clippy::too_many_arguments)]
fn dequantize(c: &CpuCall, side: CacheSide, seq: usize, head: usize, from: u32, n: usize, out: &mut [f32]) {
    for (at, rows) in side.runs(c, seq, head, from, from + n as u32) {
        let first = (at - from) as usize * side.cache.dim;
        let len = rows.len() / side.row_bytes * side.cache.dim;
        let out = &mut out[first..first + len];
        match side.dtype {
            DType::F16 => match bytemuck::try_cast_slice(rows) {
                Ok(halves) => (c.simd.f16_to_f32)(halves, out),
                Err(_) => side.dtype.def().dequantize(rows, out),
            },
            _ => side.dtype.def().dequantize(rows, out),
        }
    }
}

/// Keys of `n` adjacent positions of one page, transposed: `[dim][KEYS]`. `dequantized` is scratch for quantized caches.
#[allow(clippy::too_many_arguments)]
fn dequantize_keys(
    c: &CpuCall,
    side: CacheSide,
    seq: usize,
    head: usize,
    from: u32,
    n: usize,
    dequantized: &mut [f32],
    out: &mut [f32],
) {
    let dim = side.cache.dim;
    match side.float() {
        Some(kind) => {
            for (_, rows) in side.runs(c, seq, head, from, from + n as u32) {
                (c.simd.transpose)(kind, rows, n, dim, out, KEYS);
            }
        }
        None => {
            dequantize(c, side, seq, head, from, n, dequantized);
            let rows = bytemuck::cast_slice(&dequantized[..n * dim]);
            (c.simd.transpose)(FloatKind::F32, rows, n, dim, out, KEYS);
        }
    }
}
