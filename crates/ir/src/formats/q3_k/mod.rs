//! Q3_K: 256 quants of 3 bits in groups of 16, `value = d * sc * (quant - 4)`, `sc` of 6 bits minus 32.
//!
//! Layout: 32 bytes with the third bits (8 runs of 32), 64 bytes with the low 2 bits (4 runs of 32 in each 32 bytes),
//! 12 bytes of scales (8 with the low nibbles, 4 with the upper 2 bits), f16 `d`.

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q3_k";
    const GGML: u32 = 11;
    const SPEC: BlockSpec = BlockSpec {
        block: 256,
        bytes: 110,
        group: 16,
        bits: 3,
        zero: 4,
        min: GroupMin::None,
        table: None,
        sub_scales: true,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 108);
        out.m = 0.0;
        let mut scales = [0; MAX_GROUPS];
        read_planes::<4, 8, 0>(&block[96..104], &mut scales);
        read_planes::<2, 4, 4>(&block[104..108], &mut scales);
        out.sc = scales.map(|scale| scale as i8 - 32);
        out.mc = [0; MAX_GROUPS];
        read_planes::<2, 32, 0>(&block[32..96], &mut out.quants[..256]);
        read_planes::<1, 32, 2>(&block[0..32], &mut out.quants[..256]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 108, parts.d);
        let scales = parts.sc.map(|scale| scale.wrapping_add(32) as u8);
        write_planes::<4, 8, 0>(&scales, &mut block[96..104]);
        write_planes::<2, 4, 4>(&scales, &mut block[104..108]);
        write_planes::<2, 32, 0>(&parts.quants[..256], &mut block[32..96]);
        write_planes::<1, 32, 2>(&parts.quants[..256], &mut block[0..32]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::searched_signed(&Self::SPEC, fit::Quants::Even { zero: 4.0 }, 32.0, x, out);
    }
}
