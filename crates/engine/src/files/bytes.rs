//! The bytes of a file: a memory map, or bytes that are part of the program.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;

use super::error::{FileError, shown_path};
use super::stand_in;

/// Smallest size of memory pages of supported machines. Where pages are larger, releasing a range also releases some bytes of
/// its neighbours, which costs them a page fault and has no other effect.
const PAGE: usize = 4096;

/// Bytes of one file. The start is aligned to at least 32 bytes.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A read-only map of a file.
    Map(Mmap),
    /// Bytes of the program itself that happen to be aligned.
    Static(&'static [u8]),
    /// An aligned copy of bytes that were not aligned, and the number of bytes in it (its last line may be filled in part).
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
    /// Maps a regular file of weights. Others are refused: opening a pipe would block, a device has no size, and what a
    /// download left in the place of the file ([`stand_in`]) has no weights.
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
        // SAFETY: the map is read-only and lives as long as this value. It cannot be enforced that no other process changes
        // the file meanwhile: a change would appear as other weights, and a truncated file would raise SIGBUS, as in every
        // program that maps its weights. Lengths and offsets were checked against the map, not against the file.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| FileError::io(path, "map", e))?;
        stand_in::refuse(path, &map)?;
        Ok(Bytes::Map(map))
    }

    /// Bytes of the program itself; they are copied if they are not aligned, since `include_bytes!` promises no alignment.
    pub(super) fn embedded(bytes: &'static [u8]) -> Bytes {
        if bytes.as_ptr().align_offset(align_of::<Line>()) == 0 { Bytes::Static(bytes) } else { Bytes::copied(bytes) }
    }

    /// An aligned copy.
    pub(super) fn copied(bytes: &[u8]) -> Bytes {
        let mut lines = vec![Line([0; 32]); bytes.len().div_ceil(32)];
        bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(bytes);
        Bytes::Copied(lines, bytes.len())
    }

    /// Tells the system that the pages which lie wholly inside `range` are not needed now. They can still be read, again from
    /// the file.
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
            // A refusal is no error: the system then frees the memory later.
            drop(done);
        }
    }
}
