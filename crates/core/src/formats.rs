//! Quantization formats: how the numbers of a tensor are stored.
//!
//! One folder per format (`formats/<fmt>/`). A block format says how one block becomes integer codes, scales and
//! offsets ([`Unpacked`]); its float values follow from that by one formula ([`FormatDef::dequantize`]), so a
//! format has no second decoder that could drift. Kernels know the two contracts "groups of integer codes with an
//! f32 scale and offset" and "floats", never a format by name.

pub mod tile;

/// Largest block of any format, in elements.
pub const MAX_BLOCK: usize = 256;
/// Largest number of scale groups in one block.
pub const MAX_GROUPS: usize = 16;

/// How the codes of a format become numbers: `value = (d * sc[g]) * number(code) + off`, where
/// `number(code) = table[code]` if there is a table, else `code - zero`; and `off` follows [`Offset`].
/// All arithmetic is in f32, in exactly this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpec {
    /// Elements in a block.
    pub block: usize,
    /// Bytes of a stored block.
    pub bytes: usize,
    /// Elements that share one scale: 16 or 32.
    pub group: usize,
    /// Bits of a code: 2, 3, 4, 5, 6 or 8. Codes are unsigned.
    pub bits: u32,
    /// Subtracted from a code (0 where there is a table).
    pub zero: i32,
    /// Where the offset of a group comes from.
    pub offset: Offset,
    /// Non-linear code book (IQ4): 16 signed bytes.
    pub table: Option<&'static [i8; 16]>,
    /// True if the block carries integer sub-scales (`sc`, `m`); false if every `sc` is 1.
    pub sub_scales: bool,
}

/// Where the offset of a group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// There is none.
    None,
    /// `off = m`: one f16 per block (Q4_1, Q5_1), in [`Unpacked::m`].
    Plain,
    /// `off = -(m * mc[g])`: an f16 per block times an unsigned integer per group (Q2_K, Q4_K, Q5_K).
    Scaled,
}

/// One block, taken apart.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// Unsigned codes, `block` of them, in the order of the elements.
    pub codes: [u8; MAX_BLOCK],
    /// Scale of the block (an f16 in the file, widened).
    pub d: f32,
    /// Offset of the block (an f16 in the file, widened; 0 where there is none).
    pub m: f32,
    /// Integer sub-scale of each group (1 where the format has none).
    pub sc: [i8; MAX_GROUPS],
    /// Integer offset scale of each group ([`Offset::Scaled`] only).
    pub mc: [u8; MAX_GROUPS],
}

impl Default for Unpacked {
    fn default() -> Self {
        Unpacked { codes: [0; MAX_BLOCK], d: 0.0, m: 0.0, sc: [1; MAX_GROUPS], mc: [0; MAX_GROUPS] }
    }
}
