//! Quantization formats: how the numbers of a tensor are stored.
//!
//! One folder per format (`formats/<fmt>/`). A block format says how one block becomes integer codes, scales and
//! offsets ([`Unpacked`]); its float values follow from that by one formula ([`BlockSpec::values`]), so a
//! format has no second decoder that could drift. Kernels know the two contracts "groups of integer codes with an
//! f32 scale and offset" and "floats", never a format by name.
//!
//! A new format is a folder, its `mod` line and its line in the `formats!` list below.

mod bits;
mod convert;
mod fit;

mod bf16;
mod iq4_nl;
mod iq4_xs;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
// A module called `f32` would hide the type of that name in this file.
#[path = "formats/f16/mod.rs"]
mod half_float;
#[path = "formats/f32/mod.rs"]
mod single_float;

pub use convert::{FormatError, dequantize, quantize, requantize};

pub mod planes;
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

impl BlockSpec {
    /// The values of a block taken apart: the formula at [`BlockSpec`], the only one there is. `out` gets the first
    /// `block` values (fewer if it is shorter).
    ///
    /// Where there is no offset nothing is added, so that a product of -0.0 stays -0.0.
    #[inline(always)]
    pub fn values(&self, u: &Unpacked, out: &mut [f32]) {
        let codes = u.codes[..self.block.min(MAX_BLOCK)].chunks_exact(self.group);
        for (g, (codes, out)) in codes.zip(out.chunks_mut(self.group)).enumerate() {
            let scale = u.d * f32::from(u.sc[g]);
            let offset = match self.offset {
                Offset::None => None,
                Offset::Plain => Some(u.m),
                Offset::Scaled => Some(-(u.m * f32::from(u.mc[g]))),
            };
            let product = |code: u8| {
                let number = match self.table {
                    Some(table) => i32::from(table[usize::from(code & 15)]),
                    None => i32::from(code) - self.zero,
                };
                scale * number as f32
            };
            match offset {
                None => out.iter_mut().zip(codes).for_each(|(out, &code)| *out = product(code)),
                Some(offset) => out.iter_mut().zip(codes).for_each(|(out, &code)| *out = product(code) + offset),
            }
        }
    }
}

/// What a format has to answer. Everything is about whole blocks (for the float formats a block is one element).
///
/// The methods on slices panic when a slice is shorter than a block; [`dequantize`], [`quantize`] and [`requantize`]
/// check lengths first and are what to call on anything that comes from a file.
pub trait FormatDef: Sync {
    /// The name: lower case, as in `--weights q4_k`.
    fn name(&self) -> &'static str;
    /// Number of the type in a GGUF file.
    fn ggml(&self) -> u32;
    /// Elements in a block: 1, 32 or 256.
    fn block(&self) -> usize;
    /// Bytes of a stored block.
    fn block_bytes(&self) -> usize;
    /// The meaning of the codes; `None` for the float formats, which have no codes.
    fn spec(&self) -> Option<BlockSpec>;
    /// Takes one stored block apart. Sets every field, codes and groups as far as the block has them; where the format
    /// has no such field, to the neutral value (1 for `sc`, 0 for `m` and `mc`). Does nothing for the float formats.
    fn unpack(&self, block: &[u8], out: &mut Unpacked);
    /// Puts one block together again, the exact inverse of [`FormatDef::unpack`] (a NaN scale stays a NaN).
    /// `d` and `m` are rounded to f16. Does nothing for the float formats.
    fn pack(&self, parts: &Unpacked, block: &mut [u8]);
    /// Values of whole stored blocks: [`BlockSpec::values`] of every unpacked block, or the floats widened.
    fn dequantize(&self, stored: &[u8], out: &mut [f32]);
    /// Rounds whole blocks of `x` to the format. Finite input only: an infinity or a NaN gives some valid block, not
    /// a useful one (the float formats keep both).
    fn quantize(&self, x: &[f32], out: &mut [u8]);
}

/// What a block format writes down; the rest of [`FormatDef`] follows from it, compiled for each format.
trait BlockFormat: Sync {
    const NAME: &'static str;
    const GGML: u32;
    const SPEC: BlockSpec;
    /// See [`FormatDef::unpack`].
    fn unpack(block: &[u8], out: &mut Unpacked);
    /// See [`FormatDef::pack`].
    fn pack(parts: &Unpacked, block: &mut [u8]);
    /// Chooses scales (already rounded as they will be stored) and codes for one block of values.
    fn fit(x: &[f32], out: &mut Unpacked);
}

