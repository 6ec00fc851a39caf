//! Vector kernels of the CPU, one table of functions for each instruction set.
//!
//! [`simd`] returns a [`Simd`] only if the processor supports the instructions of its functions. The functions
//! themselves are safe, since each checks the lengths of its slices first. This module and the memory-map readers are the
//! only places with `unsafe`.
//!
//! There are two kinds of matrix product. Quantized weights in tiles ([`crate::formats::tile`]) are multiplied with
//! activations quantized to int8 ([`q8`]): the integer sums of each scale group are exact and equal on every instruction
//! set, and scales may be of either [`crate::formats::block::ScaleKind`]. Float weights (F32, F16, BF16) are multiplied with
//! f32 activations and accumulated in f32. Code that is the same on all instruction sets is written once, over a small
//! vector type ([`lanes`]) or as loops that the compiler vectorizes for each set ([`map`]).

// Kernels walk several arrays in lockstep, which an index expresses more plainly than nested zips.
#![allow(clippy::needless_range_loop)]

mod floats;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod map;
pub mod q8;
#[cfg(target_arch = "x86_64")]
mod q8_avx512;
#[cfg(target_arch = "x86_64")]
mod tile_avx2;
#[cfg(target_arch = "x86_64")]
mod tile_avx512;
mod tile_portable;
mod tile_shared;

#[cfg(test)]
mod tests_float;
#[cfg(test)]
mod tests_map;
#[cfg(test)]
mod tests_tile;

use crate::formats::tile::TileLayout;
pub use floats::{DotRows, FloatKind, Mix};
pub use q8::{Q8Rows, q8_row_bytes};

/// The instruction sets that have their own tables of kernels, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Only the instructions that the compilation target guarantees: runs on every processor.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI, and the extensions of [`Isa::Avx2`].
    Avx512,
}

impl Isa {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The strongest instruction set that this processor supports.
    pub fn detect() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::Portable)
    }

    /// All instruction sets that this processor supports, weakest first; [`Isa::Portable`] is always among them.
    pub fn available() -> &'static [Isa] {
        const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        let count = if !has_avx2() {
            1
        } else if !has_avx512() {
            2
        } else {
            3
        };
        &ALL[..count]
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vnni")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

impl Simd {
    /// Name of the instruction set on the command line.
    pub fn name(&self) -> &'static str {
        self.isa.name()
    }
}

/// Quantizes activations; see [`Simd::quantize_q8`].
pub type QuantizeQ8 = fn(&[f32], &mut [u8]);
/// The 16 rows of a tile times the activations of some tokens; see [`Simd::dot_tile`].
pub type DotTile = fn(&TileLayout, &[u8], &[u8], usize, &mut [[f32; 16]]);
/// Dot products of packed rows with one query; see [`Simd::scores`].
pub type Scores = fn(FloatKind, &[u8], usize, usize, &[f32], f32, &mut [f32]);
/// Weighted sum of packed rows; see [`Simd::mix1`].
pub type Mix1 = fn(FloatKind, &[u8], usize, usize, &[f32], &mut [f32]);
/// Root-mean-square norm of a row; see [`Simd::rms_norm`].
pub type RmsNorm = fn(&[f32], Option<&[f32]>, f32, &mut [f32]);
/// An elementwise function, in place.
pub type Map = fn(&mut [f32]);
/// An elementwise function of two inputs: `(a, b, out)`.
pub type Zip = fn(&[f32], &[f32], &mut [f32]);

