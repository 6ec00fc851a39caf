//! Tile kernels with AVX2: `vpmaddubsw` multiplies 4 columns of 8 rows and adds adjacent products in saturating 16 bits.
//!
//! Quants of up to 6 bits stay unsigned, and only so many products are accumulated in 16 bits that they cannot overflow.
//! 8-bit quants and codebook entries become signed values `w`; a sum of two products `|w| * sign(a, w)` is at most
//! `2 * 128 * 127`, which fits. A chunk of 256 columns is unpacked once into L1, then multiplied with up to four tokens at a
//! time.
//!
//! 1: the present version: Q4_0 with 512 tokens at 94-125 GOPS, one token from memory at 11-15 GB/s, which is still bound by
//! instructions, not by memory bandwidth. (One thread, AMD EPYC Zen 4, 2 cores shared with other work, 2026-11-29.)

use super::tile_shared::{Act, CHUNK, Chunk, check, fill_unit, zero_point};
use crate::formats::block::GroupMin;
use crate::formats::tile::{Packing, TileLayout, UNIT};
use std::arch::x86_64::*;

/// See [`super::Simd::dot_tile`].
#[inline(always)]
pub(super) unsafe fn dot_tile(layout: &TileLayout, tile: &[u8], acts: &[u8], n: usize, out: &mut [[f32; 16]]) {
    check(layout, tile, acts, n, out);
    let out = &mut out[..n];
    out.fill([0.0; 16]);
    let units = layout.k() / UNIT;
    let g16 = layout.spec().group == 16;
    let mut chunk = Chunk::EMPTY;
    for first in (0..units).step_by(CHUNK) {
        let count = (units - first).min(CHUNK);
        for slot in 0..count {
            fill_unit(layout, tile, first + slot, &mut chunk, slot);
        }
        // SAFETY: the caller guarantees AVX2; the chunk's units exist in every row of activations.
        unsafe {
            // A product of a quant and an activation is at most `most * 127`; `ACC` sums of two such products fit in 16 bits.
            match (layout.packing(), g16) {
                (Packing::Bits8 | Packing::Table, g16) => {
                    for quants in &mut chunk.quants[..count] {
                        quants.as_flattened_mut().iter_mut().for_each(|c| *c ^= 0x80);
                    }
                    if g16 {
                        pass::<true, true, 1>(layout, &chunk, first, count, acts, out);
                    } else {
                        pass::<true, false, 1>(layout, &chunk, first, count, acts, out);
                    }
                }
                (Packing::Bits6, true) => pass::<false, true, 2>(layout, &chunk, first, count, acts, out),
                (Packing::Bits6, false) => pass::<false, false, 2>(layout, &chunk, first, count, acts, out),
                (_, true) => pass::<false, true, 4>(layout, &chunk, first, count, acts, out),
                (_, false) => pass::<false, false, 4>(layout, &chunk, first, count, acts, out),
            }
        }
    }
}

/// Multiplies one chunk with all tokens and adds to the output.
#[inline(always)]
unsafe fn pass<const SIGNED: bool, const G16: bool, const ACC: usize>(
    layout: &TileLayout,
    chunk: &Chunk,
    first: usize,
    count: usize,
    acts: &[u8],
    out: &mut [[f32; 16]],
) {
    let n = out.len();
    let mut t = 0;
    // SAFETY: tokens `t..t + T` are below `n`.
    unsafe {
        while t + 4 <= n {
            pass_tokens::<SIGNED, G16, ACC, 4>(layout, chunk, first, count, acts, t, &mut out[t..t + 4]);
            t += 4;
        }
        while t < n {
            pass_tokens::<SIGNED, G16, ACC, 1>(layout, chunk, first, count, acts, t, &mut out[t..t + 1]);
            t += 1;
        }
    }
}

/// For one token and chunk: the initial values of the integer sums, which subtract the zero point; the factors of the mins; and
/// the activation scales.
#[derive(Clone, Copy)]
struct Begin {
    zero: [i32; 2 * CHUNK],
    sum: [f32; 2 * CHUNK],
    d: [f32; CHUNK],
}

