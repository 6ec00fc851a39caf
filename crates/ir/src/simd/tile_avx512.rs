//! Tile kernels with AVX-512 VNNI. Each 32-bit lane of a 512-bit vector is a row: one `vpdpbusd` with a broadcast dword of
//! activations computes 4 columns of 16 rows. Quants stay unsigned. Accumulators start at `-zero * sum(activations)`, so
//! that formats with a zero point cost no extra instruction.
//!
//! For up to four tokens (decode), planes are unpacked in registers and accumulated at once. For more tokens, a chunk of 256
//! columns is unpacked once into L1, and up to 6 tokens at a time are multiplied with each unit, with the unit's eight
//! vectors and all accumulators in registers.

use super::q8::{at_scales, at_sums, q8_row_bytes};
use super::tile_shared::{CHUNK, Chunk, check, zero_point};
use crate::formats::block::{GroupMin, ScaleKind};
use crate::formats::tile::{Packing, TileLayout, UNIT, VEC};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Prefetch distance for planes in bytes, with two or more tokens.
const AHEAD: usize = 2048;

const BITS2: u8 = 0;
const BITS3: u8 = 1;
const BITS4: u8 = 2;
const BITS5: u8 = 3;
const BITS6: u8 = 4;
const BITS8: u8 = 5;
const TABLE: u8 = 6;

/// Calls a kernel with the packing as a const generic argument.
macro_rules! with_packing {
    ($layout:expr, $f:ident $(, $more:expr)*; $($arg:expr),*) => {
        match $layout.packing() {
            Packing::Bits2 => $f::<BITS2 $(, $more)*>($($arg),*),
            Packing::Bits3 => $f::<BITS3 $(, $more)*>($($arg),*),
            Packing::Bits4 => $f::<BITS4 $(, $more)*>($($arg),*),
            Packing::Bits5 => $f::<BITS5 $(, $more)*>($($arg),*),
            Packing::Bits6 => $f::<BITS6 $(, $more)*>($($arg),*),
            Packing::Bits8 => $f::<BITS8 $(, $more)*>($($arg),*),
            Packing::Table => $f::<TABLE $(, $more)*>($($arg),*),
        }
    };
}

/// See [`super::Simd::dot_tile`].
#[inline(always)]
pub(super) unsafe fn dot_tile(layout: &TileLayout, tile: &[u8], acts: &[u8], n: usize, out: &mut [[f32; 16]]) {
    check(layout, tile, acts, n, out);
    // SAFETY: the caller guarantees the features; `check` has ensured that the slices have the sizes of the layout.
    unsafe {
        match (n, layout.spec().group) {
            (0, _) => {}
            (1, 16) => with_packing!(layout, dot_few, true, 1; layout, tile.as_ptr(), acts.as_ptr(), out),
            (1, _) => with_packing!(layout, dot_few, false, 1; layout, tile.as_ptr(), acts.as_ptr(), out),
            (2, 16) => with_packing!(layout, dot_few, true, 2; layout, tile.as_ptr(), acts.as_ptr(), out),
            (2, _) => with_packing!(layout, dot_few, false, 2; layout, tile.as_ptr(), acts.as_ptr(), out),
            (3, 16) => with_packing!(layout, dot_few, true, 3; layout, tile.as_ptr(), acts.as_ptr(), out),
            (3, _) => with_packing!(layout, dot_few, false, 3; layout, tile.as_ptr(), acts.as_ptr(), out),
            (4, 16) => with_packing!(layout, dot_few, true, 4; layout, tile.as_ptr(), acts.as_ptr(), out),
            (4, _) => with_packing!(layout, dot_few, false, 4; layout, tile.as_ptr(), acts.as_ptr(), out),
            _ => dot_many(layout, tile.as_ptr(), acts.as_ptr(), &mut out[..n]),
        }
    }
}

