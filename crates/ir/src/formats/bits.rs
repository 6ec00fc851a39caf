//! Reading and writing quants of a few bits, f16 values and packed scales in the bytes of a block.
//!
//! Every format stores its quants in *planes*: `WIDTH` bytes hold `8 / BITS` runs of `WIDTH` quants, the first run in the
//! lowest `BITS` of each byte, the next run above it, and so on; then come the next `WIDTH` bytes. A quant with more
//! bits than one plane has (5, 3, 6) is spread over two planes, so reading and writing place a plane at bit `AT`.

use half::f16;

/// Reads planes of `BITS` bits into bit `AT` of the quants. `AT == 0` overwrites the quants, else the bits are added.
#[inline(always)]
pub fn read_planes<const BITS: usize, const WIDTH: usize, const AT: usize>(stored: &[u8], quants: &mut [u8]) {
    let mask = ((1u16 << BITS) - 1) as u8;
    for (bytes, quants) in stored.chunks_exact(WIDTH).zip(quants.chunks_exact_mut(WIDTH * 8 / BITS)) {
        for (run, quants) in quants.chunks_exact_mut(WIDTH).enumerate() {
            for (quant, byte) in quants.iter_mut().zip(bytes) {
                let part = ((byte >> (run * BITS)) & mask) << AT;
                *quant = if AT == 0 { part } else { *quant | part };
            }
        }
    }
}

/// Writes the `BITS` bits at bit `AT` of the quants as planes: the inverse of [`read_planes`].
#[inline(always)]
pub fn write_planes<const BITS: usize, const WIDTH: usize, const AT: usize>(quants: &[u8], stored: &mut [u8]) {
    let mask = ((1u16 << BITS) - 1) as u8;
    for (bytes, quants) in stored.chunks_exact_mut(WIDTH).zip(quants.chunks_exact(WIDTH * 8 / BITS)) {
        bytes.fill(0);
        for (run, quants) in quants.chunks_exact(WIDTH).enumerate() {
            for (quant, byte) in quants.iter().zip(bytes.iter_mut()) {
                *byte |= ((quant >> AT) & mask) << (run * BITS);
            }
        }
    }
}

/// The f16 at byte `at`, converted.
#[inline(always)]
pub fn read_f16(stored: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([stored[at], stored[at + 1]]).to_f32()
}

/// Stores `value` at byte `at`, rounded to the nearest f16.
#[inline(always)]
pub fn write_f16(stored: &mut [u8], at: usize, value: f32) {
    stored[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// Half of the scale that the E8M0 byte at `at` encodes: `2^(e - 128)`. It is halved because E2M1 codebooks hold doubled
/// values, which are integers. As in ggml, 255 is a scale like any other and not a NaN.
#[inline(always)]
pub fn read_half_e8m0(stored: &[u8], at: usize) -> f32 {
    match stored[at] {
        // Subnormals: 2^-128 and 2^-127.
        e @ 0..2 => f32::from_bits(0x0020_0000 << e),
        e => f32::from_bits(u32::from(e - 1) << 23),
    }
}

/// The inverse of [`read_half_e8m0`]: stores the exponent of `value`, a power of two from 2^-128 to 2^127. Values between
/// two powers are rounded down, and 0 becomes 2^-128.
#[inline(always)]
pub fn write_half_e8m0(stored: &mut [u8], at: usize, value: f32) {
    let bits = value.to_bits() & 0x7fff_ffff;
    stored[at] = match bits >> 23 {
        0 => u8::from(bits >= 0x0040_0000),
        exponent => exponent.min(254) as u8 + 1,
    };
}

/// Reads the 12 bytes of eight 6-bit scales and eight 6-bit min scales (Q4_K, Q5_K).
///
/// Byte `i < 4` holds scale `i`, byte `4 + i` min `i`, in 6 bits. Byte `8 + i` holds the low 4 bits of scale `4 + i`
/// (low nibble) and of min `4 + i` (high nibble); their upper 2 bits fill bytes `i` and `4 + i`.
#[inline(always)]
pub fn read_scale_pairs(stored: &[u8], sc: &mut [i8], mc: &mut [u8]) {
    for i in 0..4 {
        let (a, b, low) = (stored[i], stored[4 + i], stored[8 + i]);
        sc[i] = (a & 63) as i8;
        mc[i] = b & 63;
        sc[4 + i] = ((low & 15) | ((a >> 6) << 4)) as i8;
        mc[4 + i] = (low >> 4) | ((b >> 6) << 4);
    }
}

/// Writes eight scales and eight min scales: the inverse of [`read_scale_pairs`].
pub fn write_scale_pairs(sc: &[i8], mc: &[u8], stored: &mut [u8]) {
    for i in 0..4 {
        let (high_sc, high_mc) = (sc[4 + i] as u8, mc[4 + i]);
        stored[i] = (sc[i] as u8 & 63) | ((high_sc >> 4) << 6);
        stored[4 + i] = (mc[i] & 63) | ((high_mc >> 4) << 6);
        stored[8 + i] = (high_sc & 15) | ((high_mc & 15) << 4);
    }
}