#[inline(always)]
unsafe fn pass_tokens<const SIGNED: bool, const G16: bool, const ACC: usize, const T: usize>(
    layout: &TileLayout,
    chunk: &Chunk,
    first: usize,
    count: usize,
    acts: &[u8],
    token: usize,
    out: &mut [[f32; 16]],
) {
    let with_min = layout.spec().min != GroupMin::None;
    let zero = zero_point(layout) - if SIGNED { 128 } else { 0 };
    let mut begin = [Begin { zero: [0; 2 * CHUNK], sum: [0.0; 2 * CHUNK], d: [0.0; CHUNK] }; T];
    let mut quants: [*const u8; T] = [std::ptr::null(); T];
    for t in 0..T {
        let act = Act::new(acts, layout.k(), token + t);
        quants[t] = act.quants[first * UNIT..(first + count) * UNIT].as_ptr();
        for slot in 0..count {
            let (s0, s1, d) = (act.sum(2 * (first + slot)), act.sum(2 * (first + slot) + 1), act.scale(first + slot));
            let sums = if G16 { [s0, s1] } else { [s0 + s1, 0] };
            for g in 0..2 {
                begin[t].zero[2 * slot + g] = -zero * sums[g];
                begin[t].sum[2 * slot + g] = d * sums[g] as f32;
            }
            begin[t].d[slot] = d;
        }
    }
    // SAFETY: AVX2 by contract; quants, scales and mins of a chunk are whole arrays; `quants[t]` is valid for reads of
    // `count` units.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        for h in 0..2 {
            let mut total = [_mm256_setzero_ps(); T];
            for t in 0..T {
                total[t] = _mm256_loadu_ps(out[t].as_ptr().add(8 * h));
            }
            for slot in 0..count {
                let w = chunk.quants[slot].as_ptr().cast::<u8>().add(32 * h);
                let groups = if G16 { 2 } else { 1 };
                for g in 0..groups {
                    let vectors = 8 / groups;
                    let mut s = [_mm256_setzero_si256(); T];
                    for t in 0..T {
                        s[t] = _mm256_set1_epi32(begin[t].zero[2 * slot + g]);
                    }
                    for block in 0..vectors / ACC {
                        let mut p = [_mm256_setzero_si256(); T];
                        for i in 0..ACC {
                            let j = g * vectors + block * ACC + i;
                            let w = _mm256_load_si256(w.add(64 * j).cast());
                            let abs = if SIGNED { _mm256_abs_epi8(w) } else { w };
                            for t in 0..T {
                                let a = quants[t].add(slot * UNIT + 4 * j).cast::<i32>().read_unaligned();
                                let a = _mm256_set1_epi32(a);
                                let a = if SIGNED { _mm256_sign_epi8(a, w) } else { a };
                                let x = _mm256_maddubs_epi16(abs, a);
                                p[t] = if i == 0 { x } else { _mm256_add_epi16(p[t], x) };
                            }
                        }
                        for t in 0..T {
                            s[t] = _mm256_add_epi32(s[t], _mm256_madd_epi16(p[t], ones));
                        }
                    }
                    let scale = _mm256_load_ps(chunk.scale[2 * slot + g].as_ptr().add(8 * h));
                    for t in 0..T {
                        let f = _mm256_mul_ps(_mm256_cvtepi32_ps(s[t]), _mm256_set1_ps(begin[t].d[slot]));
                        total[t] = _mm256_fmadd_ps(f, scale, total[t]);
                    }
                    if with_min {
                        let min = _mm256_load_ps(chunk.min[2 * slot + g].as_ptr().add(8 * h));
                        for t in 0..T {
                            let sum = _mm256_set1_ps(begin[t].sum[2 * slot + g]);
                            total[t] = _mm256_fmadd_ps(sum, min, total[t]);
                        }
                    }
                }
            }
            for t in 0..T {
                _mm256_storeu_ps(out[t].as_mut_ptr().add(8 * h), total[t]);
            }
        }
    }
}
