//! What a format says of one block: integer quants, scales and mins, and the one formula that makes values of them.

use half::{bf16, f16};

/// Largest block of any format, in elements.
pub const MAX_BLOCK: usize = 256;
/// Largest number of scale groups in one block.
pub const MAX_GROUPS: usize = 16;

/// How the quants of a format become numbers: `value = (d * sc[g]) * number(quant) + off`, where
/// `number(quant) = table[quant]` if there is a table, else `quant - zero`; and `off` follows [`GroupMin`].
/// All arithmetic is in f32, in exactly this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpec {
    /// Elements in a block.
    pub block: usize,
    /// Bytes of a stored block.
    pub bytes: usize,
    /// Elements that share one scale: 16 or 32.
    pub group: usize,
    /// Bits of a quant: 2, 3, 4, 5, 6 or 8. Quants are unsigned.
    pub bits: u32,
    /// Subtracted from a quant (0 where there is a table).
    pub zero: i32,
    /// Where the min of a group comes from.
    pub min: GroupMin,
    /// Non-linear codebook (IQ4, MXFP4): 16 signed bytes.
    pub table: Option<&'static [i8; 16]>,
    /// True if the block carries integer sub-scales (`sc`, `m`); false if every `sc` is 1.
    pub sub_scales: bool,
    /// Number type of the block's scale, and its 16-bit encoding.
    pub scale: ScaleKind,
}

/// Number type of a block's scale. Every layout that kernels read holds a scale in 16 bits, and the kind says how they are
/// encoded, so that the conversion of the scale is all that differs between kinds in a kernel. Mins are f16 in every kind.
///
/// A new kind is a variant here, its two conversions below, and a conversion in each kernel language
/// (`simd/tile_shared.rs`, `simd/tile_avx512.rs`, `codegen/cuda.rs` with `codegen/cuda/weights.cuh`, `codegen/wgsl.rs`).
/// FP8 scales (E4M3) need no new kind, since every E4M3 value is an f16 too, and planes have a scale for each group already.
/// A format with several FP8 scales in a block would need a float for each group in [`Unpacked`] and in tiles, where a group
/// has an integer sub-scale only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleKind {
    /// IEEE f16.
    F16,
    /// A power of two from 2⁻¹²⁸ to 2¹²⁷, stored as an exponent of 8 bits (the MX formats). Layouts hold it as bf16, which can
    /// represent all of these values (the two smallest as subnormals); f16 has powers of two from 2⁻²⁴ to 2¹⁵ only.
    E8M0,
}

impl ScaleKind {
    /// Rounds a scale to the kind's 16-bit encoding.
    #[inline(always)]
    pub fn to_bits(self, scale: f32) -> u16 {
        match self {
            ScaleKind::F16 => f16::from_f32(scale).to_bits(),
            ScaleKind::E8M0 => bf16::from_f32(scale).to_bits(),
        }
    }

    /// Converts the 16-bit encoding to f32, exactly.
    #[inline(always)]
    pub fn from_bits(self, bits: u16) -> f32 {
        match self {
            ScaleKind::F16 => f16::from_bits(bits).to_f32(),
            ScaleKind::E8M0 => f32::from_bits(u32::from(bits) << 16),
        }
    }
}

/// Where the min of a group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMin {
    /// The format has no mins.
    None,
    /// `off = m`: one f16 per block (Q4_1, Q5_1), in [`Unpacked::m`].
    Plain,
    /// `off = -(m * mc[g])`: an f16 per block times an unsigned integer per group (Q2_K, Q4_K, Q5_K).
    Scaled,
}

/// One unpacked block.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// Unsigned quants, `block` of them, in the order of the elements.
    pub quants: [u8; MAX_BLOCK],
    /// Scale of the block, of the format's [`ScaleKind`], converted.
    pub d: f32,
    /// Min of the block (an f16 in the file, converted; 0 where there is none).
    pub m: f32,
    /// Integer sub-scale of each group (1 where the format has none).
    pub sc: [i8; MAX_GROUPS],
    /// Integer min scale of each group ([`GroupMin::Scaled`] only).
    pub mc: [u8; MAX_GROUPS],
}