/// Unpacks the planes of a unit to its eight vectors of unsigned quants. `table` is the codebook with 128 added.
#[inline(always)]
unsafe fn quants<const P: u8>(p: *const u8, table: __m512i) -> [__m512i; 8] {
    // SAFETY: `p` is valid for reads of the planes of one unit of packing `P`.
    unsafe {
        let plane = |i: usize| _mm512_loadu_si512(p.add(i * VEC).cast());
        let nibble = _mm512_set1_epi8(15);
        let mut v = [_mm512_setzero_si512(); 8];
        match P {
            BITS8 => {
                for j in 0..8 {
                    v[j] = plane(j);
                }
            }
            BITS2 | BITS3 => {
                let two = _mm512_set1_epi8(3);
                for h in 0..2 {
                    let x = plane(h);
                    v[4 * h] = _mm512_and_si512(x, two);
                    v[4 * h + 1] = _mm512_and_si512(_mm512_srli_epi16::<2>(x), two);
                    v[4 * h + 2] = _mm512_and_si512(_mm512_srli_epi16::<4>(x), two);
                    v[4 * h + 3] = _mm512_and_si512(_mm512_srli_epi16::<6>(x), two);
                }
            }
            _ => {
                for j in 0..4 {
                    let x = plane(j);
                    v[j] = _mm512_and_si512(x, nibble);
                    v[j + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(x), nibble);
                }
            }
        }
        // `v | (bits & mask)` in one instruction: 0xF8 = a | (b & c).
        let or_and = |v, bits, mask| _mm512_ternarylogic_epi32::<0xF8>(v, bits, mask);
        match P {
            BITS3 => {
                let (x, mask) = (plane(2), _mm512_set1_epi8(4));
                v[0] = or_and(v[0], _mm512_slli_epi16::<2>(x), mask);
                v[1] = or_and(v[1], _mm512_slli_epi16::<1>(x), mask);
                v[2] = or_and(v[2], x, mask);
                v[3] = or_and(v[3], _mm512_srli_epi16::<1>(x), mask);
                v[4] = or_and(v[4], _mm512_srli_epi16::<2>(x), mask);
                v[5] = or_and(v[5], _mm512_srli_epi16::<3>(x), mask);
                v[6] = or_and(v[6], _mm512_srli_epi16::<4>(x), mask);
                v[7] = or_and(v[7], _mm512_srli_epi16::<5>(x), mask);
            }
            BITS5 => {
                let (x, mask) = (plane(4), _mm512_set1_epi8(16));
                v[0] = or_and(v[0], _mm512_slli_epi16::<4>(x), mask);
                v[1] = or_and(v[1], _mm512_slli_epi16::<3>(x), mask);
                v[2] = or_and(v[2], _mm512_slli_epi16::<2>(x), mask);
                v[3] = or_and(v[3], _mm512_slli_epi16::<1>(x), mask);
                v[4] = or_and(v[4], x, mask);
                v[5] = or_and(v[5], _mm512_srli_epi16::<1>(x), mask);
                v[6] = or_and(v[6], _mm512_srli_epi16::<2>(x), mask);
                v[7] = or_and(v[7], _mm512_srli_epi16::<3>(x), mask);
            }
            BITS6 => {
                let mask = _mm512_set1_epi8(48);
                for h in 0..2 {
                    let x = plane(4 + h);
                    v[4 * h] = or_and(v[4 * h], _mm512_slli_epi16::<4>(x), mask);
                    v[4 * h + 1] = or_and(v[4 * h + 1], _mm512_slli_epi16::<2>(x), mask);
                    v[4 * h + 2] = or_and(v[4 * h + 2], x, mask);
                    v[4 * h + 3] = or_and(v[4 * h + 3], _mm512_srli_epi16::<2>(x), mask);
                }
            }
            TABLE => {
                for j in 0..8 {
                    v[j] = _mm512_shuffle_epi8(table, v[j]);
                }
            }
            _ => {}
        }
        v
    }
}

/// The codebook of the format plus 128, in every 128-bit lane; for formats without one the result is not used.
#[inline(always)]
unsafe fn codebook(layout: &TileLayout) -> __m512i {
    let table = layout.spec().table.copied().unwrap_or([0; 16]).map(|x| (x as u8) ^ 0x80);
    // SAFETY: 16 bytes are loaded from an array of 16.
    unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) }
}

#[inline(always)]
unsafe fn halves(p: *const u8) -> __m512 {
    // SAFETY: `p` is valid for reads of 32 bytes.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
}

/// The scales of 16 rows, converted to f32.
#[inline(always)]
unsafe fn scales(kind: ScaleKind, p: *const u8) -> __m512 {
    // SAFETY: `p` is valid for reads of 32 bytes.
    unsafe {
        match kind {
            ScaleKind::F16 => halves(p),
            // The scale is held as bf16, which is the upper half of an f32.
            ScaleKind::E8M0 => {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
            }
        }
    }
}

