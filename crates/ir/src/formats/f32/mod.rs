//! F32: little-endian single precision, kept bit for bit.

use crate::formats::block::{BlockSpec, FormatDef, Unpacked};

pub struct Format;

impl FormatDef for Format {
    fn name(&self) -> &'static str {
        "f32"
    }
    fn ggml(&self) -> u32 {
        0
    }
    fn block(&self) -> usize {
        1
    }
    fn block_bytes(&self) -> usize {
        4
    }
    fn spec(&self) -> Option<BlockSpec> {
        None
    }
    fn unpack(&self, _: &[u8], _: &mut Unpacked) {}
    fn pack(&self, _: &Unpacked, _: &mut [u8]) {}
    fn dequantize(&self, stored: &[u8], out: &mut [f32]) {
        for (out, bytes) in out.iter_mut().zip(stored.as_chunks::<4>().0) {
            *out = f32::from_le_bytes(*bytes);
        }
    }
    fn quantize(&self, x: &[f32], out: &mut [u8]) {
        for (out, x) in out.as_chunks_mut::<4>().0.iter_mut().zip(x) {
            *out = x.to_le_bytes();
        }
    }
}
