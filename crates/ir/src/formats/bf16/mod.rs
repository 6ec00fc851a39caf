//! BF16: the upper 16 bits of an f32; f32 values round to the nearest, ties to even, NaNs become quiet.

use crate::formats::block::{BlockSpec, FormatDef, Unpacked};

pub struct Format;

impl FormatDef for Format {
    fn name(&self) -> &'static str {
        "bf16"
    }
    fn ggml(&self) -> u32 {
        30
    }
    fn block(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        2
    }
    fn spec(&self) -> Option<BlockSpec> {
        None
    }
    fn unpack(&self, _: &[u8], _: &mut Unpacked) {}
    fn pack(&self, _: &Unpacked, _: &mut [u8]) {}
    fn dequantize(&self, stored: &[u8], out: &mut [f32]) {
        for (out, bytes) in out.iter_mut().zip(stored.as_chunks::<2>().0) {
            *out = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
        }
    }
    fn quantize(&self, x: &[f32], out: &mut [u8]) {
        for (out, x) in out.as_chunks_mut::<2>().0.iter_mut().zip(x) {
            let bits = x.to_bits();
            // Without the quiet bit a NaN with a low payload would become an infinity.
            let bits = if x.is_nan() { bits | 0x0040_0000 } else { bits + 0x7fff + ((bits >> 16) & 1) };
            *out = ((bits >> 16) as u16).to_le_bytes();
        }
    }
}