/// The block scales `d` and mins `m` of a panel, for 16 rows.
#[derive(Clone, Copy)]
struct Head {
    d: __m512,
    m: __m512,
}

#[inline(always)]
unsafe fn head(layout: &TileLayout, panel: *const u8) -> Head {
    // SAFETY: `panel` is a whole panel of the layout.
    unsafe {
        let m = match layout.spec().min {
            GroupMin::None => _mm512_setzero_ps(),
            _ => halves(panel.add(layout.at_m())),
        };
        Head { d: scales(layout.spec().scale, panel), m }
    }
}

/// The scales of group `g` of a panel: `d * sc` where the format has sub-scales, else `d`.
#[inline(always)]
unsafe fn scale_of(layout: &TileLayout, panel: *const u8, head: Head, g: usize) -> __m512 {
    if !layout.spec().sub_scales {
        return head.d;
    }
    // SAFETY: the group is inside the panel.
    unsafe {
        let sc = _mm512_cvtepi8_epi32(_mm_loadu_si128(panel.add(layout.at_sc() + 16 * g).cast()));
        _mm512_mul_ps(head.d, _mm512_cvtepi32_ps(sc))
    }
}

/// Min of group `g` of a panel. The format has mins.
#[inline(always)]
unsafe fn min_of(layout: &TileLayout, panel: *const u8, head: Head, g: usize) -> __m512 {
    if layout.spec().min != GroupMin::Scaled {
        return head.m;
    }
    // SAFETY: the group is inside the panel.
    unsafe {
        let mc = _mm512_cvtepu8_epi32(_mm_loadu_si128(panel.add(layout.at_mc() + 16 * g).cast()));
        _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(head.m, _mm512_cvtepi32_ps(mc)))
    }
}

/// `sum + w · a` over four columns of 16 rows, where `a` points to one dword of activations.
#[inline(always)]
unsafe fn dot4(sum: __m512i, w: __m512i, a: *const u8) -> __m512i {
    // SAFETY: `a` is valid for reads of 4 bytes.
    unsafe { _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(a.cast::<i32>().read_unaligned())) }
}

