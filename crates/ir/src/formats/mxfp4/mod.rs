//! MXFP4 (OCP microscaling formats): 32 elements of 4 bits (E2M1) with a power of two as their scale,
//! `value = d * table[quant]`. The table holds doubled E2M1 values, which are integers, and `d` is half the scale.
//!
//! Layout: 1 byte E8M0 (`d = 2^(e - 128)`), then 16 bytes of quants (elements 0–15 in the low nibbles, 16–31 in the high).
//! Values from 2^128 on are infinite, as in the `gguf` package.

use crate::formats::bits::{read_half_e8m0, read_planes, write_half_e8m0, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "mxfp4";
    const GGML: u32 = 39;
    const SPEC: BlockSpec = BlockSpec {
        block: 32,
        bytes: 17,
        group: 32,
        bits: 4,
        zero: 0,
        min: GroupMin::None,
        table: Some(&TABLE),
        sub_scales: false,
        scale: ScaleKind::E8M0,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_half_e8m0(block, 0);
        out.m = 0.0;
        out.sc = [1; MAX_GROUPS];
        out.mc = [0; MAX_GROUPS];
        read_planes::<4, 16, 0>(&block[1..17], &mut out.quants[..32]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_half_e8m0(block, 0, parts.d);
        write_planes::<4, 16, 0>(&parts.quants[..32], &mut block[1..17]);
    }

    /// The rule of the OCP specification and of the `gguf` package. The scale is chosen so that the largest magnitude has
    /// E2M1's highest exponent: it lies from 4 to 8 and is clamped above 6. Then each element is rounded to the nearest E2M1
    /// value, and of two equally near ones to the smaller.
    fn fit(x: &[f32], out: &mut Unpacked) {
        (out.m, out.sc, out.mc) = (0.0, [1; MAX_GROUPS], [0; MAX_GROUPS]);
        let largest = x.iter().fold(0.0, |a: f32, x| a.max(x.abs()));
        // Computed in f32, as in the package: just below a power of two the logarithm is rounded up to that power.
        let exponent = f64::from(largest).log2() as f32;
        let e = if largest > 0.0 { (exponent.floor() + 125.0) as u8 } else { 0 };
        out.d = read_half_e8m0(&[e], 0);
        for (quant, x) in out.quants.iter_mut().zip(x) {
            let (mut best, mut least) = (0, f32::INFINITY);
            for (code, number) in (0..8).zip(&TABLE) {
                let error = (out.d * f32::from(*number) - x.abs()).abs();
                (best, least) = if error < least { (code, error) } else { (best, least) };
            }
            *quant = if *x < 0.0 && best > 0 { best | 8 } else { best };
        }
    }
}

/// Twice the values of E2M1; negative zero is zero.
static TABLE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
