//! Reads GGUF, versions 2 and 3, little endian.
//!
//! Layout (from the GGUF specification): magic `GGUF`, u32 version, u64 number of tensors, u64 number of metadata
//! entries; the entries (key, u32 type, value); the tensor descriptions (name, u32 number of dimensions, u64 each,
//! innermost first, u32 type, u64 offset in the data); padding to `general.alignment`; the data. A string is a u64
//! length and UTF-8 bytes, an array is a u32 type, a u64 length and the items.
//!
//! Decisions where the specification is open or files differ from it:
//! - All text but descriptions of the model (`general.…`) must be UTF-8, token texts too: replacing invalid bytes could make two tokens equal without notice.
//! - Arrays of arrays are refused: no key of any known model uses them.
//! - Offsets must be multiples of the alignment, and tensors must not overlap; gaps between them are allowed.
//! - The padding after the last tensor may be missing.

use onetrip_ir::text::shown;
use std::collections::HashSet;

use super::error::{FileError, KeyError};
use super::types::TensorType;
use super::value::{Metadata, TensorInfo, Value};

/// The first four bytes of a GGUF file.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";
/// Most dimensions of a tensor.
const MAX_DIMS: u32 = 4;
/// Most array items in the metadata of one file. Items take more bytes in memory than in the file (a u8 becomes an i64), so the
/// size of the file alone is not bound enough. The largest vocabularies have under a million items in all.
const MAX_ITEMS: u64 = 1 << 24;
/// Alignment of the data where `general.alignment` is absent.
const DEFAULT_ALIGNMENT: u64 = 32;
/// Fewest bytes of an entry (empty key, type, one-byte value) and of a tensor description (empty name, no dimensions).
const MIN_ENTRY: u64 = 8 + 4 + 1;
const MIN_TENSOR: u64 = 8 + 4 + 4 + 8;

/// The head of one GGUF file, checked against the bytes that the file has.
#[derive(Debug)]
pub(super) struct Head {
    pub version: u32,
    pub metadata: Metadata,
    pub tensors: Vec<TensorInfo>,
}

/// Reads and checks the head of a GGUF file. Every tensor of the result gets `part` as the index of its file.
pub(super) fn read(file: &str, bytes: &[u8], part: usize) -> Result<Head, FileError> {
    let mut r = Reader { file, bytes, at: 0, items: 0 };
    let magic = r.take(4, "the magic number")?;
    if magic != MAGIC {
        return Err(FileError::damaged(file, 0, format!("the magic number is {magic:02x?}, not \"GGUF\"")));
    }
    let version = r.u32("the version")?;
    check_version(file, version)?;
    let tensor_count = r.u64("the number of tensors")?;
    let entry_count = r.u64("the number of metadata entries")?;
    r.room(tensor_count, MIN_TENSOR, "tensors")?;
    r.room(entry_count, MIN_ENTRY, "metadata entries")?;

    let mut metadata = Metadata::new();
    for _ in 0..entry_count {
        let at = r.at;
        let key = r.text("a metadata key")?.to_string();
        let value = r.value(&key)?;
        if metadata.contains_key(&key) {
            return Err(FileError::damaged(file, at, format!("key `{}` occurs twice", shown(&key))));
        }
        metadata.insert(key, value);
    }
    let alignment = alignment(file, &metadata)?;

    // The count was only compared with the bytes that are left, and a description takes several times more bytes in memory than
    // the smallest one in a file. So the list grows as descriptions are read, and nothing is reserved ahead.
    let mut tensors = Vec::new();
    let mut places = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensor_count {
        let (info, offset, at) = r.tensor(part)?;
        if offset % alignment != 0 {
            let what = format!("tensor `{}`: offset {offset} is no multiple of {alignment}", shown(&info.name));
            return Err(FileError::damaged(file, at, what));
        }
        if !names.insert(info.name.clone()) {
            return Err(FileError::damaged(file, at, format!("tensor `{}` occurs twice", shown(&info.name))));
        }
        tensors.push(info);
        places.push((offset, at));
    }

    // This cannot overflow: `at` is an index into the bytes, and the alignment is at most 2^31.
    let data = (r.at as u64).next_multiple_of(alignment);
    for (info, &(offset, at)) in tensors.iter_mut().zip(&places) {
        let start = data.checked_add(offset);
        let end = start.and_then(|s| s.checked_add(info.bytes as u64));
        match (start, end) {
            (Some(start), Some(end)) if end <= bytes.len() as u64 => info.offset = start as usize,
            _ => {
                let what = format!(
                    "tensor `{}`: {} bytes at offset {offset} of the data (which starts at byte {data}) do not fit in \
                     the file of {} bytes",
                    shown(&info.name),
                    info.bytes,
                    bytes.len()
                );
                return Err(FileError::damaged(file, at, what));
            }
        }
    }
    check_overlap(file, &tensors)?;
    Ok(Head { version, metadata, tensors })
}

