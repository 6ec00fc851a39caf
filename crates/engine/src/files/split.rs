//! The parts of a split GGUF model: `NAME-00001-of-00003.gguf` and its siblings.
//!
//! Each part is a whole GGUF file with `split.no` (from 0), `split.count` and its own tensors; the first holds the
//! metadata of the model and `split.tensors.count`, the number of tensors of all parts.

use std::path::Path;

use super::error::{FileError, shown_path};
use super::metadata::MetadataAccess as _;
use super::{Metadata, bytes::Bytes, gguf};

/// The parts of a model in order: name and bytes of each file, and its head.
pub(super) struct Parts {
    pub files: Vec<(String, Bytes)>,
    pub heads: Vec<gguf::Head>,
}

/// Number of parts of the model, from the metadata of any part; 1 if the model is not split.
pub(super) fn count(file: &str, metadata: &Metadata) -> Result<u64, FileError> {
    let count = metadata.opt_u64("split.count").map_err(|error| FileError::Key { file: file.to_string(), error })?;
    match count.unwrap_or(1) {
        0 | 1 => Ok(1),
        n if n <= 99_999 => Ok(n),
        n => Err(FileError::Part {
            file: file.to_string(),
            what: format!("split.count is {n}, above the largest possible number of parts, 99999"),
            hint: "fetch the file again",
        }),
    }
}

/// Opens all parts of a split model; `path` is any of the parts.
pub(super) fn open(path: &Path, count: u64) -> Result<Parts, FileError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(stem) = stem(&name, count) else {
        return Err(FileError::Part {
            file: shown_path(path),
            what: format!("a part of a model in {count} parts, but its name does not end in -NNNNN-of-{count:05}.gguf"),
            hint: "give all parts the names they were made with",
        });
    };
    let mut parts = Parts { files: Vec::new(), heads: Vec::new() };
    for n in 0..count {
        let path = path.with_file_name(format!("{stem}-{:05}-of-{count:05}.gguf", n + 1));
        let file = shown_path(&path);
        if !path.exists() {
            return Err(FileError::Part {
                file,
                what: format!("part {} of {count} is missing", n + 1),
                hint: "put all parts into one folder",
            });
        }
        let bytes = Bytes::map(&path)?;
        let head = gguf::read(&file, &bytes, parts.files.len())?;
        check(&file, &head.metadata, n, count)?;
        parts.files.push((file, bytes));
        parts.heads.push(head);
    }
    check_total(&parts)?;
    Ok(parts)
}

/// `NAME` of `NAME-00001-of-00003.gguf`.
fn stem(name: &str, count: u64) -> Option<&str> {
    let rest = name.strip_suffix(&format!("-of-{count:05}.gguf"))?;
    let (stem, number) = rest.rsplit_once('-')?;
    (number.len() == 5 && number.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}

fn check(file: &str, metadata: &Metadata, number: u64, count: u64) -> Result<(), FileError> {
    for (key, want) in [("split.no", number), ("split.count", count)] {
        let found = metadata.get_u64(key).map_err(|error| FileError::Key { file: file.to_string(), error })?;
        if found != want {
            return Err(FileError::Part {
                file: file.to_string(),
                what: format!("{key} is {found}, but {want} belongs here"),
                hint: "put parts of one model, with their own names, into one folder",
            });
        }
    }
    Ok(())
}

fn check_total(parts: &Parts) -> Result<(), FileError> {
    let file = &parts.files[0].0;
    let want = parts.heads[0].metadata.opt_u64("split.tensors.count");
    let want = want.map_err(|error| FileError::Key { file: file.clone(), error })?;
    let found: usize = parts.heads.iter().map(|h| h.tensors.len()).sum();
    match want {
        Some(want) if want != found as u64 => Err(FileError::Part {
            file: file.clone(),
            what: format!("split.tensors.count is {want}, but the parts hold {found} tensors"),
            hint: "put parts of one model into one folder",
        }),
        _ => Ok(()),
    }
}
