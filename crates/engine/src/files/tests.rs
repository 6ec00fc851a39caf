//! Tests of the readers: the files that they accept, and the damaged or hostile files that they refuse.

mod gguf;
mod hostile;
mod safetensors;
mod split;

use super::{FileError, GgufWriter, ModelFile, Value};

/// A small GGUF model: every kind of value, several types of tensor.
fn small_gguf() -> Vec<u8> {
    let mut w = GgufWriter::new();
    w.set("general.architecture", Value::Str("llama".into()))
        .set("llama.block_count", Value::U64(2))
        .set("a.large", Value::U64(1 << 40))
        .set("a.negative", Value::I64(-3))
        .set("a.float", Value::F64(0.5))
        .set("a.bool", Value::Bool(true))
        .set("tokenizer.ggml.tokens", Value::Strs(vec!["a".into(), "é".into(), String::new(), "▁the".into()]))
        .set("tokenizer.ggml.token_type", Value::Ints(vec![1, -1, 3, 6]))
        .set("tokenizer.ggml.scores", Value::Floats(vec![0.0, -1.5]))
        .set("a.bools", Value::Bools(vec![true, false]));
    let numbers: Vec<f32> = (0..12).map(|n| n as f32).collect();
    w.tensor_f32("norm.weight", &[4, 3], &numbers).unwrap();
    w.tensor("half.weight", &[3], 1, vec![0, 0x3c, 0, 0x40, 0, 0x42]).unwrap();
    w.tensor("quant.weight", &[32, 2], 8, (0..68).collect::<Vec<u8>>()).unwrap();
    w.to_bytes().unwrap()
}

/// Bytes of a GGUF file put together by hand, so that every field can be wrong.
#[derive(Clone, Default)]
struct Raw(Vec<u8>);

impl Raw {
    /// Magic, version 3, counts.
    fn head(tensors: u64, entries: u64) -> Raw {
        Raw::default().bytes(b"GGUF").u32(3).u64(tensors).u64(entries)
    }

    fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.0.extend(bytes);
        self
    }

    fn u32(self, n: u32) -> Raw {
        self.bytes(&n.to_le_bytes())
    }

    fn u64(self, n: u64) -> Raw {
        self.bytes(&n.to_le_bytes())
    }

    fn text(self, text: &str) -> Raw {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }

    /// A u32 entry.
    fn entry(self, key: &str, value: u32) -> Raw {
        self.text(key).u32(4).u32(value)
    }

    fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Raw {
        self = self.text(name).u32(dims.len() as u32);
        for &d in dims {
            self = self.u64(d);
        }
        self.u32(kind).u64(offset)
    }

    /// Pads to 32 and adds `n` bytes of data.
    fn data(mut self, n: usize) -> Raw {
        self.0.resize(self.0.len().next_multiple_of(32) + n, 7);
        self
    }

    fn open(&self) -> Result<ModelFile, FileError> {
        ModelFile::from_slice("raw.gguf", &self.0)
    }

    /// The error, which must be one line that names the file and contains `part`.
    #[track_caller]
    fn refused(&self, part: &str) {
        refused(self.open(), "raw.gguf", part);
    }
}

/// Checks that this is an error of one line that names `file` and contains `part`.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, FileError>, file: &str, part: &str) {
    let error = result.expect_err("should be refused").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(file), "names no file: {error}");
    assert!(error.contains(part), "does not say `{part}`: {error}");
}

/// Bytes of a safetensors file from its header and data.
fn safetensors_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}
