//! The contents of a model file: metadata values and tensor descriptions.

use std::collections::BTreeMap;

use super::types::TensorType;

/// One metadata value of a model file. The variants are the value types of GGUF; JSON configurations are mapped to them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    U64(u64),
    /// Any signed integer.
    I64(i64),
    /// f32 or f64.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// UTF-8 text (checked).
    Str(String),
    /// An array of strings.
    Strs(Vec<String>),
    /// An array of integers (converted).
    Ints(Vec<i64>),
    /// An array of floats (converted).
    Floats(Vec<f64>),
    /// An array of booleans.
    Bools(Vec<bool>),
}

/// Metadata by key, in the order of the keys: `general.architecture`, `llama.block_count`, `tokenizer.ggml.tokens`, …
pub type Metadata = BTreeMap<String, Value>;

/// The kind of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// GGUF, in one file or in several parts. The file has the configuration and the tokenizer too.
    Gguf,
    /// A folder with `config.json` and safetensors files. Tensors have the names and the row order of Hugging Face.
    HuggingFace,
    /// One safetensors file without a configuration.
    Safetensors,
}

/// One tensor of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name in the file, unique.
    pub name: String,
    /// Dimensions, innermost first as in GGUF: `[k, rows, …]`, for safetensors too. Empty for a single element.
    pub dims: Vec<u64>,
    /// Storage type of the elements.
    pub kind: TensorType,
    /// Bytes of the data.
    pub bytes: usize,
    /// Index of the file that holds the tensor, in `ModelFile::parts`.
    pub part: usize,
    /// Byte at which the data starts in that file.
    pub(super) offset: usize,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        // Saturates only for safetensors types of unknown size, whose dimensions nothing checks.
        self.dims.iter().fold(1, |n, &d| n.saturating_mul(d))
    }
}
