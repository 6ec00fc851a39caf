//! [`Lanes`] for AVX2 and AVX-512.

use super::lanes::Lanes;
use std::arch::x86_64::*;

/// Eight lanes; needs AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Sixteen lanes; needs AVX-512 F, BW, VL and DQ, and the extensions of [`Avx2`].
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// A mask of eight lanes with the first `n` set.
#[inline(always)]
unsafe fn mask8(n: usize) -> __m256i {
    // SAFETY: AVX2 by contract of the callers.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// For each of four vectors of four lanes, the sum of its lanes.
#[inline(always)]
unsafe fn sum4x4(v: [__m128; 4]) -> [f32; 4] {
    // SAFETY: AVX2 implies SSE3; `[f32; 4]` and `__m128` have the same size.
    unsafe {
        let sums = _mm_hadd_ps(_mm_hadd_ps(v[0], v[1]), _mm_hadd_ps(v[2], v[3]));
        std::mem::transmute::<__m128, [f32; 4]>(sums)
    }
}

#[inline(always)]
unsafe fn fold8(v: __m256) -> __m128 {
    // SAFETY: AVX by contract of the callers.
    unsafe { _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v)) }
}

#[inline(always)]
unsafe fn fold16(v: __m512) -> __m256 {
    // SAFETY: AVX-512 F and DQ by contract of the callers.
    unsafe { _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v)) }
}

/// Defines functions of [`Lanes`]; the body of each may rely on the trait's contract.
macro_rules! lanes {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? { $($body:tt)* })*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: by the trait's contract the features are present and pointers are valid for the elements that are read or
            // written. Loads and stores are unaligned, and masked where fewer than `N` elements are valid.
            unsafe { $($body)* }
        }
    )*};
}

impl Lanes for Avx2 {
    const N: usize = 8;
    const ROWS: usize = 4;
    const FMA: bool = true;
    type V = __m256;

    lanes! {
        fn splat(x: f32) -> __m256 {
            _mm256_set1_ps(x)
        }
        fn load(p: *const f32) -> __m256 {
            _mm256_loadu_ps(p)
        }
        fn load_part(p: *const f32, n: usize) -> __m256 {
            _mm256_maskload_ps(p, mask8(n))
        }
        fn store(p: *mut f32, v: __m256) {
            _mm256_storeu_ps(p, v)
        }
        fn store_part(p: *mut f32, v: __m256, n: usize) {
            _mm256_maskstore_ps(p, mask8(n), v)
        }
        fn load_f16(p: *const u16) -> __m256 {
            _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
        }
        fn load_bf16(p: *const u16) -> __m256 {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
        }
        fn store_f16(p: *mut u16, v: __m256) {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
        }
        fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        fn sum(v: __m256) -> f32 {
            let v = fold8(v);
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
        }
        fn prefetch(p: *const u8) {
            _mm_prefetch::<_MM_HINT_T1>(p.cast())
        }
        fn sum4(v: [__m256; 4]) -> [f32; 4] {
            sum4x4([fold8(v[0]), fold8(v[1]), fold8(v[2]), fold8(v[3])])
        }
    }
}

impl Lanes for Avx512 {
    const N: usize = 16;
    const ROWS: usize = 6;
    const FMA: bool = true;
    type V = __m512;

    lanes! {
        fn splat(x: f32) -> __m512 {
            _mm512_set1_ps(x)
        }
        fn load(p: *const f32) -> __m512 {
            _mm512_loadu_ps(p)
        }
        fn load_part(p: *const f32, n: usize) -> __m512 {
            _mm512_maskz_loadu_ps((1u32 << n).wrapping_sub(1) as u16, p)
        }
        fn store(p: *mut f32, v: __m512) {
            _mm512_storeu_ps(p, v)
        }
        fn store_part(p: *mut f32, v: __m512, n: usize) {
            _mm512_mask_storeu_ps(p, (1u32 << n).wrapping_sub(1) as u16, v)
        }
        fn load_f16(p: *const u16) -> __m512 {
            _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
        }
        fn load_bf16(p: *const u16) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
        }
        fn store_f16(p: *mut u16, v: __m512) {
            _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
        }
        fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        fn sum(v: __m512) -> f32 {
            Avx2::sum(fold16(v))
        }
        fn prefetch(p: *const u8) {
            _mm_prefetch::<_MM_HINT_T1>(p.cast())
        }
        fn sum4(v: [__m512; 4]) -> [f32; 4] {
            Avx2::sum4([fold16(v[0]), fold16(v[1]), fold16(v[2]), fold16(v[3])])
        }
    }
}