/// Up to four tokens. Planes are unpacked and accumulated without leaving the registers; memory bandwidth is the limit.
///
/// 1: only one token took this path: 26.9 GB/s of Q4_0 from memory and 58 from L2; more tokens took `dot_many`.
/// 2: two to four tokens take it too: four tokens on Q4_0, from 200 to 330 GOPS from L2. 3: several tokens prefetch
/// planes 2 KB ahead: from 130 to 180 GOPS from memory; for one token prefetching brought nothing (tried 1 to 8 KB).
/// (One thread, AMD EPYC Zen 4, 2 cores shared with other work, 2026-11-29.)
#[inline(always)]
unsafe fn dot_few<const P: u8, const G16: bool, const T: usize>(
    layout: &TileLayout,
    tile: *const u8,
    acts: *const u8,
    out: &mut [[f32; 16]],
) {
    // SAFETY: tile and activations have the layout's size, and there are `T` rows of activations.
    unsafe {
        let k = layout.k();
        let stride = q8_row_bytes(k);
        let zero = zero_point(layout);
        let with_min = layout.spec().min != GroupMin::None;
        let table = codebook(layout);
        let mut total = [_mm512_setzero_ps(); T];
        let mut total_min = [_mm512_setzero_ps(); T];
        let mut unit = 0;
        for p in 0..layout.panels() {
            let panel = tile.add(p * layout.panel_bytes());
            let head = head(layout, panel);
            let mut planes = panel.add(layout.at_quants());
            for u in 0..layout.units() {
                let w = quants::<P>(planes, table);
                if T > 1 {
                    for line in (0..layout.unit_bytes()).step_by(64) {
                        _mm_prefetch::<_MM_HINT_T0>(planes.wrapping_add(AHEAD + line).cast());
                    }
                }
                planes = planes.add(layout.unit_bytes());
                let g = if G16 { 2 * u } else { u };
                let scale0 = scale_of(layout, panel, head, g);
                let scale1 = if G16 { scale_of(layout, panel, head, g + 1) } else { scale0 };
                let mut sums = [[0; 2]; T];
                let mut d = [_mm512_setzero_ps(); T];
                for t in 0..T {
                    let act = acts.add(t * stride);
                    let a = act.add(unit * UNIT);
                    d[t] = _mm512_set1_ps(act.add(at_scales(k)).cast::<f32>().add(unit).read_unaligned());
                    sums[t] = act.add(at_sums(k)).cast::<[i32; 2]>().add(unit).read_unaligned();
                    let mut s = if G16 {
                        [_mm512_set1_epi32(-zero * sums[t][0]), _mm512_set1_epi32(-zero * sums[t][1])]
                    } else {
                        [_mm512_set1_epi32(-zero * (sums[t][0] + sums[t][1])), _mm512_setzero_si512()]
                    };
                    for j in 0..4 {
                        s[0] = dot4(s[0], w[j], a.add(4 * j));
                        s[1] = dot4(s[1], w[j + 4], a.add(4 * j + 16));
                    }
                    if G16 {
                        let f = _mm512_mul_ps(_mm512_cvtepi32_ps(s[0]), scale0);
                        let f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[1]), scale1, f);
                        total[t] = _mm512_fmadd_ps(f, d[t], total[t]);
                    } else {
                        // An E8M0 scale of 2^127 times the integer sum would be infinite, so the activation's scale is
                        // multiplied first and the weight's scale last, as in `pass_tokens`.
                        let is_last = P == TABLE && layout.spec().scale == ScaleKind::E8M0;
                        let (first, last) = if is_last { (d[t], scale0) } else { (scale0, d[t]) };
                        let f = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(s[0], s[1])), first);
                        total[t] = _mm512_fmadd_ps(f, last, total[t]);
                    }
                }
                if with_min {
                    let min0 = min_of(layout, panel, head, g);
                    let min1 = if G16 { min_of(layout, panel, head, g + 1) } else { min0 };
                    for t in 0..T {
                        let f = |x: i32| _mm512_set1_ps(x as f32);
                        let o = if G16 {
                            _mm512_fmadd_ps(min1, f(sums[t][1]), _mm512_mul_ps(min0, f(sums[t][0])))
                        } else {
                            _mm512_mul_ps(min0, f(sums[t][0] + sums[t][1]))
                        };
                        total_min[t] = _mm512_fmadd_ps(o, d[t], total_min[t]);
                    }
                }
                unit += 1;
            }
        }
        for t in 0..T {
            _mm512_storeu_ps(out[t].as_mut_ptr(), _mm512_add_ps(total[t], total_min[t]));
        }
    }
}

/// Unpacks `count` units from unit `first` on into `chunk`.
#[inline(always)]
unsafe fn fill<const P: u8>(layout: &TileLayout, tile: *const u8, first: usize, count: usize, chunk: *mut Chunk) {
    // SAFETY: the units are inside the tile; `count` is at most `CHUNK`; `chunk` may be written.
    unsafe {
        let table = codebook(layout);
        let groups = UNIT / layout.spec().group;
        for slot in 0..count {
            let (p, u) = ((first + slot) / layout.units(), (first + slot) % layout.units());
            let panel = tile.add(p * layout.panel_bytes());
            let head = head(layout, panel);
            let v = quants::<P>(panel.add(layout.at_quants() + u * layout.unit_bytes()), table);
            for (j, v) in v.into_iter().enumerate() {
                _mm512_store_si512((&raw mut (*chunk).quants[slot][j]).cast(), v);
            }
            for g in 0..groups {
                let scale = scale_of(layout, panel, head, u * groups + g);
                _mm512_store_ps((&raw mut (*chunk).scale[2 * slot + g]).cast(), scale);
                if layout.spec().min != GroupMin::None {
                    let min = min_of(layout, panel, head, u * groups + g);
                    _mm512_store_ps((&raw mut (*chunk).min[2 * slot + g]).cast(), min);
                }
            }
        }
    }
}

