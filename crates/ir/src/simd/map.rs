//! Elementwise kernels and reductions: plain loops, compiled and vectorized for each instruction set.
//!
//! `exp` splits `x = n ln 2 + r` with `|r| ≤ ln 2 / 2`, evaluates the Taylor polynomial of degree 7 (remainder below `6e-9`)
//! at `r` and adds `n` to the exponent. The relative error is about 2 units in the last place.

use super::lanes::{Lanes, bf16_to_f32 as convert_bf16, fma};

/// Adding and then subtracting `1.5 * 2^23` rounds to the nearest integer.
const ROUND: f32 = 12_582_912.0;
/// For smaller arguments `exp` returns 0, since the result would be subnormal.
const EXP_LOW: f32 = -87.336_54;
/// For larger arguments `exp` returns infinity: the result would be above two thirds of the largest f32.
const EXP_HIGH: f32 = 88.376_26;
/// `ln 2` as a sum of two constants; the first has 9 significant bits, so that its product with `n` is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;

#[inline(always)]
fn exp<L: Lanes>(x: f32) -> f32 {
    let high = if x > EXP_HIGH { EXP_HIGH } else { x };
    let y = if high < EXP_LOW { EXP_LOW } else { high };
    let shifted = fma::<L>(y, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<L>(n, -LN2_LOW, fma::<L>(n, -LN2_HIGH, y));
    let mut p = 1.0 / 5040.0;
    p = fma::<L>(p, r, 1.0 / 720.0);
    p = fma::<L>(p, r, 1.0 / 120.0);
    p = fma::<L>(p, r, 1.0 / 24.0);
    p = fma::<L>(p, r, 1.0 / 6.0);
    p = fma::<L>(p, r, 0.5);
    p = fma::<L>(p, r, 1.0);
    p = fma::<L>(p, r, 1.0);
    let exponent = (shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127)) << 23;
    let value = p * f32::from_bits(exponent);
    let value = if x > EXP_HIGH { f32::INFINITY } else { value };
    if x < EXP_LOW { 0.0 } else { value }
}

#[inline(always)]
fn sigmoid_of<L: Lanes>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<L>(-x))
}

#[inline(always)]
fn silu_of<L: Lanes>(x: f32) -> f32 {
    x / (1.0 + exp::<L>(-x))
}

/// GELU with tanh, by `(1 + tanh(u)) / 2 = sigmoid(2u)`: unlike tanh, the sigmoid needs no clamp of its argument.
#[inline(always)]
fn gelu_of<L: Lanes>(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let u = SQRT_2_OVER_PI * x * fma::<L>(0.044_715 * x, x, 1.0);
    x / (1.0 + exp::<L>(-2.0 * u))
}

/// Uses an odd polynomial up to 0.625, where the exponential form would suffer cancellation, and that form beyond.
#[inline(always)]
fn tanh_of<L: Lanes>(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    let mut p = -5.704_988_7e-3;
    p = fma::<L>(p, s, 2.063_909e-2);
    p = fma::<L>(p, s, -5.373_971_5e-2);
    p = fma::<L>(p, s, 1.333_144_2e-1);
    p = fma::<L>(p, s, -3.333_328e-1);
    let near = fma::<L>(p * s, x, x);
    let far = (1.0 - 2.0 / (1.0 + exp::<L>(2.0 * a))).copysign(x);
    if a < 0.625 { near } else { far }
}

/// See [`super::Simd::rms_norm`]. The sum of squares is accumulated in 32 partial sums.
#[inline(always)]
pub(super) unsafe fn rms_norm<L: Lanes>(x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    let mut sums = [0.0f32; 32];
    let chunks = x.chunks_exact(32);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..32 {
            sums[i] = fma::<L>(chunk[i], chunk[i], sums[i]);
        }
    }
    for (i, x) in rest.iter().enumerate() {
        sums[i] = fma::<L>(*x, *x, sums[i]);
    }
    let mean = total(&mut sums) / x.len().max(1) as f32;
    let factor = 1.0 / (mean + eps).sqrt();
    match weight {
        Some(w) => {
            assert_eq!(x.len(), w.len(), "input and weight differ in length");
            for i in 0..x.len() {
                out[i] = x[i] * factor * w[i];
            }
        }
        None => {
            for i in 0..x.len() {
                out[i] = x[i] * factor;
            }
        }
    }
}

/// Adds up partial sums pairwise.
#[inline(always)]
fn total(sums: &mut [f32; 32]) -> f32 {
    let mut half = 16;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

/// See [`super::Simd::softmax_exp`].
#[inline(always)]
pub(super) unsafe fn softmax_exp<L: Lanes>(x: &mut [f32], max: f32) -> f32 {
    // If all elements are masked, 0 is subtracted: exp(-inf - 0) is 0, while -inf - -inf would be NaN.
    let max = if max == f32::NEG_INFINITY { 0.0 } else { max };
    let mut sums = [0.0f32; 32];
    let mut chunks = x.chunks_exact_mut(32);
    for chunk in &mut chunks {
        for i in 0..32 {
            chunk[i] = exp::<L>(chunk[i] - max);
            sums[i] += chunk[i];
        }
    }
    for (i, x) in chunks.into_remainder().iter_mut().enumerate() {
        *x = exp::<L>(*x - max);
        sums[i] += *x;
    }
    total(&mut sums)
}

/// See [`super::Simd::max`].
#[inline(always)]
pub(super) unsafe fn max(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 32];
    let chunks = x.chunks_exact(32);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..32 {
            lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = if *x > *lane { *x } else { *lane };
    }
    lanes.iter().fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
}

