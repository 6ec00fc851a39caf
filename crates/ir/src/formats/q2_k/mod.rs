//! Q2_K: 256 quants of 2 bits in groups of 16, `value = d * sc * quant - m * mc`, `sc` and `mc` of 4 bits.
//!
//! Layout: 16 bytes (`sc` in the low nibble, `mc` in the high), 64 bytes of quants (4 runs of 32 in each 32 bytes), f16 `d`,
//! f16 `m`.

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q2_k";
    const GGML: u32 = 10;
    const SPEC: BlockSpec = BlockSpec {
        block: 256,
        bytes: 84,
        group: 16,
        bits: 2,
        zero: 0,
        min: GroupMin::Scaled,
        table: None,
        sub_scales: true,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 80);
        out.m = read_f16(block, 82);
        for (g, byte) in block[..16].iter().enumerate() {
            out.sc[g] = (byte & 15) as i8;
            out.mc[g] = byte >> 4;
        }
        read_planes::<2, 32, 0>(&block[16..80], &mut out.quants[..256]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 80, parts.d);
        write_f16(block, 82, parts.m);
        for (g, byte) in block[..16].iter_mut().enumerate() {
            *byte = (parts.sc[g] as u8 & 15) | (parts.mc[g] << 4);
        }
        write_planes::<2, 32, 0>(&parts.quants[..256], &mut block[16..80]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::searched_min(&Self::SPEC, 15.0, x, out);
    }
}
