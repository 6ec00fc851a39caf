//! Q4_0: 32 quants of 4 bits, `value = d * (quant - 8)`.
//!
//! Layout: f16 `d`, then 16 bytes of quants (elements 0–15 in the low nibbles, 16–31 in the high).

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q4_0";
    const GGML: u32 = 2;
    const SPEC: BlockSpec = BlockSpec {
        block: 32,
        bytes: 18,
        group: 32,
        bits: 4,
        zero: 8,
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
        read_planes::<4, 16, 0>(&block[2..18], &mut out.quants[..32]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        write_planes::<4, 16, 0>(&parts.quants[..32], &mut block[2..18]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::plain_signed(&Self::SPEC, x, out);
    }
}