/// Defines elementwise functions of two inputs, `$f(a, b)`.
macro_rules! zips {
    ($($(#[$doc:meta])* $name:ident $(<$l:ident>)? |$a:ident, $b:ident| $f:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) unsafe fn $name $(<$l: Lanes>)? (a: &[f32], b: &[f32], out: &mut [f32]) {
            assert!(a.len() == out.len() && b.len() == out.len(), "inputs and output differ in length");
            for i in 0..out.len() {
                let ($a, $b) = (a[i], b[i]);
                out[i] = $f;
            }
        }
    )*};
}

zips! {
    /// See [`super::Simd::silu_mul`].
    silu_mul<L> |g, u| silu_of::<L>(g) * u;
    /// See [`super::Simd::gelu_tanh_mul`].
    gelu_tanh_mul<L> |g, u| gelu_of::<L>(g) * u;
    /// See [`super::Simd::add`].
    add |x, y| x + y;
    /// See [`super::Simd::mul`].
    mul |x, y| x * y;
}

/// Defines elementwise functions that work in place.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident = $f:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) unsafe fn $name<L: Lanes>(x: &mut [f32]) {
            for x in x.iter_mut() {
                *x = $f::<L>(*x);
            }
        }
    )*};
}

maps! {
    /// See [`super::Simd::silu`].
    silu = silu_of;
    /// See [`super::Simd::gelu_tanh`].
    gelu_tanh = gelu_of;
    /// See [`super::Simd::sigmoid`].
    sigmoid = sigmoid_of;
    /// See [`super::Simd::tanh`].
    tanh = tanh_of;
}

/// See [`super::Simd::scale_add`].
#[inline(always)]
pub(super) unsafe fn scale_add<L: Lanes>(s: f32, x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    for i in 0..out.len() {
        out[i] = fma::<L>(s, x[i], out[i]);
    }
}

/// See [`super::Simd::rank1`].
#[inline(always)]
pub(super) unsafe fn rank1<L: Lanes>(decay: f32, a: &[f32], b: &[f32], out: &mut [f32]) {
    assert_eq!(a.len() * b.len(), out.len(), "a, b and the output do not fit together");
    for (a, row) in a.iter().zip(out.chunks_exact_mut(b.len().max(1))) {
        for i in 0..row.len() {
            row[i] = fma::<L>(*a, b[i], decay * row[i]);
        }
    }
}

/// See [`super::Simd::f32_to_f16`].
#[inline(always)]
pub(super) unsafe fn f32_to_f16<L: Lanes>(x: &[f32], out: &mut [u16]) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    let whole = x.len() / L::N * L::N;
    for i in (0..whole).step_by(L::N) {
        // SAFETY: `i + N` is within both slices.
        unsafe { L::store_f16(out.as_mut_ptr().add(i), L::load(x.as_ptr().add(i))) };
    }
    let rest = x.len() - whole;
    let (mut wide, mut narrow) = ([0.0f32; 16], [0u16; 16]);
    wide[..rest].copy_from_slice(&x[whole..]);
    // SAFETY: both arrays hold the lanes of the widest vector.
    unsafe { L::store_f16(narrow.as_mut_ptr(), L::load(wide.as_ptr())) };
    out[whole..].copy_from_slice(&narrow[..rest]);
}

/// See [`super::Simd::f16_to_f32`].
#[inline(always)]
pub(super) unsafe fn f16_to_f32<L: Lanes>(x: &[u16], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    let whole = x.len() / L::N * L::N;
    for i in (0..whole).step_by(L::N) {
        // SAFETY: `i + N` is within both slices.
        unsafe { L::store(out.as_mut_ptr().add(i), L::load_f16(x.as_ptr().add(i))) };
    }
    let rest = x.len() - whole;
    let (mut narrow, mut wide) = ([0u16; 16], [0.0f32; 16]);
    narrow[..rest].copy_from_slice(&x[whole..]);
    // SAFETY: both arrays hold the lanes of the widest vector.
    unsafe { L::store(wide.as_mut_ptr(), L::load_f16(narrow.as_ptr())) };
    out[whole..].copy_from_slice(&wide[..rest]);
}

/// See [`super::Simd::bf16_to_f32`].
#[inline(always)]
pub(super) unsafe fn bf16_to_f32(x: &[u16], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    for (out, x) in out.iter_mut().zip(x) {
        *out = convert_bf16(*x);
    }
}