fn check_version(file: &str, version: u32) -> Result<(), FileError> {
    let (what, hint) = match version {
        2 | 3 => return Ok(()),
        1 => ("GGUF version 1".to_string(), "only versions 2 and 3 are read: convert the model again"),
        v if (1..=0xffff).contains(&v.swap_bytes()) => (
            format!("big-endian GGUF (version {})", v.swap_bytes()),
            "only little-endian files are read: convert it with the gguf package's gguf-convert-endian",
        ),
        v => (format!("GGUF version {v}"), "only versions 2 and 3 are read: update this program or convert the model"),
    };
    Err(FileError::Unsupported { file: file.to_string(), what, hint })
}

/// The value of `general.alignment`. It must be a power of two, and a multiple of 8 as the specification demands, so that every
/// tensor is aligned for its element type.
fn alignment(file: &str, metadata: &Metadata) -> Result<u64, FileError> {
    const KEY: &str = "general.alignment";
    let Some(value) = metadata.get(KEY) else { return Ok(DEFAULT_ALIGNMENT) };
    match value.as_u64() {
        Some(n) if n.is_power_of_two() && (8..=1 << 31).contains(&n) => Ok(n),
        _ => {
            let error = KeyError::Type {
                key: KEY.to_string(),
                want: "a power of two from 8 to 2^31",
                found: format!("{} ({})", value.type_name(), value.brief(40)),
            };
            Err(FileError::Key { file: file.to_string(), error })
        }
    }
}

/// Returns an error if two tensors share a byte.
pub(super) fn check_overlap(file: &str, tensors: &[TensorInfo]) -> Result<(), FileError> {
    let mut order: Vec<&TensorInfo> = tensors.iter().filter(|t| t.bytes > 0).collect();
    order.sort_unstable_by_key(|t| t.offset);
    for pair in order.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            let what = format!("tensors `{}` and `{}` overlap", shown(&pair[0].name), shown(&pair[1].name));
            return Err(FileError::damaged(file, pair[1].offset, what));
        }
    }
    Ok(())
}

/// A cursor that never reads past the end of the bytes; its errors name the item that was being read.
struct Reader<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Array items read so far.
    items: u64,
}

impl<'a> Reader<'a> {
    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn fail<T>(&self, what: impl Into<String>) -> Result<T, FileError> {
        Err(FileError::damaged(self.file, self.at, what))
    }

    /// Returns an error if `count` items of at least `least` bytes each do not fit the rest of the file.
    fn room(&self, count: u64, least: u64, what: &str) -> Result<(), FileError> {
        if count.checked_mul(least).is_some_and(|need| need <= self.left()) {
            return Ok(());
        }
        self.fail(format!("{count} {what} announced, but only {} bytes are left", self.left()))
    }

    fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8], FileError> {
        if n > self.left() {
            return self.fail(format!("{what} needs {n} bytes, but only {} are left", self.left()));
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], FileError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    fn u32(&mut self, what: &str) -> Result<u32, FileError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, FileError> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn text(&mut self, what: &str) -> Result<&'a str, FileError> {
        let at = self.at;
        let length = self.u64(what)?;
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes)
            .map_err(|e| FileError::damaged(self.file, at + 8 + e.valid_up_to(), format!("{what} is not UTF-8")))
    }

    fn value(&mut self, key: &str) -> Result<Value, FileError> {
        let what = format!("the value of key `{}`", shown(key));
        match self.u32(&what)? {
            // A description that is not UTF-8 is no reason to refuse a model: nothing is computed with it.
            8 if key.starts_with("general.") && key != "general.architecture" => {
                let length = self.u64(&what)?;
                Ok(Value::Str(String::from_utf8_lossy(self.take(length, &what)?).into_owned()))
            }
            8 => self.text(&what).map(|s| Value::Str(s.to_string())),
            9 => self.values(&what),
            kind => self.scalar(kind, &what),
        }
    }

    fn scalar(&mut self, kind: u32, what: &str) -> Result<Value, FileError> {
        Ok(match kind {
            0 => Value::U64(u8::from_le_bytes(self.array(what)?).into()),
            1 => Value::I64(i8::from_le_bytes(self.array(what)?).into()),
            2 => Value::U64(u16::from_le_bytes(self.array(what)?).into()),
            3 => Value::I64(i16::from_le_bytes(self.array(what)?).into()),
            4 => Value::U64(self.u32(what)?.into()),
            5 => Value::I64(i32::from_le_bytes(self.array(what)?).into()),
            6 => Value::F64(f32::from_le_bytes(self.array(what)?).into()),
            7 => match self.take(1, what)?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => {
                    let what = format!("{what} is the truth value {other}, neither 0 nor 1");
                    return Err(FileError::damaged(self.file, self.at - 1, what));
                }
            },
            10 => Value::U64(self.u64(what)?),
            11 => Value::I64(i64::from_le_bytes(self.array(what)?)),
            12 => Value::F64(f64::from_le_bytes(self.array(what)?)),
            other => {
                return Err(FileError::damaged(self.file, self.at - 4, format!("{what} has unknown type {other}")));
            }
        })
    }

    fn values(&mut self, what: &str) -> Result<Value, FileError> {
        let at = self.at;
        let kind = self.u32(what)?;
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10 | 11 | 12 => 8,
            9 => {
                return Err(FileError::damaged(
                    self.file,
                    at,
                    format!("{what} is an array of arrays, which is not read"),
                ));
            }
            other => {
                return Err(FileError::damaged(self.file, at, format!("{what} has items of unknown type {other}")));
            }
        };
        let count = self.u64(what)?;
        self.room(count, least, "array items")?;
        self.items = self.items.saturating_add(count);
        if self.items > MAX_ITEMS {
            return self.fail(format!("{what}: more than {MAX_ITEMS} array items in the metadata of one file"));
        }
        let n = count as usize;
        // It is safe to reserve memory: the rest of the file is long enough for `n` items, and `n` is at most 2^24.
        Ok(match kind {
            8 => {
                let mut out = Vec::with_capacity(n);
                for _ in 0..n {
                    out.push(self.text(what)?.to_string());
                }
                Value::Strs(out)
            }
            7 => self.items(n, kind, what, Value::as_bool).map(Value::Bools)?,
            6 | 12 => self.items(n, kind, what, Value::as_f64).map(Value::Floats)?,
            _ => self.items(n, kind, what, Value::as_i64).map(Value::Ints)?,
        })
    }

    fn items<T>(&mut self, n: usize, kind: u32, what: &str, get: fn(&Value) -> Option<T>) -> Result<Vec<T>, FileError> {
        let mut out = Vec::with_capacity(n);
        for _ in 0..n {
            let at = self.at;
            let value = self.scalar(kind, what)?;
            // Only a u64 above i64::MAX does not fit its list, which is one of i64.
            let Some(item) = get(&value) else {
                let what = format!("{what} has an item ({}) that does not fit a signed integer", value.brief(40));
                return Err(FileError::damaged(self.file, at, what));
            };
            out.push(item);
        }
        Ok(out)
    }

    /// Reads one tensor description. Returns the tensor (its place in the file is not known yet), its offset in the data, and
    /// the byte at which the description starts.
    fn tensor(&mut self, part: usize) -> Result<(TensorInfo, u64, usize), FileError> {
        let at = self.at;
        let name = self.text("a tensor name")?.to_string();
        let what = format!("the description of tensor `{}`", shown(&name));
        let dimensions = self.u32(&what)?;
        if dimensions > MAX_DIMS {
            let what = format!("tensor `{}` has {dimensions} dimensions, at most {MAX_DIMS} are allowed", shown(&name));
            return Err(FileError::damaged(self.file, at, what));
        }
        let mut dims = Vec::with_capacity(dimensions as usize);
        for _ in 0..dimensions {
            dims.push(self.u64(&what)?);
        }
        let number = self.u32(&what)?;
        let offset = self.u64(&what)?;
        let Some(kind) = TensorType::from_ggml(number) else {
            return Err(FileError::tensor(
                self.file,
                &name,
                format!("unknown tensor type {number} (description at byte {at})"),
                "convert the model to a known type, such as Q8_0, or update this program",
            ));
        };
        let size = kind.tensor_bytes(&dims).and_then(|n| usize::try_from(n).ok());
        let Some(bytes) = size else {
            let what = format!(
                "tensor `{}`: dimensions {dims:?} are too large, or a row is not whole blocks of {} elements of {}",
                shown(&name),
                kind.block,
                kind.name
            );
            return Err(FileError::damaged(self.file, at, what));
        };
        Ok((TensorInfo { name, dims, kind, bytes, part, offset: 0 }, offset, at))
    }
}
