//! Q5_K: 256 quants of 5 bits in groups of 32, `value = d * sc * quant - m * mc`, `sc` and `mc` of 6 bits.
//!
//! Layout: f16 `d`, f16 `m`, 12 bytes of scales, 32 bytes with the fifth bits (8 runs of 32), 128 bytes with the low 4 bits
//! (2 runs of 32 in each 32 bytes).

use crate::formats::bits::{read_f16, read_planes, read_scale_pairs, write_f16, write_planes, write_scale_pairs};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q5_k";
    const GGML: u32 = 13;
    const SPEC: BlockSpec = BlockSpec {
        block: 256,
        bytes: 176,
        group: 32,
        bits: 5,
        zero: 0,
        min: GroupMin::Scaled,
        table: None,
        sub_scales: true,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 0);
        out.m = read_f16(block, 2);
        read_scale_pairs(&block[4..16], &mut out.sc, &mut out.mc);
        read_planes::<4, 32, 0>(&block[48..176], &mut out.quants[..256]);
        read_planes::<1, 32, 4>(&block[16..48], &mut out.quants[..256]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        write_f16(block, 2, parts.m);
        write_scale_pairs(&parts.sc, &parts.mc, &mut block[4..16]);
        write_planes::<4, 32, 0>(&parts.quants[..256], &mut block[48..176]);
        write_planes::<1, 32, 4>(&parts.quants[..256], &mut block[16..48]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::searched_min(&Self::SPEC, 63.0, x, out);
    }
}
