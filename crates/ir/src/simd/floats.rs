//! Float kernels, written once for all instruction sets: matrix products, attention scores, weighted sums of rows.
//!
//! Every function checks the lengths of its slices, then works with pointers inside them.

use super::lanes::Lanes;

/// Storage type of floats, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatKind {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of an f32.
    Bf16,
}

impl FloatKind {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            FloatKind::F32 => 4,
            FloatKind::F16 | FloatKind::Bf16 => 2,
        }
    }
}

/// Operands of [`Simd::dot_rows`].
#[derive(Clone, Copy, Debug)]
pub struct DotRows<'a> {
    /// Storage type of the weights.
    pub kind: FloatKind,
    /// The weights: `n_rows` rows of `k` elements, `row_bytes` apart; no alignment is needed.
    pub rows: &'a [u8],
    /// Bytes from one row to the next, at least the bytes of `k` elements (arbitrary for a single row).
    pub row_bytes: usize,
    /// Rows of weights.
    pub n_rows: usize,
    /// Elements in a row of weights and of activations.
    pub k: usize,
    /// The activations: `n_tokens` rows of `k` elements, `act_stride` apart.
    pub acts: &'a [f32],
    /// Elements from one row of activations to the next.
    pub act_stride: usize,
    /// Rows of activations.
    pub n_tokens: usize,
}

/// Operands of [`Simd::mix`]: `out[m × d] += p[m × n] · v[n × d]`, row-major with strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct Mix<'a> {
    /// `m` rows of `n` weights.
    pub p: &'a [f32],
    /// Elements from one row of `p` to the next.
    pub p_stride: usize,
    /// `n` rows of `d` values.
    pub v: &'a [f32],
    /// Elements from one row of `v` to the next.
    pub v_stride: usize,
    /// Rows of `p` and of the output.
    pub m: usize,
    /// Columns of `p`, rows of `v`.
    pub n: usize,
    /// Columns of `v` and of the output.
    pub d: usize,
}

/// A storage type as a Rust type, so that each kernel is compiled for it.
///
/// # Safety (all functions)
/// As for [`Lanes`]: `p` is valid for `L::N` or `n` elements.
trait Elem {
    /// Bytes of an element.
    const BYTES: usize;
    /// Loads `L::N` elements and converts them to f32.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V;
    /// Loads `n < L::N` elements and converts them to f32; the other lanes are 0.
    unsafe fn load_part<L: Lanes>(p: *const u8, n: usize) -> L::V;
}

struct F32;
struct F16;
struct Bf16;

/// Copies `n ≤ 16` elements of two bytes; the rest is 0.
#[inline(always)]
unsafe fn part16(p: *const u8, n: usize) -> [u16; 16] {
    let mut part = [0u16; 16];
    for (i, out) in part.iter_mut().enumerate().take(n) {
        // SAFETY: `i < n`, and `p` is valid for `n` elements.
        *out = unsafe { p.cast::<u16>().add(i).read_unaligned() };
    }
    part
}

