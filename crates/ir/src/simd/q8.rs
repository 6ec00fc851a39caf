//! Activation quantization to int8, 32 elements to a scale, for the integer dot products with quantized weights.
//!
//! One quantized row of `k` columns (a multiple of 32) has three parts, each padded to a multiple of 64 bytes:
//!
//! | part | bytes |
//! |---|---|
//! | quants, i8 in −127..=127 | `k` |
//! | scale of each block of 32, f32: `d = max\|x\| / 127` | `k/32 * 4` |
//! | sum of the quants of each 16 columns, i32 | `k/16 * 4` |
//!
//! `x ≈ d * quant`. A kernel multiplies the sums with the mins and zero points of the weights, so that mins and zero points
//! need no pass over the quants of the activations.

/// Columns that share a scale.
pub const Q8_BLOCK: usize = 32;

const ALIGN: usize = 64;

/// Bytes of one quantized row of `k` columns, a multiple of 64.
pub fn q8_row_bytes(k: usize) -> usize {
    at_sums(k) + (k / 16 * 4).next_multiple_of(ALIGN)
}

/// Where the scales of a row begin.
#[inline(always)]
pub(super) fn at_scales(k: usize) -> usize {
    k.next_multiple_of(ALIGN)
}

/// Where the sums of a row begin.
#[inline(always)]
pub(super) fn at_sums(k: usize) -> usize {
    at_scales(k) + (k / Q8_BLOCK * 4).next_multiple_of(ALIGN)
}

/// A view of quantized rows that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Q8Rows<'a> {
    bytes: &'a [u8],
    k: usize,
}

impl<'a> Q8Rows<'a> {
    /// `bytes` holds whole rows of `k` columns. `None` if it does not, or `k` is not a multiple of 32.
    pub fn new(bytes: &'a [u8], k: usize) -> Option<Q8Rows<'a>> {
        let fits = k > 0 && k.is_multiple_of(Q8_BLOCK) && bytes.len().is_multiple_of(q8_row_bytes(k));
        fits.then_some(Q8Rows { bytes, k })
    }

    /// Number of quantized rows.
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

    /// The quant of one column.
    pub fn quant(&self, row: usize, column: usize) -> i8 {
        self.row(row)[..self.k][column] as i8
    }

    /// Scale of the block of 32 columns with the number `block`.
    pub fn scale(&self, row: usize, block: usize) -> f32 {
        let at = at_scales(self.k) + 4 * block;
        f32::from_le_bytes(word(&self.row(row)[at..]))
    }

    /// Sum of the quants of the 16 columns from `16 * sixteen` on.
    pub fn sum(&self, row: usize, sixteen: usize) -> i32 {
        let at = at_sums(self.k) + 4 * sixteen;
        i32::from_le_bytes(word(&self.row(row)[at..]))
    }

    /// The dequantized value of one column.
    pub fn value(&self, row: usize, column: usize) -> f32 {
        self.scale(row, column / Q8_BLOCK) * f32::from(self.quant(row, column))
    }
}

fn word(p: &[u8]) -> [u8; 4] {
    [p[0], p[1], p[2], p[3]]
}

/// A block whose largest magnitude is below this is quantized to zeros, because `127 / max` could overflow.
pub(super) const TINY: f32 = 1e-30;
/// Adding and then subtracting `1.5 * 2^23` rounds to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Panics unless `out` has the length of the quantized row of `x`; clears the padding.
#[inline(always)]
pub(super) fn check_quantize(x: &[f32], out: &mut [u8]) {
    let k = x.len();
    assert!(k.is_multiple_of(Q8_BLOCK), "{k} activations are not a multiple of {Q8_BLOCK}");
    assert_eq!(out.len(), q8_row_bytes(k), "the output is not one quantized row of {k}");
    out[k..at_scales(k)].fill(0);
    out[at_scales(k) + k / 32 * 4..at_sums(k)].fill(0);
    out[at_sums(k) + k / 16 * 4..].fill(0);
}

/// Quantizes one row to int8. A block that holds an infinity or NaN gets the scale NaN and quants 0, so that every result that
/// uses the block is NaN. The code is plain loops of integer operations and single roundings only, so that the bits are equal
/// on every instruction set.
#[inline(always)]
pub(super) unsafe fn quantize(x: &[f32], out: &mut [u8]) {
    check_quantize(x, out);
    let k = x.len();
    let (quants, rest) = out.split_at_mut(at_scales(k));
    let (scales, sums) = rest.split_at_mut(at_sums(k) - at_scales(k));
    let blocks = x.chunks_exact(32).zip(quants.chunks_exact_mut(32));
    for ((x, quants), (scale, sums)) in blocks.zip(scales.chunks_exact_mut(4).zip(sums.chunks_exact_mut(8))) {
        // Magnitudes are compared as integers, in which infinity and NaN are larger than every finite value.
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
            // Infinity times 0 is NaN, and the bits of a NaN are no valid quant.
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
