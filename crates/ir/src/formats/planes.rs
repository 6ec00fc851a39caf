//! The layout of quantized weights on GPUs: the quants, the scales and the mins of a whole matrix are each a plane of their
//! own, so that a thread loads 16 bytes of quants at once in every format, and kernels know only two widths of quant.
//!
//! A matrix `[rows, k]` has these planes, each of which begins at a multiple of [`ALIGN`] bytes:
//!
//! | plane | bytes | contents |
//! |---|---|---|
//! | quants | `rows · k · bits / 8` | see below |
//! | scales | `rows · k / group · 2` | block scale times the group's sub-scale, in 16 bits of the format's [`ScaleKind`] |
//! | mins | as scales | f16; only where the format has mins |
//!
//! Quants of 4 bits are unsigned, element `2j` in the low half of byte `j` and `2j + 1` in the high half. Quants of 8 bits are
//! signed: `zero` is subtracted and codebooks are looked up.
//!
//! `value = scale · (quant − zero) + min`. Where a format has sub-scales for groups within a block, the product is rounded to
//! f16, with an error of at most 2⁻¹¹ of the value; the other formats are converted exactly. Quants of 5 and 6 bits take 8
//! bits, so that a kernel needs one load and no shifts; quants of 2 and 3 bits take 4.

use super::DType;
use super::block::{GroupMin, MAX_GROUPS, ScaleKind, Unpacked};

/// Planes begin at multiples of this many bytes: wgpu's alignment of an offset into a buffer.
pub const ALIGN: usize = 256;

/// Layout of a format in planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Bits of a quant: 4 or 8.
    pub bits: usize,
    /// Elements that share a scale: 16 or 32.
    pub group: usize,
    /// Zero point subtracted from a quant of 4 bits; 0 for quants of 8 bits, which are signed.
    pub zero: i32,
    /// True if there is a plane of mins.
    pub has_min: bool,
    /// Encoding of a scale in its 16 bits.
    pub scale: ScaleKind,
}

/// The layout of a format in planes; none for the float formats, which keep their stored layout.
pub fn spec(dtype: DType) -> Option<PlaneSpec> {
    let s = dtype.spec()?;
    let bits = if s.bits <= 4 && s.table.is_none() { 4 } else { 8 };
    let zero = if bits == 4 { s.zero } else { 0 };
    Some(PlaneSpec { bits, group: s.group, zero, has_min: s.min != GroupMin::None, scale: s.scale })
}

/// Offsets of the planes of one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// Layout of the matrix's format.
    pub spec: PlaneSpec,
    /// Byte at which scales begin; quants begin at 0.
    pub at_scales: usize,
    /// Byte at which mins begin; the end of the matrix if there are none.
    pub at_mins: usize,
    dtype: DType,
    k: usize,
    bytes: usize,
}

impl Planes {
    /// The planes of a matrix `[rows, k]`. `None` where the format has no planes or `k` is not a whole number of blocks.
    pub fn new(dtype: DType, rows: usize, k: usize) -> Option<Planes> {
        let spec = spec(dtype)?;
        dtype.row_bytes(k)?;
        let n = rows.checked_mul(k)?;
        let at_scales = (n / 8).checked_mul(spec.bits)?.checked_next_multiple_of(ALIGN)?;
        let part = (n / spec.group).checked_mul(2)?.checked_next_multiple_of(ALIGN)?;
        let at_mins = at_scales.checked_add(part)?;
        let bytes = if spec.has_min { at_mins.checked_add(part)? } else { at_mins };
        Some(Planes { spec, at_scales, at_mins, dtype, k, bytes })
    }

    /// Bytes of all planes together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of one row in the plane of quants.
    pub fn quant_row(&self) -> usize {
        self.k / 8 * self.spec.bits
    }

    /// Bytes of one row in the plane of scales, and also in the plane of mins.
    pub fn scale_row(&self) -> usize {
        self.k / self.spec.group * 2
    }

    /// Converts stored rows to planes. `quants`, `scales` and `mins` (empty where there are none) begin at the first of these
    /// rows.
    pub fn pack(&self, stored: &[u8], quants: &mut [u8], scales: &mut [u8], mins: &mut [u8]) {
        let Some(from) = self.dtype.spec() else { return };
        let mut u = Unpacked::default();
        let groups = from.block / from.group;
        let mut scale_at = 0;
        let quant_bytes = from.block / 8 * self.spec.bits;
        for (block, out) in stored.chunks_exact(from.bytes).zip(quants.chunks_exact_mut(quant_bytes)) {
            self.dtype.def().unpack(block, &mut u);
            if self.spec.bits == 4 {
                for (byte, pair) in out.iter_mut().zip(u.quants.chunks_exact(2)) {
                    *byte = pair[0] | pair[1] << 4;
                }
            } else {
                for (byte, &quant) in out.iter_mut().zip(&u.quants) {
                    *byte = match from.table {
                        Some(table) => table[usize::from(quant & 15)] as u8,
                        None => (i32::from(quant) - from.zero) as u8,
                    };
                }
            }
            for g in 0..groups.min(MAX_GROUPS) {
                let put = |plane: &mut [u8], kind: ScaleKind, x: f32| {
                    plane[scale_at..scale_at + 2].copy_from_slice(&kind.to_bits(x).to_le_bytes());
                };
                put(scales, from.scale, u.d * f32::from(u.sc[g]));
                match from.min {
                    GroupMin::None => {}
                    GroupMin::Plain => put(mins, ScaleKind::F16, u.m),
                    GroupMin::Scaled => put(mins, ScaleKind::F16, -(u.m * f32::from(u.mc[g]))),
                }
                scale_at += 2;
            }
        }
    }

