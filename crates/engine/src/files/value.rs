//! What a model file is made of: metadata values and tensor descriptions.

use std::collections::BTreeMap;

use super::types::TensorType;

/// One metadata value of a model file (the value types of GGUF; JSON configurations are mapped to the same).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    U64(u64),
    /// Any signed integer.
    I64(i64),
    /// f32 or f64.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text (checked).
    Str(String),
    /// An array of strings.
    Strs(Vec<String>),
    /// An array of integers (converted).
    Ints(Vec<i64>),
    /// An array of floats (converted).
    Floats(Vec<f64>),
    /// An array of truth values.
    Bools(Vec<bool>),
}

/// Metadata by key, in the order of the keys: `general.architecture`, `llama.block_count`, `tokenizer.ggml.tokens`, …
pub type Metadata = BTreeMap<String, Value>;

/// What a model file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// GGUF, one file or several parts; all metadata inside.
    Gguf,
    /// A folder with `config.json` and safetensors; names and row order of Hugging Face.
    HuggingFace,
    /// One safetensors file without a configuration.
    Safetensors,
}

/// One tensor of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name in the file, unique.
    pub name: String,
    /// Dimensions, innermost first as in GGUF: `[k, rows, …]`, for safetensors too. Empty for a single number.
    pub dims: Vec<u64>,
    /// How the numbers are stored.
    pub kind: TensorType,
    /// Bytes of the data.
    pub bytes: usize,
    /// Index of the file it is in, see `ModelFile::parts`.
    pub part: usize,
    /// Start of the data in that file.
    pub(super) offset: usize,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        // Saturates only for safetensors types of unknown size, whose dimensions nothing checks.
        self.dims.iter().fold(1, |n, &d| n.saturating_mul(d))
    }
}
