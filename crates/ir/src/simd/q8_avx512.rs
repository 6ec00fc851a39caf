//! [`super::q8::quantize`] with AVX-512. The arithmetic is the same, so the result is bitwise equal.

use super::q8::{TINY, at_scales, at_sums, check_quantize};
use std::arch::x86_64::*;

/// See [`super::Simd::quantize_q8`]. A block of 32 columns is two vectors.
///
/// 1: the plain loops compiled for AVX-512 quantized 1.5 G elements/s. 2: this version with intrinsics quantizes
/// 3.5 G elements/s (AMD EPYC Zen 4, 2 cores, 2026-11-29).
#[inline(always)]
pub(super) unsafe fn quantize(x: &[f32], out: &mut [u8]) {
    check_quantize(x, out);
    let k = x.len();
    // SAFETY: the caller guarantees the features; block `b` is inside `x` and inside each of the three parts of `out`.
    unsafe {
        let out = out.as_mut_ptr();
        let (scales, sums) = (out.add(at_scales(k)).cast::<f32>(), out.add(at_sums(k)).cast::<i32>());
        let magnitude = _mm512_set1_epi32(0x7fff_ffff);
        for b in 0..k / 32 {
            let (x0, x1) = (_mm512_loadu_ps(x.as_ptr().add(32 * b)), _mm512_loadu_ps(x.as_ptr().add(32 * b + 16)));
            let a0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
            let a1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
            let most = _mm512_reduce_max_epu32(_mm512_max_epu32(a0, a1));
            let max = f32::from_bits(most);
            let (d, inverse) = if most >= 0x7f80_0000 {
                (f32::NAN, 0.0)
            } else if max < TINY {
                (0.0, 0.0)
            } else {
                (max / 127.0, 127.0 / max)
            };
            scales.add(b).write_unaligned(d);
            // Infinity times 0 is NaN, which would become a quant: the quants of a block without a finite, nonzero scale are
            // masked to zero.
            let keep = if inverse == 0.0 { 0 } else { !0 };
            let inverse = _mm512_set1_ps(inverse);
            let q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, inverse));
            let q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, inverse));
            _mm_storeu_si128(out.add(32 * b).cast(), _mm512_cvtepi32_epi8(q0));
            _mm_storeu_si128(out.add(32 * b + 16).cast(), _mm512_cvtepi32_epi8(q1));
            sums.add(2 * b).write_unaligned(_mm512_reduce_add_epi32(q0));
            sums.add(2 * b + 1).write_unaligned(_mm512_reduce_add_epi32(q1));
        }
    }
}