impl<T: BlockFormat> FormatDef for T {
    fn name(&self) -> &'static str {
        T::NAME
    }
    fn ggml(&self) -> u32 {
        T::GGML
    }
    fn block(&self) -> usize {
        T::SPEC.block
    }
    fn block_bytes(&self) -> usize {
        T::SPEC.bytes
    }
    fn spec(&self) -> Option<BlockSpec> {
        Some(T::SPEC)
    }
    fn unpack(&self, block: &[u8], out: &mut Unpacked) {
        T::unpack(&block[..T::SPEC.bytes], out);
    }
    fn pack(&self, parts: &Unpacked, block: &mut [u8]) {
        T::pack(parts, &mut block[..T::SPEC.bytes]);
    }
    fn dequantize(&self, stored: &[u8], out: &mut [f32]) {
        let mut parts = Unpacked::default();
        for (block, values) in stored.chunks_exact(T::SPEC.bytes).zip(out.chunks_exact_mut(T::SPEC.block)) {
            T::unpack(block, &mut parts);
            T::SPEC.values(&parts, values);
        }
    }
    fn quantize(&self, x: &[f32], out: &mut [u8]) {
        let mut parts = Unpacked::default();
        for (values, block) in x.chunks_exact(T::SPEC.block).zip(out.chunks_exact_mut(T::SPEC.bytes)) {
            T::fit(values, &mut parts);
            T::pack(&parts, block);
        }
    }
}

/// The list of all formats: variant, definition, one line about it.
macro_rules! formats {
    ($($variant:ident = $def:path, $doc:literal;)*) => {
        /// How the numbers of a tensor are stored. Names are those of the formats in model files.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            $(#[doc = $doc] $variant,)*
        }

        impl DType {
            /// Every format, in the order of the list.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The definition of the format.
            pub fn def(self) -> &'static dyn FormatDef {
                match self {
                    $(DType::$variant => &$def,)*
                }
            }
        }
    };
}

formats! {
    F32 = single_float::Format, "IEEE single precision.";
    F16 = half_float::Format, "IEEE half precision.";
    BF16 = bf16::Format, "The upper half of an f32.";
    Q4_0 = q4_0::Format, "4 bits, a scale for 32.";
    Q4_1 = q4_1::Format, "4 bits, a scale and an offset for 32.";
    Q5_0 = q5_0::Format, "5 bits, a scale for 32.";
    Q5_1 = q5_1::Format, "5 bits, a scale and an offset for 32.";
    Q8_0 = q8_0::Format, "8 bits, a scale for 32.";
    Q2_K = q2_k::Format, "2 bits, 4-bit scales and offsets for 16.";
    Q3_K = q3_k::Format, "3 bits, 6-bit signed scales for 16.";
    Q4_K = q4_k::Format, "4 bits, 6-bit scales and offsets for 32.";
    Q5_K = q5_k::Format, "5 bits, 6-bit scales and offsets for 32.";
    Q6_K = q6_k::Format, "6 bits, 8-bit signed scales for 16.";
    IQ4_NL = iq4_nl::Format, "4 bits through a code book, a scale for 32.";
    IQ4_XS = iq4_xs::Format, "4 bits through a code book, 6-bit signed scales for 32.";
}

impl DType {
    /// The name in lower case: `q4_k`.
    pub fn name(self) -> &'static str {
        self.def().name()
    }

    /// The format of that name, in any case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name().eq_ignore_ascii_case(name))
    }

    /// Number of the type in a GGUF file.
    pub fn ggml(self) -> u32 {
        self.def().ggml()
    }

    /// The format of a GGUF type number; `None` for a type onetrip does not know.
    pub fn from_ggml(number: u32) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.ggml() == number)
    }

    /// Elements in a block: 1 for the float formats, else 32 or 256.
    pub fn block(self) -> usize {
        self.def().block()
    }

    /// Bytes of a stored block (of one element for the float formats).
    pub fn block_bytes(self) -> usize {
        self.def().block_bytes()
    }

    /// Bytes of a row of `elements`; `None` if that is not a whole number of blocks or does not fit a `usize`.
    pub fn row_bytes(self, elements: usize) -> Option<usize> {
        let block = self.block();
        if elements.is_multiple_of(block) { (elements / block).checked_mul(self.block_bytes()) } else { None }
    }

    /// The meaning of the codes; `None` for the float formats.
    pub fn spec(self) -> Option<BlockSpec> {
        self.def().spec()
    }

    /// True for the formats that hold plain floats.
    pub fn is_float(self) -> bool {
        self.spec().is_none()
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
