//! F16: little-endian half precision; f32 values round to the nearest, ties to even.

use crate::formats::block::{BlockSpec, FormatDef, Unpacked};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Values converted at a time: the conversion of slices uses the processor's instruction where there is one.
const RUN: usize = 64;

pub struct Format;

impl FormatDef for Format {
    fn name(&self) -> &'static str {
        "f16"
    }
    fn ggml(&self) -> u32 {
        1
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
        let mut run = [f16::ZERO; RUN];
        for (bytes, out) in stored.chunks(2 * RUN).zip(out.chunks_mut(RUN)) {
            for (half, bytes) in run.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *half = f16::from_le_bytes(*bytes);
            }
            run[..out.len()].convert_to_f32_slice(out);
        }
    }
    fn quantize(&self, x: &[f32], out: &mut [u8]) {
        let mut run = [f16::ZERO; RUN];
        for (x, bytes) in x.chunks(RUN).zip(out.chunks_mut(2 * RUN)) {
            run[..x.len()].convert_from_f32_slice(x);
            for (half, bytes) in run.iter().zip(bytes.as_chunks_mut::<2>().0) {
                *bytes = half.to_le_bytes();
            }
        }
    }
}
