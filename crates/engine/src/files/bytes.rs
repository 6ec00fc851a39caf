//! The bytes of a file: a memory map, or bytes that are in the program already.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;

use super::error::{FileError, shown_path};

/// Smallest page of the machines this runs on. Where pages are larger, a little of the neighbours is released too,
/// which costs a page fault and nothing else.
const PAGE: usize = 4096;

/// Bytes of one file. The start is aligned to at least 32 bytes.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A read-only map of a file.
    Map(Mmap),
    /// Bytes of the program itself that happen to be aligned.
    Static(&'static [u8]),
    /// A copy, made where the original was not aligned; the number of bytes in it.
    Copied(Vec<Line>, usize),
}

/// 32 aligned bytes.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
pub(super) struct Line([u8; 32]);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
            Bytes::Copied(lines, len) => &bytemuck::cast_slice(lines)[..*len],
        }
    }
}

impl Bytes {
    /// Maps a file. Only regular files: opening a pipe would wait for ever, and a device has no size.
    pub(super) fn map(path: &Path) -> Result<Bytes, FileError> {
        let about = std::fs::metadata(path).map_err(|e| FileError::io(path, "open", e))?;
        if !about.is_file() {
            return Err(FileError::Unsupported {
                file: shown_path(path),
                what: "not a regular file".into(),
                hint: "give a .gguf file, a .safetensors file or a Hugging Face folder",
            });
        }
        let file = File::open(path).map_err(|e| FileError::io(path, "open", e))?;
        // SAFETY: the map is read-only and lives as long as this value. That nobody changes the file meanwhile
        // cannot be enforced: a change would show as other numbers, and a file cut short as SIGBUS, as with every
        // program that maps its weights. Lengths and offsets were checked against the map, not against the file.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| FileError::io(path, "map", e))?;
        Ok(Bytes::Map(map))
    }

    /// Bytes of the program itself; copied once if they are not aligned (`include_bytes!` promises no alignment).
    pub(super) fn embedded(bytes: &'static [u8]) -> Bytes {
        if bytes.as_ptr().align_offset(align_of::<Line>()) == 0 { Bytes::Static(bytes) } else { Bytes::copied(bytes) }
    }

    /// An aligned copy.
    pub(super) fn copied(bytes: &[u8]) -> Bytes {
        let mut lines = vec![Line([0; 32]); bytes.len().div_ceil(32)];
        bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(bytes);
        Bytes::Copied(lines, bytes.len())
    }

    /// Tells the system that the whole pages inside `range` are not needed now. They stay readable (from the file).
    pub(super) fn release(&self, range: Range<usize>) {
        let Bytes::Map(map) = self else { return };
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        if start >= end || end > map.len() {
            return;
        }
        #[cfg(unix)]
        {
            // SAFETY: the map is a shared, read-only map of a file and was never written to, so pages that are
            // dropped come back with the same bytes from the file. `range` lies inside the map (checked above).
            let done = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
            // It is advice: where the system refuses it, memory is freed later and nothing is wrong.
            drop(done);
        }
    }
}