/// More than four tokens: unpacks the tile chunk by chunk and multiplies each chunk with all tokens.
#[inline(always)]
unsafe fn dot_many(layout: &TileLayout, tile: *const u8, acts: *const u8, out: &mut [[f32; 16]]) {
    out.fill([0.0; 16]);
    let units = layout.k() / UNIT;
    // The chunk is not cleared: `fill` writes everything that `pass` reads, and clearing 6 KB would cost noticeable time in
    // narrow tiles.
    let mut chunk = MaybeUninit::<Chunk>::uninit();
    let chunk = chunk.as_mut_ptr();
    for first in (0..units).step_by(CHUNK) {
        let count = (units - first).min(CHUNK);
        // SAFETY: as the caller guarantees; the chunk is inside the tile.
        unsafe {
            with_packing!(layout, fill; layout, tile, first, count, chunk);
            // The planes of the next chunk, in this tile or the next one. Any address may be prefetched.
            let next = Ahead {
                at: tile.wrapping_add((first + CHUNK) / layout.units() * layout.panel_bytes()),
                bytes: layout.panel_bytes() * CHUNK / layout.units(),
            };
            let with_min = layout.spec().min != GroupMin::None;
            match (layout.spec().group, with_min) {
                (16, false) => pass::<true, false>(layout, chunk, first, count, next, acts, out),
                (16, true) => pass::<true, true>(layout, chunk, first, count, next, acts, out),
                (_, false) => pass::<false, false>(layout, chunk, first, count, next, acts, out),
                (_, true) => pass::<false, true>(layout, chunk, first, count, next, acts, out),
            }
        }
    }
}

/// Cache lines that `pass_tokens` prefetches for each unit.
const LINES: usize = 2;

/// Address and size of the memory that is prefetched while a chunk is multiplied with the tokens.
#[derive(Clone, Copy)]
struct Ahead {
    at: *const u8,
    bytes: usize,
}

/// Multiplies one chunk with all tokens and adds to `out`.
#[inline(always)]
unsafe fn pass<const G16: bool, const HAS_MIN: bool>(
    layout: &TileLayout,
    chunk: *const Chunk,
    first: usize,
    count: usize,
    mut next: Ahead,
    acts: *const u8,
    out: &mut [[f32; 16]],
) {
    let stride = q8_row_bytes(layout.k());
    let mut t = 0;
    let n = out.len();
    // SAFETY: tokens `t..t + T` are below `n`.
    unsafe {
        while t < n {
            let (acts, rest) = (acts.add(t * stride), &mut out[t..]);
            // Six tokens at a time; the remainder is split so that a single token is left over only if there is no other way.
            t += match n - t {
                1 => pass_tokens::<G16, HAS_MIN, 1>(layout, chunk, first, count, next.at, acts, rest),
                2 => pass_tokens::<G16, HAS_MIN, 2>(layout, chunk, first, count, next.at, acts, rest),
                3 | 5 => pass_tokens::<G16, HAS_MIN, 3>(layout, chunk, first, count, next.at, acts, rest),
                4 | 7 | 8 => pass_tokens::<G16, HAS_MIN, 4>(layout, chunk, first, count, next.at, acts, rest),
                _ => pass_tokens::<G16, HAS_MIN, 6>(layout, chunk, first, count, next.at, acts, rest),
            };
            let asked = (count * LINES * 64).min(next.bytes);
            next = Ahead { at: next.at.wrapping_add(asked), bytes: next.bytes - asked };
        }
    }
}

/// For each group of a chunk, for one token: the initial value of the accumulator (`-zero * sum(quants)`), and the
/// activations' sum by which the min is multiplied.
#[repr(C, align(64))]
struct Begin {
    zero: [i32; 16],
    sum: [f32; 16],
}

