//! The gated delta rule on the CPU. A work item is one key head of one sequence, with all value heads that read it.
//! It convolves its own channels, so that no other item reads or writes its share of either state, and no barrier is
//! needed.
//!
//! - Few rows go token by token. `Sᵀk` and `Sᵀq` are both computed from the old state, then one more pass updates it:
//!   `o = e^g Sᵀq + (k·q) d` does not need the new state.
//! - More rows go in chunks of [`CHUNK`]. With `G_t` the sum of g over the chunk's tokens up to t and S the state before
//!   the chunk, `d_t = beta_t (v_t - e^{G_t} Sᵀk_t - Σ_{s<t} e^{G_t-G_s} (k_t·k_s) d_s)` is a triangular system, solved
//!   row by row; then `o_t = e^{G_t} Sᵀq_t + Σ_{s≤t} e^{G_t-G_s} (q_t·k_s) d_s` and
//!   `S ← e^{G_n} S + Σ_s e^{G_n-G_s} k_s d_sᵀ`. Everything but the triangular solve is a matrix product.

use super::*;
use crate::ops::conv::Filter;
use crate::ops::l2_norm::L2Norm;
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::scratch::Scratch;
use onetrip_ir::simd::{FloatKind, Mix};

/// Tokens of a chunk.
const CHUNK: usize = 64;
/// Up to this many tokens, going token by token is cheaper than a chunk.
const FEW: usize = 8;

pub(super) fn lower(op: &DeltaNet, site: &OpSite) -> Lowering {
    let o = op.operands();
    let has_conv = matches!(op.front, Front::Conv { .. });
    let floats = (0..o.count).filter(|&i| !(has_conv && i == 1));
    if floats.into_iter().any(|i| site.ins[i].dtype != DType::F32) {
        return Lowering::Gap("operands of the delta rule that are not f32 have no CPU kernel");
    }
    let form = match (has_conv, op.norm) {
        (false, None) => "plain",
        (true, None) => "conv",
        (false, Some(_)) => "norm",
        (true, Some(_)) => "conv+norm",
    };
    let filter = match op.front {
        Front::Conv { taps, .. } => {
            Some(Filter { taps, channels: 2 * op.k_width() + op.v_width(), dtype: site.ins[1].dtype })
        }
        _ => None,
    };
    let kind = if site.bucket.is_small() { "rows" } else { "chunks" };
    let rows = if site.bucket.is_small() { FEW } else { CHUNK };
    let kernel = Kernel { op: op.clone(), filter, rows, in_place: site.ins[o.state].is_state() };
    Lowering::one(
        site,
        KernelId::new("delta_net", kind).variants(form),
        Expr::S * op.k_heads,
        1,
        op.cost(site),
        move |c, s| {
            while let Some(range) = c.items.take() {
                range.for_each(|item| kernel.item(c, s, item / kernel.op.k_heads, item % kernel.op.k_heads));
            }
        },
    )
}

struct Kernel {
    op: DeltaNet,
    filter: Option<Filter>,
    /// The most tokens computed at a time: [`FEW`] or [`CHUNK`].
    rows: usize,
    /// Whether the state is kept in place (a recurrent state of the engine) or is a value.
    in_place: bool,
}

/// The operands of one value head for the rows of a chunk, all in scratch memory: q, k `[rows, k_dim]`, v, o `[rows, v_dim]`,
/// g, beta `[rows]`. v is overwritten with d.
struct Head<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a mut [f32],
    o: &'a mut [f32],
    g: &'a [f32],
    beta: &'a [f32],
}