    /// Converts the whole matrix from its stored rows to planes.
    pub fn packed(&self, stored: &[u8]) -> Vec<u8> {
        let mut all = vec![0; self.bytes];
        let (quants, rest) = all.split_at_mut(self.at_scales);
        let (scales, mins) = rest.split_at_mut(self.at_mins - self.at_scales);
        self.pack(stored, quants, scales, mins);
        all
    }

    /// Dequantizes `rows` rows by the formula above, in f32.
    pub fn values(&self, planes: &[u8], rows: usize) -> Vec<f32> {
        let s = self.spec;
        let number = |kind: ScaleKind, at: usize, i: usize| {
            kind.from_bits(u16::from_le_bytes([planes[at + 2 * i], planes[at + 2 * i + 1]]))
        };
        let value = |i: usize| {
            let quant = match s.bits {
                4 => i32::from(planes[i / 2] >> (4 * (i % 2)) & 15) - s.zero,
                _ => i32::from(planes[i] as i8),
            };
            let scaled = number(s.scale, self.at_scales, i / s.group) * quant as f32;
            if s.has_min { scaled + number(ScaleKind::F16, self.at_mins, i / s.group) } else { scaled }
        };
        (0..rows * self.k).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_hold_the_numbers_of_the_stored_blocks() {
        let (rows, k) = (3, 512);
        let x: Vec<f32> = (0..rows * k).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.013).collect();
        for dtype in DType::ALL.iter().copied().filter(|d| d.spec().is_some()) {
            let planes = Planes::new(dtype, rows, k).expect("planes");
            let mut stored = vec![0; rows * dtype.row_bytes(k).expect("whole blocks")];
            dtype.def().quantize(&x, &mut stored);
            let mut want = vec![0.0; rows * k];
            dtype.def().dequantize(&stored, &mut want);
            let have = planes.values(&planes.packed(&stored), rows);
            // Scale and min of a group are each rounded to f16 if the format has sub-scales.
            let exact = !dtype.spec().is_some_and(|s| s.sub_scales);
            let largest = want.iter().fold(0f32, |a, x| a.max(x.abs()));
            for (h, w) in have.iter().zip(&want) {
                let bound = if exact { 0.0 } else { largest * 2.0 / 2048.0 };
                assert!((h - w).abs() <= bound, "{}: {h} {w}", dtype.name());
            }
        }
    }

    /// Every exponent with every quant, infinite values and subnormal scales among them.
    #[test]
    fn planes_hold_every_power_of_two_exactly() {
        for dtype in DType::ALL.iter().copied().filter(|d| d.spec().is_some_and(|s| s.scale == ScaleKind::E8M0)) {
            let spec = dtype.spec().expect("quants");
            let k = 256 * spec.block;
            let stored: Vec<u8> = (0..256 * spec.bytes)
                .map(|i| if i % spec.bytes == 0 { (i / spec.bytes) as u8 } else { (i % spec.bytes * 0x1f) as u8 })
                .collect();
            let mut want = vec![0.0; k];
            dtype.def().dequantize(&stored, &mut want);
            assert!(want.iter().any(|x| x.is_infinite()) && want.iter().any(|x| x.is_subnormal()), "{dtype}");
            let planes = Planes::new(dtype, 1, k).expect("planes");
            let have = planes.values(&planes.packed(&stored), 1);
            assert!(have.iter().zip(&want).all(|(h, w)| h.to_bits() == w.to_bits()), "{dtype}");
        }
    }

    #[test]
    fn floats_and_broken_rows_have_no_planes() {
        assert!(Planes::new(DType::F16, 2, 64).is_none());
        assert!(Planes::new(DType::Q4_0, 2, 33).is_none());
        assert!(Planes::new(DType::Q4_0, usize::MAX, 64).is_none());
        assert_eq!(Planes::new(DType::Q4_0, 1, 32).map(|p| (p.at_scales, p.at_mins, p.bytes())), Some((256, 512, 512)));
    }
}
