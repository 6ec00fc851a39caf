//! IQ4_XS: 256 quants of 4 bits through the codebook of IQ4_NL in groups of 32, `value = d * sc * table[quant]`, `sc` of 6 bits
//! minus 32.
//!
//! Layout: f16 `d`, 2 bytes with the upper 2 bits of the scales, 4 bytes with their low 4 bits, both in the order of the
//! groups, 128 bytes of quants (2 runs of 16 in each 16 bytes).

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;
use crate::formats::iq4_nl::{CODEBOOK, TABLE};

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "iq4_xs";
    const GGML: u32 = 23;
    const SPEC: BlockSpec = BlockSpec {
        block: 256,
        bytes: 136,
        group: 32,
        bits: 4,
        zero: 0,
        min: GroupMin::None,
        table: Some(&TABLE),
        sub_scales: true,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 0);
        out.m = 0.0;
        let mut scales = [0; 8];
        read_planes::<4, 1, 0>(&block[4..8], &mut scales);
        read_planes::<2, 1, 4>(&block[2..4], &mut scales);
        out.sc[..8].copy_from_slice(&scales.map(|scale| scale as i8 - 32));
        out.mc = [0; MAX_GROUPS];
        read_planes::<4, 16, 0>(&block[8..136], &mut out.quants[..256]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 0, parts.d);
        let scales = parts.sc.map(|scale| scale.wrapping_add(32) as u8);
        write_planes::<4, 1, 0>(&scales[..8], &mut block[4..8]);
        write_planes::<2, 1, 4>(&scales[..8], &mut block[2..4]);
        write_planes::<4, 16, 0>(&parts.quants[..256], &mut block[8..136]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::searched_signed(&Self::SPEC, CODEBOOK, 32.0, x, out);
    }
}