impl Kernel {
    fn item(&self, c: &CpuCall, scratch: &mut Scratch, seq: usize, key: usize) {
        let (op, o, n) = (&self.op, self.op.operands(), self.rows);
        let (kd, vd, own) = (op.k_dim, op.v_dim, op.v_heads / op.k_heads);
        let span = &c.batch.seqs[seq];
        let (start, count) = (span.start as usize, span.count as usize);
        // First channel and number of channels of the query, the key, and each value head.
        let segments: Vec<(usize, usize)> = [(key * kd, kd), (op.k_width() + key * kd, kd)]
            .into_iter()
            .chain((0..own).map(|i| (2 * op.k_width() + (i * op.k_heads + key) * vd, vd)))
            .collect();
        let taps = self.filter.map_or(0, |f| f.taps);
        let chunk = if n > FEW { n } else { 0 };
        let [filters, raw, q, k, v, y, gates, square, wide] = scratch.split_f32([
            taps * (2 * kd + own * vd),
            kd,
            n * kd,
            n * kd,
            own * n * vd,
            n * vd,
            2 * n,
            3 * chunk * chunk,
            2 * kd * chunk + 2 * vd,
        ]);
        // The last `v_dim` elements of `wide` are unused once a head's rows are computed: there the SiLU of the gate is made.
        let silu_at = wide.len() - vd;
        if let Some(filter) = self.filter {
            let mut at = 0;
            for &(from, len) in &segments {
                filter.load(c.bytes(1), from, len, &mut filters[at..at + taps * len]);
                at += taps * len;
            }
        }
        let (state_arg, row) = if self.in_place { (o.state, span.slot as usize) } else { (o.count + 1, seq) };
        let head_range = |i: usize| {
            let at = row * op.state_width() + (i * op.k_heads + key) * kd * vd;
            at..at + kd * vd
        };
        let head_state = |i: usize| c.write(state_arg, head_range(i));
        if !self.in_place {
            (0..own).for_each(|i| head_state(i).copy_from_slice(&c.f32s(o.state)[head_range(i)]));
        } else if span.is_first_chunk() {
            (0..own).for_each(|i| head_state(i).fill(0.0));
        }
        for first in (0..count).step_by(n) {
            let rows = (count - first).min(n);
            for t in 0..rows {
                self.load(c, seq, first + t, rows, t, &segments, (filters, raw), (q, k, v));
            }
            for i in 0..own {
                let h = i * op.k_heads + key;
                let (g, beta) = gates.split_at_mut(n);
                for t in 0..rows {
                    let at = (start + first + t) * op.v_heads + h;
                    (g[t], beta[t]) = (c.f32s(o.g)[at], c.f32s(o.g + 1)[at]);
                }
                let head = Head {
                    q: &q[..rows * kd],
                    k: &k[..rows * kd],
                    v: &mut v[i * rows * vd..(i + 1) * rows * vd],
                    o: &mut y[..rows * vd],
                    g: &g[..rows],
                    beta: &beta[..rows],
                };
                if rows <= FEW {
                    self.one_by_one(c, head, head_state(i), &mut wide[..2 * vd]);
                } else {
                    self.chunk(c, head, head_state(i), square, wide, i == 0);
                }
                for t in 0..rows {
                    let at = (start + first + t) * op.v_width() + h * vd;
                    let out = c.write(o.count, at..at + vd);
                    let y = &y[t * vd..(t + 1) * vd];
                    match op.norm {
                        Some(eps) => {
                            (c.simd.rms_norm)(y, Some(c.f32s(o.norm)), eps, out);
                            let gate = &mut wide[silu_at..];
                            gate.copy_from_slice(&c.f32s(o.norm + 1)[at..at + vd]);
                            (c.simd.silu)(gate);
                            out.iter_mut().zip(gate).for_each(|(o, g)| *o *= *g);
                        }
                        None => out.copy_from_slice(y),
                    }
                }
            }
        }
        if let Some(filter) = self.filter {
            segments.iter().for_each(|&(from, len)| filter.keep(c, (0, o.conv_state), seq, from, len));
        }
    }

