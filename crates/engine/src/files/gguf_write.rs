//! Writes GGUF version 3.

use onetrip_ir::text::shown;
use std::borrow::Cow;
use std::io::{self, Write};

use super::types::TensorType;
use super::value::{Metadata, Value};

/// Why a model cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The description of a tensor is invalid.
    #[error("tensor `{tensor}`: {what}; nothing was written")]
    Tensor {
        /// Name of the tensor, escaped.
        tensor: String,
        /// The reason, in words.
        what: String,
    },
    /// The value of `general.alignment` is not allowed.
    #[error("key `general.alignment` should be a power of two from 8 to 65536; nothing was written")]
    Alignment,
    /// The system could not write the file.
    #[error("the model cannot be written: {0}; check the disk")]
    Io(#[from] io::Error),
}

/// Collects metadata and tensors and writes them as one GGUF file, little endian.
///
/// ```
/// use onetrip_engine::files::{GgufWriter, ModelFile, Value};
///
/// let mut writer = GgufWriter::new();
/// writer.set("general.architecture", Value::Str("llama".into()));
/// writer.tensor_f32("output_norm.weight", &[4], &[1.0, 2.0, 3.0, 4.0])?;
/// let file = ModelFile::from_slice("example", &writer.to_bytes()?)?;
/// assert_eq!(file.tensor("output_norm.weight").map(|t| t.bytes), Some(16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct GgufWriter<'a> {
    metadata: Metadata,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Debug)]
struct Tensor<'a> {
    name: String,
    dims: Vec<u64>,
    number: u32,
    data: Cow<'a, [u8]>,
}

impl<'a> GgufWriter<'a> {
    /// A writer without metadata and tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a metadata entry. Its type in the file is the one that converters write and readers expect: the smaller of u32 and
    /// u64, or of i32 and i64, that holds the number (or all numbers of a list), and f32 for floats.
    pub fn set(&mut self, key: impl Into<String>, value: Value) -> &mut Self {
        self.metadata.insert(key.into(), value);
        self
    }

    /// Sets all entries of `metadata`, such as those of a model that is written again in another format.
    pub fn set_all(&mut self, metadata: &Metadata) -> &mut Self {
        self.metadata.extend(metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        self
    }

    /// Adds a tensor of any type that GGUF has a number for. `dims` has at most four dimensions, innermost first; `data` must
    /// have exactly the bytes of the tensor's blocks.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dims: &[u64],
        ggml_type: u32,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, WriteError> {
        let (name, data) = (name.into(), data.into());
        let refuse = |what: String| WriteError::Tensor { tensor: shown(&name), what };
        let kind = TensorType::from_ggml(ggml_type).ok_or_else(|| refuse(format!("unknown type {ggml_type}")))?;
        if dims.len() > 4 {
            return Err(refuse(format!("{} dimensions, at most 4 are allowed", dims.len())));
        }
        if kind.tensor_bytes(dims) != Some(data.len() as u64) {
            return Err(refuse(format!("{} bytes are not {dims:?} of {}", data.len(), kind.name)));
        }
        if self.tensors.iter().any(|t| t.name == name) {
            return Err(refuse("there is one of this name already".into()));
        }
        self.tensors.push(Tensor { name, dims: dims.to_vec(), number: ggml_type, data });
        Ok(self)
    }

    /// Adds a tensor of f32 elements.
    pub fn tensor_f32(&mut self, name: impl Into<String>, dims: &[u64], data: &[f32]) -> Result<&mut Self, WriteError> {
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, dims, 0, bytes)
    }

    /// Writes the file. Every tensor, also the last one, is padded to the alignment: `general.alignment`, or 32 without it.
    pub fn write(&self, mut to: impl Write) -> Result<(), WriteError> {
        let alignment = match self.metadata.get("general.alignment").map(Value::as_u64) {
            None => 32,
            Some(Some(n)) if n.is_power_of_two() && (8..=65536).contains(&n) => n as usize,
            Some(_) => return Err(WriteError::Alignment),
        };
        let mut head = Vec::new();
        head.extend(super::gguf::MAGIC);
        head.extend(3u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            text(&mut head, key);
            put(&mut head, value);
        }
        let mut offset = 0usize;
        for t in &self.tensors {
            text(&mut head, &t.name);
            head.extend((t.dims.len() as u32).to_le_bytes());
            for d in &t.dims {
                head.extend(d.to_le_bytes());
            }
            head.extend(t.number.to_le_bytes());
            head.extend((offset as u64).to_le_bytes());
            offset += t.data.len().next_multiple_of(alignment);
        }
        let padding = vec![0u8; alignment];
        let pad = |length: usize| &padding[..length.next_multiple_of(alignment) - length];
        to.write_all(&head)?;
        to.write_all(pad(head.len()))?;
        for t in &self.tensors {
            to.write_all(&t.data)?;
            to.write_all(pad(t.data.len()))?;
        }
        Ok(to.flush()?)
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(out)
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put(out: &mut Vec<u8>, value: &Value) {
    let kind = |out: &mut Vec<u8>, number: u32| out.extend(number.to_le_bytes());
    let list = |out: &mut Vec<u8>, number: u32, length: usize| {
        out.extend(9u32.to_le_bytes());
        out.extend(number.to_le_bytes());
        out.extend((length as u64).to_le_bytes());
    };
    match value {
        Value::U64(n) => match u32::try_from(*n) {
            Ok(n) => {
                kind(out, 4);
                out.extend(n.to_le_bytes());
            }
            Err(_) => {
                kind(out, 10);
                out.extend(n.to_le_bytes());
            }
        },
        Value::I64(n) => match i32::try_from(*n) {
            Ok(n) => {
                kind(out, 5);
                out.extend(n.to_le_bytes());
            }
            Err(_) => {
                kind(out, 11);
                out.extend(n.to_le_bytes());
            }
        },
        Value::F64(x) => {
            kind(out, 6);
            out.extend((*x as f32).to_le_bytes());
        }
        Value::Bool(b) => {
            kind(out, 7);
            out.push(u8::from(*b));
        }
        Value::Str(s) => {
            kind(out, 8);
            text(out, s);
        }
        Value::Strs(v) => {
            list(out, 8, v.len());
            v.iter().for_each(|s| text(out, s));
        }
        Value::Ints(v) => {
            let small: Result<Vec<i32>, _> = v.iter().map(|&n| i32::try_from(n)).collect();
            match small {
                Ok(small) => {
                    list(out, 5, v.len());
                    small.iter().for_each(|n| out.extend(n.to_le_bytes()));
                }
                Err(_) => {
                    list(out, 11, v.len());
                    v.iter().for_each(|n| out.extend(n.to_le_bytes()));
                }
            }
        }
        Value::Floats(v) => {
            list(out, 6, v.len());
            v.iter().for_each(|x| out.extend((*x as f32).to_le_bytes()));
        }
        Value::Bools(v) => {
            list(out, 7, v.len());
            out.extend(v.iter().map(|&b| u8::from(b)));
        }
    }
}
