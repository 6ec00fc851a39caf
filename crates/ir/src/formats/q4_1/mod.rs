//! Q4_1: 32 quants of 4 bits, `value = d * quant + m`.
//!
//! Layout: f16 `d`, f16 `m`, then 16 bytes of quants (elements 0–15 in the low nibbles, 16–31 in the high).

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q4_1";
    const GGML: u32 = 3;
    const SPEC: BlockSpec = BlockSpec {
        block: 32,
        bytes: 20,
        group: 32,
        bits: 4,
        zero: 0,
        min: GroupMin::Plain,
        table: None,
        sub_scales: false,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 0);
        out.m = read_f16(block, 2);
        out.sc = [1; MAX_GROUPS];
        out.mc = [0; MAX_GROUPS];
        read_planes::<4, 16, 0>(&block[4..20], &mut out.quants[..32]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        write_f16(block, 2, parts.m);
        write_planes::<4, 16, 0>(&parts.quants[..32], &mut block[4..20]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::plain_min(&Self::SPEC, x, out);
    }
}
