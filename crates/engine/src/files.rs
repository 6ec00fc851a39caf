//! Model files: GGUF (single and split), safetensors (single and sharded), read by memory map.
//!
//! Files are hostile until checked: no count, offset or length of a file is believed before it is compared with
//! what is really there, and nothing is allocated by an unchecked number.

use std::collections::BTreeMap;

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
    /// An array of integers (widened).
    Ints(Vec<i64>),
    /// An array of floats (widened).
    Floats(Vec<f64>),
    /// An array of truth values.
    Bools(Vec<bool>),
}

/// Metadata by key, in the order of the keys: `general.architecture`, `llama.block_count`, `tokenizer.ggml.tokens`, …
pub type Metadata = BTreeMap<String, Value>;
