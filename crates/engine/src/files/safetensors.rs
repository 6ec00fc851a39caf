//! Reads the head of a safetensors file.
//!
//! Layout: u64 length of the header, little endian; the header, JSON: name → `dtype`, `shape` (outermost first),
//! `data_offsets` (start and end in the data), and `__metadata__` (text → text); the data, which the tensors cover
//! without gap or overlap.
//!
//! The `safetensors` crate is not used for reading, because it keeps the last of two tensors with the same name, refuses a
//! whole file for one unknown dtype, and adds the end of the data to the length of the header without an overflow check.

use onetrip_ir::text::shown;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::error::FileError;
use super::gguf::check_overlap;
use super::types::TensorType;
use super::value::TensorInfo;

/// Largest header that is read (the limit of the format).
const MAX_HEADER: u64 = 100_000_000;
/// Most dimensions of a tensor.
const MAX_DIMS: usize = 8;

/// The head of one safetensors file, checked against the bytes that the file has.
#[derive(Debug)]
pub(super) struct Head {
    pub notes: BTreeMap<String, String>,
    pub tensors: Vec<TensorInfo>,
}

/// Reads and checks the head of a safetensors file. Every tensor of the result gets `part` as the index of its file.
pub(super) fn read(file: &str, bytes: &[u8], part: usize) -> Result<Head, FileError> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(FileError::damaged(file, 0, format!("a header needs 8 bytes, the file has {}", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER || length > rest.len() as u64 {
        let what = format!("a header of {length} bytes announced, but only {} follow (limit {MAX_HEADER})", rest.len());
        return Err(FileError::damaged(file, 0, what));
    }
    let (header, data) = rest.split_at(length as usize);
    let header: Header = serde_json::from_slice(header).map_err(|e| {
        // A header is usually one line, so the column gives the byte; in a header of several lines the error names its start.
        let column = if e.line() == 1 { e.column() } else { 0 };
        FileError::damaged(file, 8 + column, format!("the header is not understood: {}", shown(&e.to_string())))
    })?;

    let start = 8 + length as usize;
    let mut covered = 0u64;
    let mut tensors = Vec::new();
    for (name, entry) in header.tensors {
        tensors.push(tensor(file, name, entry, part, start, data.len())?);
    }
    tensors.sort_by_key(|t| (t.offset, t.bytes));
    check_overlap(file, &tensors)?;
    for t in &tensors {
        // This cannot overflow: no two tensors overlap, and each lies inside the data.
        covered += t.bytes as u64;
    }
    if covered != data.len() as u64 {
        let what = format!("the tensors cover {covered} of {} bytes of data", data.len());
        return Err(FileError::damaged(file, start, what));
    }
    Ok(Head { notes: header.notes, tensors })
}

fn tensor(
    file: &str,
    name: String,
    entry: Entry,
    part: usize,
    start: usize,
    length: usize,
) -> Result<TensorInfo, FileError> {
    const HINT: &str = "the file is cut off or damaged: fetch or convert it again";
    let (from, to) = entry.data_offsets;
    if from > to || to > length as u64 {
        let what = format!("bytes {from} to {to} of the data do not fit in its {length} bytes");
        return Err(FileError::tensor(file, &name, what, HINT));
    }
    let kind = TensorType::from_safetensors(&entry.dtype);
    let mut dims = entry.shape.0;
    dims.reverse();
    // The number of bytes can be checked only for known types.
    if kind.bytes > 0 && kind.tensor_bytes(&dims) != Some(to - from) {
        let what = format!("{} bytes do not hold {} elements of {} each", to - from, shape_text(&dims), kind.name);
        return Err(FileError::tensor(file, &name, what, HINT));
    }
    Ok(TensorInfo { name, dims, kind, bytes: (to - from) as usize, part, offset: start + from as usize })
}

fn shape_text(dims: &[u64]) -> String {
    dims.iter().rev().map(u64::to_string).collect::<Vec<_>>().join("×")
}

struct Header {
    notes: BTreeMap<String, String>,
    tensors: Vec<(String, Entry)>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

/// Dimensions of a tensor. A list longer than [`MAX_DIMS`] is refused while it is parsed, before it takes memory.
struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a list of at most {MAX_DIMS} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
                let mut dims = Vec::new();
                while let Some(d) = seq.next_element()? {
                    if dims.len() == MAX_DIMS {
                        return Err(A::Error::custom(format!("more than {MAX_DIMS} dimensions")));
                    }
                    dims.push(d);
                }
                Ok(Shape(dims))
            }
        }
        d.deserialize_seq(Dims)
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensor descriptions")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { notes: BTreeMap::new(), tensors: Vec::new() };
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{}` occurs twice", shown(&name))));
                    }
                    if name == "__metadata__" {
                        header.notes = map.next_value()?;
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        d.deserialize_map(Entries)
    }
}