/// The kernels of one instruction set. All of them panic, with a message, if the lengths of their slices do not match.
pub struct Simd {
    /// The instruction set.
    pub isa: Isa,
    /// `quantize_q8(x, out)`: activation quantization of one row to int8 in the layout of [`q8`]. `x.len()` is a multiple of
    /// 32, `out` is [`q8_row_bytes`] long. The result is bitwise the same on every instruction set.
    pub quantize_q8: QuantizeQ8,
    /// `dot_tile(layout, tile, acts, n, out)`: `out[t][r]` = row `r` of the tile · token `t`, for the `n` quantized rows
    /// in `acts`, which are [`q8_row_bytes`] apart. Overwrites `out[..n]`.
    pub dot_tile: DotTile,
    /// `dot_rows(operands, out, out_stride)`: `out[t * out_stride + r]` = row `r` · token `t`, in f32.
    pub dot_rows: fn(&DotRows, &mut [f32], usize),
    /// `mix(operands, out, out_stride)`: `out[m × d] += p[m × n] · v[n × d]`.
    pub mix: fn(&Mix, &mut [f32], usize),
    /// `scores(kind, k_rows, n, dim, q, scale, out)`: `out[i] = scale * (row i · q)` for `n` packed rows of `dim`.
    pub scores: Scores,
    /// `mix1(kind, v_rows, n, dim, p, out)`: `out[j] += sum_i p[i] * v[i][j]` for `n` packed rows of `dim`.
    pub mix1: Mix1,
    /// `transpose(kind, rows, n, dim, out, out_stride)`: `out[j * out_stride + i] = rows[i][j]`, converted to f32:
    /// transposed keys, with which [`Simd::mix`] computes the attention scores of many queries.
    pub transpose: fn(FloatKind, &[u8], usize, usize, &mut [f32], usize),
    /// `rms_norm(x, weight, eps, out)`: `x / sqrt(mean(x^2) + eps)`, times `weight` if there is one.
    pub rms_norm: RmsNorm,
    /// `softmax_exp(x, max)`: `x = exp(x - max)` in place, returns the sum. `max` is the largest element of `x`; with
    /// `max = -inf` (all masked) every element becomes 0.
    pub softmax_exp: fn(&mut [f32], f32) -> f32,
    /// Largest element of `x`, `-inf` if empty. NaNs are ignored.
    pub max: fn(&[f32]) -> f32,
    /// `silu_mul(g, u, out)`: `out = silu(g) * u`.
    pub silu_mul: Zip,
    /// `gelu_tanh_mul(g, u, out)`: `out = gelu_tanh(g) * u`.
    pub gelu_tanh_mul: Zip,
    /// `add(a, b, out)`: `out = a + b`.
    pub add: Zip,
    /// `mul(a, b, out)`: `out = a * b`.
    pub mul: Zip,
    /// `scale_add(s, x, out)`: `out += s * x`.
    pub scale_add: fn(f32, &[f32], &mut [f32]),
    /// `rank1(decay, a, b, out)`: `out[i][j] = decay * out[i][j] + a[i] * b[j]`, row-major.
    pub rank1: fn(f32, &[f32], &[f32], &mut [f32]),
    /// `x / (1 + exp(-x))` in place.
    pub silu: Map,
    /// `x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` in place.
    pub gelu_tanh: Map,
    /// `1 / (1 + exp(-x))` in place.
    pub sigmoid: Map,
    /// Hyperbolic tangent in place.
    pub tanh: Map,
    /// Rounds f32 to f16, ties to even.
    pub f32_to_f16: fn(&[f32], &mut [u16]),
    /// Converts f16 to f32, exactly.
    pub f16_to_f32: fn(&[u16], &mut [f32]),
    /// Converts bfloat16 to f32, exactly.
    pub bf16_to_f32: fn(&[u16], &mut [f32]),
}

/// The kernels of `isa`.
///
/// # Panics
/// If this processor lacks `isa`: choose from [`Isa::available`].
pub fn simd(isa: Isa) -> &'static Simd {
    assert!(Isa::available().contains(&isa), "this processor has no {}; choose from Isa::available()", isa.name());
    match isa {
        Isa::Portable => &portable::TABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::TABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::TABLE,
        #[cfg(not(target_arch = "x86_64"))]
        _ => &portable::TABLE,
    }
}

