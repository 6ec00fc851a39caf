//! Activation quantization to int8, for the integer dot products with quantized weights.
//!
//! A quantized row of `k` columns (a multiple of 32) has three arrays, each padded to 64 bytes:
//!
//! | array | bytes |
//! |---|---|
//! | quants, i8 in −127..=127 | `k` |
//! | scale of each block of 32, f32: `d = max\|x\| / 127` | `k/32 * 4` |
//! | sum of the quants of each 16 columns, i32 | `k/16 * 4` |
//!
//! `x ≈ d * quant`. A weight's min or zero point is multiplied with the sum of the activations' quants; since the sums are
//! stored, a kernel needs no pass over the quants for them.

/// Columns that share a scale.
pub const Q8_BLOCK: usize = 32;

const ALIGN: usize = 64;

/// Bytes of one quantized row of `k` columns, a multiple of 64.
pub fn q8_row_bytes(k: usize) -> usize {
    at_sums(k) + (k / 16 * 4).next_multiple_of(ALIGN)
}

/// Byte offset of the scales in a row.
#[inline(always)]
pub(super) fn at_scales(k: usize) -> usize {
    k.next_multiple_of(ALIGN)
}

/// Byte offset of the sums in a row.
#[inline(always)]
pub(super) fn at_sums(k: usize) -> usize {
    at_scales(k) + (k / Q8_BLOCK * 4).next_multiple_of(ALIGN)
}

/// A view of contiguous quantized rows.
#[derive(Clone, Copy, Debug)]
pub struct Q8Rows<'a> {
    bytes: &'a [u8],
    k: usize,
}

impl<'a> Q8Rows<'a> {
    /// A view of `bytes` as rows of `k` columns. `None` unless `bytes` holds whole rows and `k` is a multiple of 32.
    pub fn new(bytes: &'a [u8], k: usize) -> Option<Q8Rows<'a>> {
        let fits = k > 0 && k.is_multiple_of(Q8_BLOCK) && bytes.len().is_multiple_of(q8_row_bytes(k));
        fits.then_some(Q8Rows { bytes, k })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.bytes.len() / q8_row_bytes(self.k)
    }

    /// Columns of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    fn row(&self, row: usize) -> &'a [u8] {
        let bytes = q8_row_bytes(self.k);
        &self.bytes[row * bytes..(row + 1) * bytes]
    }

    /// Quant of one column.
    pub fn quant(&self, row: usize, column: usize) -> i8 {
        self.row(row)[..self.k][column] as i8
    }

    /// Scale of the columns from `32 * block` on.
    pub fn scale(&self, row: usize, block: usize) -> f32 {
        let at = at_scales(self.k) + 4 * block;
        f32::from_le_bytes(word(&self.row(row)[at..]))
    }

    /// Sum of the quants of the sixteen columns from `16 * sixteen` on.
    pub fn sum(&self, row: usize, sixteen: usize) -> i32 {
        let at = at_sums(self.k) + 4 * sixteen;
        i32::from_le_bytes(word(&self.row(row)[at..]))
    }

    /// The dequantized value: scale times quant.
    pub fn value(&self, row: usize, column: usize) -> f32 {
        self.scale(row, column / Q8_BLOCK) * f32::from(self.quant(row, column))
    }
}

fn word(p: &[u8]) -> [u8; 4] {
    [p[0], p[1], p[2], p[3]]
}

/// A block whose largest magnitude is below this counts as zero, since `127 / max` would overflow.
pub(super) const TINY: f32 = 1e-30;
/// Adding and then subtracting `1.5 * 2^23` rounds to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Panics unless `out` is as long as the quantized row of `x`; clears the padding.
#[inline(always)]
pub(super) fn check_quantize(x: &[f32], out: &mut [u8]) {
    let k = x.len();
    assert!(k.is_multiple_of(Q8_BLOCK), "{k} activations are not a multiple of {Q8_BLOCK}");
    assert_eq!(out.len(), q8_row_bytes(k), "the output is not one quantized row of {k}");
    out[k..at_scales(k)].fill(0);
    out[at_scales(k) + k / 32 * 4..at_sums(k)].fill(0);
    out[at_sums(k) + k / 16 * 4..].fill(0);
}

/// Quantizes one row to int8. A block that holds an infinity or NaN gets the scale NaN and quants 0, so that every result
/// that depends on it is NaN. The plain loops use only integers and correctly rounded float operations, so the result is
/// bitwise the same on every instruction set.
#[inline(always)]
pub(super) unsafe fn quantize(x: &[f32], out: &mut [u8]) {
    check_quantize(x, out);
    let k = x.len();
    let (quants, rest) = out.split_at_mut(at_scales(k));
    let (scales, sums) = rest.split_at_mut(at_sums(k) - at_scales(k));
    let blocks = x.chunks_exact(32).zip(quants.chunks_exact_mut(32));
    for ((x, quants), (scale, sums)) in blocks.zip(scales.chunks_exact_mut(4).zip(sums.chunks_exact_mut(8))) {
        // Magnitudes are compared as integers, in which NaN and infinity are above every finite value.
        let mut lanes = [0u32; 16];
        for i in 0..16 {
            lanes[i] = (x[i].to_bits() & 0x7fff_ffff).max(x[i + 16].to_bits() & 0x7fff_ffff);
        }
        let mut most = 0;
        for lane in lanes {
            most = most.max(lane);
        }
        let max = f32::from_bits(most);
        let (d, inverse) = if most >= 0x7f80_0000 {
            (f32::NAN, 0.0)
        } else if max < TINY {
            (0.0, 0.0)
        } else {
            (max / 127.0, 127.0 / max)
        };
        scale.copy_from_slice(&d.to_le_bytes());
        let mut q = [0i32; 32];
        for i in 0..32 {
            let rounded = x[i] * inverse + ROUND;
            q[i] = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
        }
        if inverse == 0.0 {
            // Infinity times 0 is NaN, whose bits do not form a quant.
            q = [0; 32];
        }
        let mut sum = [0i32; 2];
        for i in 0..16 {
            sum[0] += q[i];
            sum[1] += q[i + 16];
        }
        for i in 0..32 {
            quants[i] = q[i] as i8 as u8;
        }
        sums[..4].copy_from_slice(&sum[0].to_le_bytes());
        sums[4..].copy_from_slice(&sum[1].to_le_bytes());
    }
}