impl Default for Unpacked {
    fn default() -> Self {
        Unpacked { quants: [0; MAX_BLOCK], d: 0.0, m: 0.0, sc: [1; MAX_GROUPS], mc: [0; MAX_GROUPS] }
    }
}

impl BlockSpec {
    /// Dequantizes an unpacked block by the formula at [`BlockSpec`], of which there is no second implementation. `out` gets
    /// the first `block` values (fewer if it is shorter).
    ///
    /// Without a min nothing is added, so that a product of -0.0 stays -0.0.
    #[inline(always)]
    pub fn values(&self, u: &Unpacked, out: &mut [f32]) {
        let quants = u.quants[..self.block.min(MAX_BLOCK)].chunks_exact(self.group);
        for (g, (quants, out)) in quants.zip(out.chunks_mut(self.group)).enumerate() {
            let scale = u.d * f32::from(u.sc[g]);
            let min = match self.min {
                GroupMin::None => None,
                GroupMin::Plain => Some(u.m),
                GroupMin::Scaled => Some(-(u.m * f32::from(u.mc[g]))),
            };
            let product = |quant: u8| {
                let number = match self.table {
                    Some(table) => i32::from(table[usize::from(quant & 15)]),
                    None => i32::from(quant) - self.zero,
                };
                scale * number as f32
            };
            match min {
                None => out.iter_mut().zip(quants).for_each(|(out, &quant)| *out = product(quant)),
                Some(min) => out.iter_mut().zip(quants).for_each(|(out, &quant)| *out = product(quant) + min),
            }
        }
    }
}

/// The definition of a format. All methods work on whole blocks (a block of a float format is one element).
///
/// The methods on slices panic when a slice is shorter than a block. For data from a file, call the functions of
/// [`super::convert`], which check lengths first.
pub trait FormatDef: Sync {
    /// The name: lower case, as in `--weights q4_k`.
    fn name(&self) -> &'static str;
    /// Number of the type in a GGUF file.
    fn ggml(&self) -> u32;
    /// Elements in a block: 1, 32 or 256.
    fn block(&self) -> usize;
    /// Bytes of a stored block.
    fn block_bytes(&self) -> usize;
    /// The meaning of the quants; `None` for the float formats, which have no quants.
    fn spec(&self) -> Option<BlockSpec>;
    /// Unpacks one stored block. Sets every field for the block's quants and groups; a field that the format does not have gets
    /// its neutral value (1 for `sc`, 0 for `m` and `mc`). Does nothing for the float formats.
    fn unpack(&self, block: &[u8], out: &mut Unpacked);
    /// Packs one block: the exact inverse of [`FormatDef::unpack`] (a NaN scale stays a NaN).
    /// `d` is rounded to the format's [`ScaleKind`], `m` to f16. Does nothing for the float formats.
    fn pack(&self, parts: &Unpacked, block: &mut [u8]);
    /// Dequantizes whole stored blocks by [`BlockSpec::values`], or converts the floats of a float format.
    fn dequantize(&self, stored: &[u8], out: &mut [f32]);
    /// Quantizes whole blocks of `x`. The input must be finite: an infinity or a NaN gives a valid block with meaningless
    /// values (the float formats keep both).
    fn quantize(&self, x: &[f32], out: &mut [u8]);
}

/// The part of a block format's definition that is written by hand; [`FormatDef`] is derived from it for each format.
pub trait BlockFormat: Sync {
    /// The name: lower case, as users write it.
    const NAME: &'static str;
    /// Number of the type in a GGUF file.
    const GGML: u32;
    /// Sizes of a block and the meaning of its quants.
    const SPEC: BlockSpec;
    /// See [`FormatDef::unpack`].
    fn unpack(block: &[u8], out: &mut Unpacked);
    /// See [`FormatDef::pack`].
    fn pack(parts: &Unpacked, block: &mut [u8]);
    /// Chooses scales (already rounded as they will be stored) and quants for one block of values.
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