/// Multiplies one chunk with `T` tokens, with eight vectors of quants and `T` accumulators in registers. Returns `T`.
///
/// A unit of one token takes 8 `vpdpbusd` and, on the same two ports, a float multiplication and a float addition (two
/// with mins), so at most 80 % of the integer peak can be reached (344 of 430 GOPS at 3.36 GHz).
/// 1: 16 tokens at a time: the compiler left a loop with the accumulators in memory. 2: 6 tokens, unrolled: 1.05 times as
/// fast. 3: with each unit, two cache lines of the next chunk are prefetched, from `next` on: 16 tokens over 25 MB of Q4_0
/// went from 195 to 284 GOPS (medians; prefetching the whole next chunk at once brought 204). 512 tokens: 316 GOPS.
/// (One thread, AMD EPYC Zen 4, 2 cores shared with other work, 2026-11-29.)
#[inline(always)]
unsafe fn pass_tokens<const G16: bool, const HAS_MIN: bool, const T: usize>(
    layout: &TileLayout,
    chunk: *const Chunk,
    first: usize,
    count: usize,
    next: *const u8,
    acts: *const u8,
    out: &mut [[f32; 16]],
) -> usize {
    // SAFETY: `T` tokens and `T` outputs exist; the chunk's `count` units begin at unit `first` of the row.
    unsafe {
        let k = layout.k();
        let stride = q8_row_bytes(k);
        let minus_zero = _mm512_set1_epi32(-zero_point(layout));
        let mask16 = ((1u32 << (2 * count)) - 1) as u16;
        let mut begin = [const { Begin { zero: [0; 16], sum: [0.0; 16] } }; T];
        for (t, begin) in begin.iter_mut().enumerate() {
            let act = acts.add(t * stride);
            let sums = _mm512_maskz_loadu_epi32(mask16, act.add(at_sums(k)).cast::<i32>().add(2 * first));
            // For groups of 32 the two sums of sixteen are added, and both lanes hold the total.
            let sums = if G16 { sums } else { _mm512_add_epi32(sums, _mm512_shuffle_epi32::<0b10_11_00_01>(sums)) };
            _mm512_store_si512(begin.zero.as_mut_ptr().cast(), _mm512_mullo_epi32(sums, minus_zero));
            if HAS_MIN {
                let d =
                    _mm256_maskz_loadu_ps(((1u32 << count) - 1) as u8, act.add(at_scales(k)).cast::<f32>().add(first));
                let pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
                let d = _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(d));
                _mm512_store_ps(begin.sum.as_mut_ptr(), _mm512_mul_ps(d, _mm512_cvtepi32_ps(sums)));
            }
        }
        let mut total = [_mm512_setzero_ps(); T];
        for t in 0..T {
            total[t] = _mm512_loadu_ps(out[t].as_ptr());
        }
        for slot in 0..count {
            for line in 0..LINES {
                _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add((slot * LINES + line) * 64).cast());
            }
            let mut w = [_mm512_setzero_si512(); 8];
            for (j, w) in w.iter_mut().enumerate() {
                *w = _mm512_load_si512((&raw const (*chunk).quants[slot][j]).cast());
            }
            // The second group and the mins are loaded only where the format has them: `fill` left the rest uninitialized.
            let lanes = |p: *const [f32; 16], there: bool| {
                if there { _mm512_load_ps(p.cast()) } else { _mm512_setzero_ps() }
            };
            let scale0 = lanes(&raw const (*chunk).scale[2 * slot], true);
            let scale1 = lanes(&raw const (*chunk).scale[2 * slot + 1], G16);
            let min0 = lanes(&raw const (*chunk).min[2 * slot], HAS_MIN);
            let min1 = lanes(&raw const (*chunk).min[2 * slot + 1], HAS_MIN && G16);
            for t in 0..T {
                let act = acts.add(t * stride);
                let a = act.add((first + slot) * UNIT);
                let d = _mm512_set1_ps(act.add(at_scales(k)).cast::<f32>().add(first + slot).read_unaligned());
                let mut s = _mm512_set1_epi32(begin[t].zero[2 * slot]);
                if G16 {
                    let mut s1 = _mm512_set1_epi32(begin[t].zero[2 * slot + 1]);
                    for j in 0..4 {
                        s = dot4(s, w[j], a.add(4 * j));
                        s1 = dot4(s1, w[j + 4], a.add(4 * j + 16));
                    }
                    let f = _mm512_mul_ps(_mm512_cvtepi32_ps(s), scale0);
                    let f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s1), scale1, f);
                    total[t] = _mm512_fmadd_ps(f, d, total[t]);
                } else {
                    for j in 0..8 {
                        s = dot4(s, w[j], a.add(4 * j));
                    }
                    let f = _mm512_mul_ps(_mm512_cvtepi32_ps(s), d);
                    total[t] = _mm512_fmadd_ps(f, scale0, total[t]);
                }
                if HAS_MIN {
                    total[t] = _mm512_fmadd_ps(_mm512_set1_ps(begin[t].sum[2 * slot]), min0, total[t]);
                    if G16 {
                        total[t] = _mm512_fmadd_ps(_mm512_set1_ps(begin[t].sum[2 * slot + 1]), min1, total[t]);
                    }
                }
            }
        }
        for t in 0..T {
            _mm512_storeu_ps(out[t].as_mut_ptr(), total[t]);
        }
    }
    T
}