/// Makes one table: every generic kernel compiled for one instruction set. `$features` are the attributes with the
/// target features that the compiler may use; `$lanes` is the vector type; `$tile` and `$quantize` are the modules with
/// the integer kernels.
macro_rules! simd_table {
    ($module:ident, $isa:expr, $lanes:ty, $tile:ident, $quantize:ident, $features:tt) => {
        mod $module {
            use super::*;

            simd_table!($isa, $features,
                quantize_q8(x: &[f32], out: &mut [u8]) = $quantize::quantize;
                dot_tile(l: &TileLayout, t: &[u8], a: &[u8], n: usize, out: &mut [[f32; 16]]) = $tile::dot_tile;
                dot_rows(o: &DotRows, out: &mut [f32], stride: usize) = floats::dot_rows::<$lanes>;
                mix(o: &Mix, out: &mut [f32], stride: usize) = floats::mix::<$lanes>;
                scores(kind: FloatKind, rows: &[u8], n: usize, dim: usize, q: &[f32], s: f32, out: &mut [f32])
                    = floats::scores::<$lanes>;
                mix1(kind: FloatKind, rows: &[u8], n: usize, dim: usize, p: &[f32], out: &mut [f32])
                    = floats::mix1::<$lanes>;
                transpose(kind: FloatKind, rows: &[u8], n: usize, dim: usize, out: &mut [f32], stride: usize)
                    = floats::transpose::<$lanes>;
                rms_norm(x: &[f32], w: Option<&[f32]>, eps: f32, out: &mut [f32]) = map::rms_norm::<$lanes>;
                softmax_exp(x: &mut [f32], max: f32) -> f32 = map::softmax_exp::<$lanes>;
                max(x: &[f32]) -> f32 = map::max;
                silu_mul(g: &[f32], u: &[f32], out: &mut [f32]) = map::silu_mul::<$lanes>;
                gelu_tanh_mul(g: &[f32], u: &[f32], out: &mut [f32]) = map::gelu_tanh_mul::<$lanes>;
                add(a: &[f32], b: &[f32], out: &mut [f32]) = map::add;
                mul(a: &[f32], b: &[f32], out: &mut [f32]) = map::mul;
                scale_add(s: f32, x: &[f32], out: &mut [f32]) = map::scale_add::<$lanes>;
                rank1(decay: f32, a: &[f32], b: &[f32], out: &mut [f32]) = map::rank1::<$lanes>;
                silu(x: &mut [f32]) = map::silu::<$lanes>;
                gelu_tanh(x: &mut [f32]) = map::gelu_tanh::<$lanes>;
                sigmoid(x: &mut [f32]) = map::sigmoid::<$lanes>;
                tanh(x: &mut [f32]) = map::tanh::<$lanes>;
                f32_to_f16(x: &[f32], out: &mut [u16]) = map::f32_to_f16::<$lanes>;
                f16_to_f32(x: &[u16], out: &mut [f32]) = map::f16_to_f32::<$lanes>;
                bf16_to_f32(x: &[u16], out: &mut [f32]) = map::bf16_to_f32;
            );
        }
    };
    ($isa:expr, $features:tt,
        $($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $body:expr;)*) => {
        $(simd_table!(@entry $features $name($($arg: $ty),*) $(-> $ret)? = $body);)*
        /// Only [`simd`] returns this table, after it has detected the features.
        pub(super) static TABLE: Simd = Simd { isa: $isa, $($name),* };
    };
    (@entry [$($features:meta),*] $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $body:expr) => {
        fn $name($($arg: $ty),*) $(-> $ret)? {
            $(#[$features])*
            unsafe fn with_features($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller guarantees the features; the body checks its slices.
                unsafe { $body($($arg),*) }
            }
            // SAFETY: reachable only through `TABLE`, which `simd` returns only where the processor has the features.
            unsafe { with_features($($arg),*) }
        }
    };
}

simd_table!(portable, Isa::Portable, lanes::Portable, tile_portable, q8, []);
#[cfg(target_arch = "x86_64")]
simd_table!(avx2, Isa::Avx2, lanes_x86::Avx2, tile_avx2, q8, [target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
simd_table!(
    avx512,
    Isa::Avx512,
    lanes_x86::Avx512,
    tile_avx512,
    q8_avx512,
    [target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
);
