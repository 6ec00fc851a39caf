//! Storage types of tensors, by the numbers and names that files have for them.

use std::borrow::Cow;

/// Storage type of a tensor: `bytes` bytes for every `block` elements of a row.
///
/// Tensors of every type can be opened and listed; [`ModelFile::dtype`](super::ModelFile::dtype) tells whether the engine can
/// compute with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Name as GGUF and safetensors write it: `F32`, `Q4_K`, …
    pub name: Cow<'static, str>,
    /// Elements in a block (1 for types without blocks).
    pub block: u64,
    /// Bytes of a block; 0 if this program does not know the type (the file then says the length of a tensor).
    pub bytes: u64,
    /// Number of the type in GGUF, if it has one.
    pub ggml: Option<u32>,
}

/// Types of GGUF: number, name, elements in a block, bytes of a block. Numbers and sizes are those of the GGUF specification
/// and of ggml's type table; retired numbers (4, 5, 31 to 33, 36 to 38) are left out.
const GGML: [(u32, &str, u64, u64); 32] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
];

/// safetensors types without a number in GGUF: name, elements in a block, bytes of a block.
const SAFETENSORS_ONLY: [(&str, u64, u64); 14] = [
    ("BOOL", 1, 1),
    ("U8", 1, 1),
    ("U16", 1, 2),
    ("U32", 1, 4),
    ("U64", 1, 8),
    ("C64", 1, 8),
    ("F4", 2, 1),
    ("F6_E2M3", 4, 3),
    ("F6_E3M2", 4, 3),
    ("F8_E4M3", 1, 1),
    ("F8_E5M2", 1, 1),
    ("F8_E8M0", 1, 1),
    ("F8_E4M3FNUZ", 1, 1),
    ("F8_E5M2FNUZ", 1, 1),
];

impl TensorType {
    /// The type with this number in GGUF.
    pub fn from_ggml(number: u32) -> Option<TensorType> {
        let &(_, name, block, bytes) = GGML.iter().find(|t| t.0 == number)?;
        Some(TensorType { name: name.into(), block, bytes, ggml: Some(number) })
    }

    /// The type with this name in a safetensors header. An unknown name gives a type with `bytes` 0, so that a file with one
    /// such tensor can still be opened for its others.
    pub fn from_safetensors(name: &str) -> TensorType {
        // Block formats of GGUF do not exist in safetensors, even if a file writes their name.
        if let Some(&(number, name, block, bytes)) = GGML.iter().find(|t| t.1 == name && t.2 == 1) {
            return TensorType { name: name.into(), block, bytes, ggml: Some(number) };
        }
        match SAFETENSORS_ONLY.iter().find(|t| t.0 == name) {
            Some(&(name, block, bytes)) => TensorType { name: name.into(), block, bytes, ggml: None },
            None => TensorType { name: name.to_string().into(), block: 1, bytes: 0, ggml: None },
        }
    }

    /// Bytes of a tensor with these dimensions (innermost first), if rows are whole blocks and nothing overflows. A tensor
    /// without dimensions has one element.
    pub fn tensor_bytes(&self, dims: &[u64]) -> Option<u64> {
        let elements = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        let row = dims.first().copied().unwrap_or(1);
        // A row of a safetensors tensor may end inside a byte (F4, F6); its blocks run through the whole tensor.
        let unit = if self.ggml.is_some() { row } else { elements };
        (unit % self.block == 0).then(|| (elements / self.block).checked_mul(self.bytes)).flatten()
    }
}
