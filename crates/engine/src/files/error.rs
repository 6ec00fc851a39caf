//! What can be wrong with a model file. Every message is one line: the file, the place, what to do.

use std::path::Path;

use onetrip_ir::text::{shorten, shown};

/// Why a model file was refused. `Display` is one line; names from the file are escaped and shortened, so a
/// hostile name cannot break a terminal or a log.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {source}; check the path and its permissions")]
    Io {
        /// Path as shown.
        file: String,
        /// What was tried, as a verb: "open", "read", "map".
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is of no kind that is read, or of a variant that is not.
    #[error("{file}: {what}; {hint}")]
    Unsupported {
        /// Path as shown.
        file: String,
        /// What was found.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// The bytes contradict the format.
    #[error("{file}: byte {offset}: {what}; the file is cut off or damaged: fetch or convert it again")]
    Damaged {
        /// Path as shown.
        file: String,
        /// Where, from the start of the file.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// A metadata entry is missing or does not fit.
    #[error("{file}: {error}")]
    Key {
        /// Path as shown.
        file: String,
        /// Which key and why.
        error: KeyError,
    },
    /// A tensor is missing, or its description does not fit.
    #[error("{file}: tensor `{tensor}`: {what}; {hint}")]
    Tensor {
        /// Path as shown.
        file: String,
        /// Name, escaped.
        tensor: String,
        /// What does not fit.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// A part of a split model, or a file of a Hugging Face folder, is missing or is not the one it should be.
    #[error("{file}: {what}; {hint}")]
    Part {
        /// Path of the part as shown.
        file: String,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// A JSON file of a Hugging Face folder cannot be understood.
    #[error("{file}: {what}; fetch the file again")]
    Json {
        /// Path as shown.
        file: String,
        /// The parser's words with line and column.
        what: String,
    },
}

/// Why a metadata entry cannot be used. It names the key; the file is added by
/// [`ModelFile::key`](super::ModelFile::key).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such entry.
    #[error("key `{key}` is missing; convert the model again with a current converter")]
    Missing {
        /// The key.
        key: String,
    },
    /// The entry is of another type.
    #[error("key `{key}` should be {want} but is {found}; convert the model again with a current converter")]
    Type {
        /// The key.
        key: String,
        /// What was asked for.
        want: &'static str,
        /// What is there.
        found: String,
    },
    /// The number is larger than anything sensible (it would size memory or a loop).
    #[error("key `{key}` is {found}, above the limit of {limit}; the file is damaged or not for this program")]
    Limit {
        /// The key.
        key: String,
        /// The number.
        found: u64,
        /// The largest accepted number.
        limit: u64,
    },
}

impl FileError {
    pub(super) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        FileError::Io { file: shown_path(path), action, source }
    }

    pub(super) fn damaged(file: &str, offset: usize, what: impl Into<String>) -> Self {
        FileError::Damaged { file: file.to_string(), offset: offset as u64, what: what.into() }
    }

    pub(crate) fn tensor(file: &str, tensor: &str, what: impl Into<String>, hint: &'static str) -> Self {
        FileError::Tensor { file: file.to_string(), tensor: shown(tensor), what: what.into(), hint }
    }
}

/// A path, made fit for one line.
pub(super) fn shown_path(path: &Path) -> String {
    shorten(&path.to_string_lossy(), 4096)
}