impl Elem for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: the caller's contract is passed on.
        unsafe { L::load(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_part<L: Lanes>(p: *const u8, n: usize) -> L::V {
        // SAFETY: the caller's contract is passed on.
        unsafe { L::load_part(p.cast(), n) }
    }
}

impl Elem for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: the caller's contract is passed on.
        unsafe { L::load_f16(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_part<L: Lanes>(p: *const u8, n: usize) -> L::V {
        // SAFETY: the caller's contract is passed on; the copy holds 16 elements, as many as any vector.
        unsafe { L::load_f16(part16(p, n).as_ptr()) }
    }
}

impl Elem for Bf16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::V {
        // SAFETY: the caller's contract is passed on.
        unsafe { L::load_bf16(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_part<L: Lanes>(p: *const u8, n: usize) -> L::V {
        // SAFETY: the caller's contract is passed on; the copy holds 16 elements, as many as any vector.
        unsafe { L::load_bf16(part16(p, n).as_ptr()) }
    }
}

/// Calls a kernel with the storage type as its last type argument.
macro_rules! with_elem {
    ($kind:expr, $f:ident::<$lanes:ty>($($arg:expr),*)) => {
        // SAFETY: the caller vouches for the features, and the lengths were checked before.
        unsafe {
            match $kind {
                FloatKind::F32 => $f::<$lanes, F32>($($arg),*),
                FloatKind::F16 => $f::<$lanes, F16>($($arg),*),
                FloatKind::Bf16 => $f::<$lanes, Bf16>($($arg),*),
            }
        }
    };
}

/// Length of `n` rows of `width` that begin `stride` apart; panics if it overflows.
#[inline(always)]
fn extent(n: usize, stride: usize, width: usize) -> usize {
    if n == 0 {
        return 0;
    }
    (n - 1).checked_mul(stride).and_then(|x| x.checked_add(width)).expect("the size of a matrix overflows")
}

/// Panics unless a slice of `len` holds `n` rows of `width`, `stride` apart, that do not overlap.
#[inline(always)]
fn check(what: &str, len: usize, n: usize, stride: usize, width: usize) {
    assert!(n <= 1 || stride >= width, "{what}: rows of {width} are only {stride} apart");
    assert!(extent(n, stride, width) <= len, "{what}: {len} is too short for {n} rows of {width}, {stride} apart");
}

/// See [`super::Simd::dot_rows`].
#[inline(always)]
pub(super) unsafe fn dot_rows<L: Lanes>(o: &DotRows, out: &mut [f32], out_stride: usize) {
    let width = o.k.checked_mul(o.kind.bytes()).expect("the size of a row overflows");
    check("weights", o.rows.len(), o.n_rows, o.row_bytes, width);
    check("activations", o.acts.len(), o.n_tokens, o.act_stride, o.k);
    check("output", out.len(), o.n_tokens, out_stride, o.n_rows);
    if o.n_tokens > 0 {
        with_elem!(o.kind, dot_rows_of::<L>(o, out, out_stride));
    }
}

/// Uses register tiles of `L::ROWS` rows × 4 tokens (3 tokens on sets with 16 registers), so that one load of a weight serves
/// all tokens of the tile. With sets of 32 registers the next block of rows is prefetched in the order of its addresses.
/// With a single token, rows are read one after the other, with eight accumulators for a row.
///
/// 1: a single token took four rows at once: 8.7 GB/s of F16 rows from memory, since four streams defeat the hardware
/// prefetcher. 2: one row at a time: 17.5 GB/s in the same minutes (medians of 5, AVX-512, AMD EPYC Zen 4, 2 cores shared
/// with other work, 2026-11-29). Rows of at most 512 bytes, as in a KV cache, are still read four at once: 35 against
/// 24 GB/s at 64 f16 elements.
#[inline(always)]
unsafe fn dot_rows_of<L: Lanes, E: Elem>(o: &DotRows, out: &mut [f32], out_stride: usize) {
    let at = |r: usize, t: usize| Tile {
        rows: o.rows.as_ptr().wrapping_add(r * o.row_bytes),
        row_bytes: o.row_bytes,
        acts: o.acts.as_ptr().wrapping_add(t * o.act_stride),
        act_stride: o.act_stride,
        k: o.k,
    };
    // SAFETY: rows and tokens of every tile are below `n_rows` and `n_tokens`, which were checked.
    unsafe {
        let mut r = 0;
        if o.n_tokens == 1 && o.k * E::BYTES > 512 {
            while r < o.n_rows {
                dot_block::<L, E, 1, 1, 8>(&at(r, 0), &mut out[r..], out_stride);
                r += 1;
            }
        } else if o.n_tokens == 1 {
            while r + 4 <= o.n_rows {
                dot_block::<L, E, 4, 1, 2>(&at(r, 0), &mut out[r..], out_stride);
                r += 4;
            }
        } else {
            while r + L::ROWS <= o.n_rows {
                let mut t = 0;
                // Each block of four tokens prefetches its share of the next rows.
                let bytes = L::ROWS * o.row_bytes;
                let share = bytes.div_ceil(o.n_tokens.div_ceil(4)).next_multiple_of(64);
                let next = o.rows.as_ptr().wrapping_add((r + L::ROWS) * o.row_bytes);
                if L::ROWS == 6 {
                    while t + 4 <= o.n_tokens {
                        let from = t / 4 * share;
                        for at in (from..bytes.min(from + share)).step_by(64) {
                            L::prefetch(next.wrapping_add(at));
                        }
                        dot_block::<L, E, 6, 4, 1>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                        t += 4;
                    }
                    while t + 2 <= o.n_tokens {
                        dot_block::<L, E, 6, 2, 1>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                        t += 2;
                    }
                    if t < o.n_tokens {
                        dot_block::<L, E, 6, 1, 1>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                    }
                } else {
                    while t + 3 <= o.n_tokens {
                        dot_block::<L, E, 4, 3, 1>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                        t += 3;
                    }
                    while t < o.n_tokens {
                        dot_block::<L, E, 4, 1, 2>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                        t += 1;
                    }
                }
                r += L::ROWS;
            }
        }
        while r < o.n_rows {
            let mut t = 0;
            while t + 4 <= o.n_tokens {
                dot_block::<L, E, 1, 4, 2>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                t += 4;
            }
            while t < o.n_tokens {
                dot_block::<L, E, 1, 1, 4>(&at(r, t), &mut out[t * out_stride + r..], out_stride);
                t += 1;
            }
            r += 1;
        }
    }
}

/// Operands of one register tile.
struct Tile {
    rows: *const u8,
    row_bytes: usize,
    acts: *const f32,
    act_stride: usize,
    k: usize,
}

/// `R` rows × `T` tokens with `U` accumulators for each pair, in steps of `U` vectors along `k`.
#[inline(always)]
unsafe fn dot_block<L: Lanes, E: Elem, const R: usize, const T: usize, const U: usize>(
    tile: &Tile,
    out: &mut [f32],
    out_stride: usize,
) {
    let Tile { rows, row_bytes, acts, act_stride, k } = *tile;
    // SAFETY: the caller's tile holds `R` rows and `T` tokens of `k` elements; every index is below `k`.
    unsafe {
        let mut sums = [[[L::splat(0.0); T]; R]; U];
        let mut i = 0;
        while i + U * L::N <= k {
            for u in 0..U {
                let at = i + u * L::N;
                let mut a = [L::splat(0.0); T];
                for t in 0..T {
                    a[t] = L::load(acts.add(t * act_stride + at));
                }
                for r in 0..R {
                    let w = E::load::<L>(rows.add(r * row_bytes + at * E::BYTES));
                    for t in 0..T {
                        sums[u][r][t] = L::fma(w, a[t], sums[u][r][t]);
                    }
                }
            }
            i += U * L::N;
        }
        while i + L::N <= k {
            for r in 0..R {
                let w = E::load::<L>(rows.add(r * row_bytes + i * E::BYTES));
                for t in 0..T {
                    sums[0][r][t] = L::fma(w, L::load(acts.add(t * act_stride + i)), sums[0][r][t]);
                }
            }
            i += L::N;
        }
        if i < k {
            for r in 0..R {
                let w = E::load_part::<L>(rows.add(r * row_bytes + i * E::BYTES), k - i);
                for t in 0..T {
                    sums[0][r][t] = L::fma(w, L::load_part(acts.add(t * act_stride + i), k - i), sums[0][r][t]);
                }
            }
        }
        for u in 1..U {
            for r in 0..R {
                for t in 0..T {
                    sums[0][r][t] = L::add(sums[0][r][t], sums[u][r][t]);
                }
            }
        }
        if (R * T).is_multiple_of(4) {
            for q in (0..R * T).step_by(4) {
                let v = |i: usize| sums[0][(q + i) % R][(q + i) / R];
                let four = L::sum4([v(0), v(1), v(2), v(3)]);
                for i in 0..4 {
                    out[(q + i) / R * out_stride + (q + i) % R] = four[i];
                }
            }
        } else {
            for r in 0..R {
                for t in 0..T {
                    out[t * out_stride + r] = L::sum(sums[0][r][t]);
                }
            }
        }
    }
}

/// See [`super::Simd::scores`].
#[inline(always)]
pub(super) unsafe fn scores<L: Lanes>(
    kind: FloatKind,
    rows: &[u8],
    n: usize,
    dim: usize,
    q: &[f32],
    scale: f32,
    out: &mut [f32],
) {
    assert_eq!(q.len(), dim, "the query is not {dim} long");
    assert_eq!(out.len(), n, "the output is not {n} long");
    let row_bytes = dim * kind.bytes();
    let o = DotRows { kind, rows, row_bytes, n_rows: n, k: dim, acts: q, act_stride: dim, n_tokens: 1 };
    // SAFETY: the caller guarantees the features; `dot_rows` checks the rest.
    unsafe { dot_rows::<L>(&o, out, n) };
    for x in out {
        *x *= scale;
    }
}

/// See [`super::Simd::mix1`].
#[inline(always)]
pub(super) unsafe fn mix1<L: Lanes>(kind: FloatKind, rows: &[u8], n: usize, dim: usize, p: &[f32], out: &mut [f32]) {
    assert_eq!(p.len(), n, "there are not {n} weights");
    assert_eq!(out.len(), dim, "the output is not {dim} long");
    let width = dim.checked_mul(kind.bytes()).expect("the size of a row overflows");
    check("values", rows.len(), n, width, width);
    with_elem!(kind, mix1_of::<L>(rows.as_ptr(), n, dim, p.as_ptr(), out.as_mut_ptr()))
}

/// The sums of a strip of columns stay in registers while all rows are read.
#[inline(always)]
unsafe fn mix1_of<L: Lanes, E: Elem>(rows: *const u8, n: usize, dim: usize, p: *const f32, out: *mut f32) {
    // SAFETY: strips end within `dim`; lengths were checked by the caller.
    unsafe {
        let mut j = 0;
        while j + 8 * L::N <= dim {
            mix1_strip::<L, E, 8>(rows.add(j * E::BYTES), n, dim, p, out.add(j));
            j += 8 * L::N;
        }
        while j + 4 * L::N <= dim {
            mix1_strip::<L, E, 4>(rows.add(j * E::BYTES), n, dim, p, out.add(j));
            j += 4 * L::N;
        }
        while j + L::N <= dim {
            mix1_strip::<L, E, 1>(rows.add(j * E::BYTES), n, dim, p, out.add(j));
            j += L::N;
        }
        if j < dim {
            let part = dim - j;
            let mut sum = L::load_part(out.add(j), part);
            for i in 0..n {
                let v = E::load_part::<L>(rows.add((i * dim + j) * E::BYTES), part);
                sum = L::fma(L::splat(*p.add(i)), v, sum);
            }
            L::store_part(out.add(j), sum, part);
        }
    }
}

#[inline(always)]
unsafe fn mix1_strip<L: Lanes, E: Elem, const C: usize>(
    rows: *const u8,
    n: usize,
    dim: usize,
    p: *const f32,
    out: *mut f32,
) {
    // SAFETY: the caller gives strips of `C` vectors inside rows of `dim`.
    unsafe {
        let mut sums = [L::splat(0.0); C];
        for c in 0..C {
            sums[c] = L::load(out.add(c * L::N));
        }
        for i in 0..n {
            let row = rows.add(i * dim * E::BYTES);
            let weight = L::splat(*p.add(i));
            for c in 0..C {
                sums[c] = L::fma(weight, E::load::<L>(row.add(c * L::N * E::BYTES)), sums[c]);
            }
        }
        for c in 0..C {
            L::store(out.add(c * L::N), sums[c]);
        }
    }
}

/// See [`super::Simd::mix`].
#[inline(always)]
pub(super) unsafe fn mix<L: Lanes>(o: &Mix, out: &mut [f32], out_stride: usize) {
    check("weights", o.p.len(), o.m, o.p_stride, o.n);
    check("values", o.v.len(), o.n, o.v_stride, o.d);
    check("output", out.len(), o.m, out_stride, o.d);
    // SAFETY: row and column blocks end within `m` and `d`, which were checked.
    unsafe {
        let mut i = 0;
        while i + 4 <= o.m {
            mix_rows::<L, 4>(o, i, out.as_mut_ptr().add(i * out_stride), out_stride);
            i += 4;
        }
        while i < o.m {
            mix_rows::<L, 1>(o, i, out.as_mut_ptr().add(i * out_stride), out_stride);
            i += 1;
        }
    }
}

#[inline(always)]
unsafe fn mix_rows<L: Lanes, const M: usize>(o: &Mix, i: usize, out: *mut f32, out_stride: usize) {
    // SAFETY: `M` rows from row `i` exist; columns stay below `d`.
    unsafe {
        let p = o.p.as_ptr().add(i * o.p_stride);
        let v = o.v.as_ptr();
        let mut j = 0;
        if L::N == 16 {
            while j + 4 * L::N <= o.d {
                mix_block::<L, M, 4>(o, p, v.wrapping_add(j), out.wrapping_add(j), out_stride);
                j += 4 * L::N;
            }
        }
        while j + 2 * L::N <= o.d {
            mix_block::<L, M, 2>(o, p, v.wrapping_add(j), out.wrapping_add(j), out_stride);
            j += 2 * L::N;
        }
        while j + L::N <= o.d {
            mix_block::<L, M, 1>(o, p, v.wrapping_add(j), out.wrapping_add(j), out_stride);
            j += L::N;
        }
        let part = o.d - j;
        if part > 0 {
            for m in 0..M {
                let at = out.add(m * out_stride + j);
                let mut sum = L::load_part(at, part);
                for n in 0..o.n {
                    let v = L::load_part(v.add(n * o.v_stride + j), part);
                    sum = L::fma(L::splat(*p.add(m * o.p_stride + n)), v, sum);
                }
                L::store_part(at, sum, part);
            }
        }
    }
}

/// Accumulates `M` rows × `C` vectors of columns in registers, over all of `n` in one pass.
#[inline(always)]
unsafe fn mix_block<L: Lanes, const M: usize, const C: usize>(
    o: &Mix,
    p: *const f32,
    v: *const f32,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller gives a block inside the checked matrices.
    unsafe {
        let mut sums = [[L::splat(0.0); C]; M];
        for m in 0..M {
            for c in 0..C {
                sums[m][c] = L::load(out.add(m * out_stride + c * L::N));
            }
        }
        for n in 0..o.n {
            let mut values = [L::splat(0.0); C];
            for c in 0..C {
                values[c] = L::load(v.add(n * o.v_stride + c * L::N));
            }
            for m in 0..M {
                let weight = L::splat(*p.add(m * o.p_stride + n));
                for c in 0..C {
                    sums[m][c] = L::fma(weight, values[c], sums[m][c]);
                }
            }
        }
        for m in 0..M {
            for c in 0..C {
                L::store(out.add(m * out_stride + c * L::N), sums[m][c]);
            }
        }
    }
}

/// See [`super::Simd::transpose`].
#[inline(always)]
pub(super) unsafe fn transpose<L: Lanes>(
    kind: FloatKind,
    rows: &[u8],
    n: usize,
    dim: usize,
    out: &mut [f32],
    out_stride: usize,
) {
    let width = dim.checked_mul(kind.bytes()).expect("the size of a row overflows");
    check("rows", rows.len(), n, width, width);
    check("output", out.len(), dim, out_stride, n);
    with_elem!(kind, transpose_of::<L>(rows.as_ptr(), n, dim, out, out_stride))
}

/// Transposes 16 rows × one vector of columns at a time through a square buffer that stays in L1.
#[inline(always)]
unsafe fn transpose_of<L: Lanes, E: Elem>(rows: *const u8, n: usize, dim: usize, out: &mut [f32], out_stride: usize) {
    let mut square = [[0.0f32; 16]; 16];
    for i in (0..n).step_by(16) {
        let tall = (n - i).min(16);
        for j in (0..dim).step_by(L::N) {
            let wide = (dim - j).min(L::N);
            for (r, row) in square.iter_mut().enumerate().take(tall) {
                // SAFETY: row `i + r` is below `n`, columns `j..j + wide` below `dim`; a row of the square holds
                // the 16 lanes of the widest vector.
                unsafe {
                    let from = rows.add(((i + r) * dim + j) * E::BYTES);
                    let v = if wide == L::N { E::load::<L>(from) } else { E::load_part::<L>(from, wide) };
                    L::store(row.as_mut_ptr(), v);
                }
            }
            for c in 0..wide {
                let out = &mut out[(j + c) * out_stride + i..][..tall];
                for (x, row) in out.iter_mut().zip(&square) {
                    *x = row[c];
                }
            }
        }
    }
}
