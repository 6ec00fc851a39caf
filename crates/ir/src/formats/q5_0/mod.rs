//! Q5_0: 32 quants of 5 bits, `value = d * (quant - 16)`.
//!
//! Layout: f16 `d`, 4 bytes with the fifth bits in the order of the elements, then 16 bytes with the low 4 bits as in Q4_0.

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q5_0";
    const GGML: u32 = 6;
    const SPEC: BlockSpec = BlockSpec {
        block: 32,
        bytes: 22,
        group: 32,
        bits: 5,
        zero: 16,
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
        read_planes::<4, 16, 0>(&block[6..22], &mut out.quants[..32]);
        read_planes::<1, 1, 4>(&block[2..6], &mut out.quants[..32]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        write_planes::<4, 16, 0>(&parts.quants[..32], &mut block[6..22]);
        write_planes::<1, 1, 4>(&parts.quants[..32], &mut block[2..6]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::plain_signed(&Self::SPEC, x, out);
    }
}
