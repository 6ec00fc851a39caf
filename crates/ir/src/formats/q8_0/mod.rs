//! Q8_0: 32 quants of 8 bits, `value = d * (quant - 128)`.
//!
//! Layout: f16 `d`, then 32 signed bytes. Quants are unsigned, so the sign bit is flipped on the way.

use crate::formats::bits::{read_f16, write_f16};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q8_0";
    const GGML: u32 = 8;
    const SPEC: BlockSpec = BlockSpec {
        block: 32,
        bytes: 34,
        group: 32,
        bits: 8,
        zero: 128,
        min: GroupMin::None,
        table: None,
        sub_scales: false,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 0);
        out.m = 0.0;
        out.sc = [1; MAX_GROUPS];
        out.mc = [0; MAX_GROUPS];
        for (quant, byte) in out.quants[..32].iter_mut().zip(&block[2..34]) {
            *quant = byte ^ 0x80;
        }
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        for (quant, byte) in parts.quants[..32].iter().zip(&mut block[2..34]) {
            *byte = quant ^ 0x80;
        }
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::plain_bytes(&Self::SPEC, x, out);
    }
}
