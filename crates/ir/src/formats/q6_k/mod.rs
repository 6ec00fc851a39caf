//! Q6_K: 256 quants of 6 bits in groups of 16, `value = d * sc * (quant - 32)`, `sc` a signed byte.
//!
//! Layout: 128 bytes with the low 4 bits (2 runs of 64 in each 64 bytes), 64 bytes with the upper 2 bits (4 runs of 32 in
//! each 32 bytes), 16 scales, f16 `d`.

use crate::formats::bits::{read_f16, read_planes, write_f16, write_planes};
use crate::formats::block::{BlockFormat, BlockSpec, GroupMin, MAX_GROUPS, ScaleKind, Unpacked};
use crate::formats::fit;

pub struct Format;

impl BlockFormat for Format {
    const NAME: &'static str = "q6_k";
    const GGML: u32 = 14;
    const SPEC: BlockSpec = BlockSpec {
        block: 256,
        bytes: 210,
        group: 16,
        bits: 6,
        zero: 32,
        min: GroupMin::None,
        table: None,
        sub_scales: true,
        scale: ScaleKind::F16,
    };

    #[inline(always)]
    fn unpack(block: &[u8], out: &mut Unpacked) {
        out.d = read_f16(block, 208);
        out.m = 0.0;
        for (sc, byte) in out.sc.iter_mut().zip(&block[192..208]) {
            *sc = *byte as i8;
        }
        out.mc = [0; MAX_GROUPS];
        read_planes::<4, 64, 0>(&block[0..128], &mut out.quants[..256]);
        read_planes::<2, 32, 4>(&block[128..192], &mut out.quants[..256]);
    }

    fn pack(parts: &Unpacked, block: &mut [u8]) {
        write_f16(block, 208, parts.d);
        for (sc, byte) in parts.sc.iter().zip(&mut block[192..208]) {
            *byte = *sc as u8;
        }
        write_planes::<4, 64, 0>(&parts.quants[..256], &mut block[0..128]);
        write_planes::<2, 32, 4>(&parts.quants[..256], &mut block[128..192]);
    }

    fn fit(x: &[f32], out: &mut Unpacked) {
        fit::searched_signed(&Self::SPEC, fit::Quants::Even { zero: 32.0 }, 128.0, x, out);
    }
}