    /// Loads row `at` of the sequence's rows in this step into row `t` of q (scaled), of k, and of v of every value head
    /// (each `[rows, dim]`).
    #[allow(clippy::too_many_arguments)]
    fn load(
        &self,
        c: &CpuCall,
        seq: usize,
        at: usize,
        rows: usize,
        t: usize,
        segments: &[(usize, usize)],
        (filters, raw): (&[f32], &mut [f32]),
        (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
    ) {
        let (kd, vd) = (self.op.k_dim, self.op.v_dim);
        let row = c.batch.seqs[seq].start as usize + at;
        let states = (0, Some(self.op.operands().conv_state));
        let mut before = 0;
        for (i, &(from, len)) in segments.iter().enumerate() {
            let out = match i {
                0 => &mut q[t * kd..(t + 1) * kd],
                1 => &mut k[t * kd..(t + 1) * kd],
                _ => &mut v[((i - 2) * rows + t) * vd..((i - 2) * rows + t + 1) * vd],
            };
            match (self.filter, &self.op.front) {
                (Some(filter), &Front::Conv { eps, .. }) => {
                    let taps = &filters[before..before + filter.taps * len];
                    before += filter.taps * len;
                    let y = if i < 2 { &mut *raw } else { &mut *out };
                    filter.row(c, states, seq, at, from, taps, y);
                    (c.simd.silu)(y);
                    if i < 2 {
                        L2Norm { eps, dim: kd, view: None }.group(c, raw, out);
                    }
                }
                _ => {
                    let (arg, from, width) = match i {
                        0 => (0, from, self.op.k_width()),
                        1 => (1, from - self.op.k_width(), self.op.k_width()),
                        _ if self.op.front == Front::Packed => (2, from, 2 * self.op.k_width() + self.op.v_width()),
                        _ => (2, from - 2 * self.op.k_width(), self.op.v_width()),
                    };
                    out.copy_from_slice(&c.f32s(arg)[row * width + from..row * width + from + len]);
                }
            }
            if i == 0 {
                out.iter_mut().for_each(|x| *x *= self.op.scale);
            }
        }
    }

    fn one_by_one(&self, c: &CpuCall, head: Head, state: &mut [f32], seen: &mut [f32]) {
        let (kd, vd) = (self.op.k_dim, self.op.v_dim);
        let Head { q, k, v, o, g, beta } = head;
        for t in 0..g.len() {
            let (q, k) = (&q[t * kd..(t + 1) * kd], &k[t * kd..(t + 1) * kd]);
            let decay = g[t].exp();
            seen.fill(0.0);
            let (by_k, by_q) = seen.split_at_mut(vd);
            (c.simd.mix1)(FloatKind::F32, bytemuck::cast_slice(state), kd, vd, k, by_k);
            (c.simd.mix1)(FloatKind::F32, bytemuck::cast_slice(state), kd, vd, q, by_q);
            let kq: f32 = k.iter().zip(q).map(|(a, b)| a * b).sum();
            let d = &mut v[t * vd..(t + 1) * vd];
            let out = &mut o[t * vd..(t + 1) * vd];
            for j in 0..vd {
                d[j] = beta[t] * (d[j] - decay * by_k[j]);
                out[j] = decay * by_q[j] + kq * d[j];
            }
            (c.simd.rank1)(decay, k, d, state);
        }
    }

    /// Computes one chunk of one value head. Products of q and k alone are the same for all value heads of a key head: they
    /// are computed for the `first` of these heads and kept in `square` and `wide` for the others.
    fn chunk(&self, c: &CpuCall, head: Head, state: &mut [f32], square: &mut [f32], wide: &mut [f32], first: bool) {
        let (kd, vd) = (self.op.k_dim, self.op.v_dim);
        let Head { q, k, v, o, g, beta } = head;
        let n = g.len();
        let (kt, scaled) = wide.split_at_mut(kd * CHUNK);
        let scaled = &mut scaled[..kd * CHUNK];
        let (kk, rest) = square.split_at_mut(CHUNK * CHUNK);
        let (qk, rest) = rest.split_at_mut(CHUNK * CHUNK);
        // The rest of `square` holds the prefix sums G of g, e^G, and one row of coefficients.
        let (sums, rest) = rest.split_at_mut(CHUNK);
        let (decays, row) = rest.split_at_mut(CHUNK);
        let mut sum = 0.0;
        for t in 0..n {
            sum += g[t];
            sums[t] = sum;
            decays[t] = sum.exp();
        }
        let product = |p: &[f32], rows: usize, inner: usize, v: &[f32], v_stride: usize, d: usize, out: &mut [f32]| {
            let out_stride = v_stride;
            let operands = Mix { p, p_stride: inner, v, v_stride, m: rows, n: inner, d };
            (c.simd.mix)(&operands, out, out_stride);
        };
        if first {
            kt.fill(0.0);
            (c.simd.transpose)(FloatKind::F32, bytemuck::cast_slice(k), n, kd, kt, CHUNK);
            kk.fill(0.0);
            product(k, n, kd, kt, CHUNK, n, kk);
            qk.fill(0.0);
            product(q, n, kd, kt, CHUNK, n, qk);
        }
        // d = beta (v - e^G Sᵀk), then the triangular solve, row by row.
        o.fill(0.0);
        product(k, n, kd, state, vd, vd, o);
        for t in 0..n {
            let (d, seen) = (&mut v[t * vd..(t + 1) * vd], &o[t * vd..(t + 1) * vd]);
            d.iter_mut().zip(seen).for_each(|(d, s)| *d = beta[t] * (*d - decays[t] * s));
        }
        for t in 1..n {
            for s in 0..t {
                row[s] = -beta[t] * (sums[t] - sums[s]).exp() * kk[t * CHUNK + s];
            }
            let (solved, rest) = v.split_at_mut(t * vd);
            (c.simd.mix1)(FloatKind::F32, bytemuck::cast_slice(solved), t, vd, &row[..t], &mut rest[..vd]);
        }
        // o = e^G Sᵀq, plus the contributions of this chunk's own d.
        o.fill(0.0);
        product(q, n, kd, state, vd, vd, o);
        for t in 0..n {
            o[t * vd..(t + 1) * vd].iter_mut().for_each(|x| *x *= decays[t]);
            for s in 0..=t {
                row[s] = (sums[t] - sums[s]).exp() * qk[t * CHUNK + s];
            }
            let out = &mut o[t * vd..(t + 1) * vd];
            (c.simd.mix1)(FloatKind::F32, bytemuck::cast_slice(&v[..(t + 1) * vd]), t + 1, vd, &row[..t + 1], out);
        }
        state.iter_mut().for_each(|s| *s *= decays[n - 1]);
        for t in 0..n {
            row[t] = (sums[n - 1] - sums[t]).exp();
        }
        for (to, from) in scaled.chunks_exact_mut(CHUNK).zip(kt.chunks_exact(CHUNK)) {
            for t in 0..n {
                to[t] = row[t] * from[t];
            }
        }
        let operands = Mix { p: scaled, p_stride: CHUNK, v, v_stride: vd, m: kd, n, d: vd };
        (c.simd.mix)(&operands, state, vd);
    }
}
