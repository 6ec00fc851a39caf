//! Errors of model files. Every message is one line with the file, the place in it, and advice.

use std::path::Path;

use onetrip_ir::text::{shorten, shown};

/// Why a model file was refused. `Display` is one line; names from the file are escaped and shortened, so a
/// hostile name cannot break a terminal or a log.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused to open, read or map the file.
    #[error("{file}: cannot {action}: {source}; check the path and its permissions")]
    Io {
        /// Path as shown.
        file: String,
        /// The action that failed, as a verb: "open", "read", "map".
        action: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is of an unsupported kind or variant.
    #[error("{file}: {what}; {hint}")]
    Unsupported {
        /// Path as shown.
        file: String,
        /// The kind or variant that was found, in words.
        what: String,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The bytes contradict the format.
    #[error("{file}: byte {offset}: {what}; the file is cut off or damaged: fetch or convert it again")]
    Damaged {
        /// Path as shown.
        file: String,
        /// Byte in the file at which the contradiction was found.
        offset: u64,
        /// The contradiction, in words.
        what: String,
    },
    /// A metadata entry is missing or does not fit.
    #[error("{file}: {error}")]
    Key {
        /// Path as shown.
        file: String,
        /// The key, and why its entry cannot be used.
        error: KeyError,
    },
    /// A tensor is missing, or its description does not fit.
    #[error("{file}: tensor `{tensor}`: {what}; {hint}")]
    Tensor {
        /// Path as shown.
        file: String,
        /// Name of the tensor, escaped.
        tensor: String,
        /// The reason, in words.
        what: String,
        /// Advice to the user.
        hint: &'static str,
    },
    /// A part of a split model, or a file of a Hugging Face folder, is missing or is not the one it should be.
    #[error("{file}: {what}; {hint}")]
    Part {
        /// Path of the part as shown.
        file: String,
        /// The reason, in words.
        what: String,
        /// Advice to the user.
        hint: &'static str,
    },
    /// A JSON file of a Hugging Face folder cannot be understood.
    #[error("{file}: {what}; fetch the file again")]
    Json {
        /// Path as shown.
        file: String,
        /// Error text of the parser, with line and column.
        what: String,
    },
}

/// Why a metadata entry cannot be used. The error names the key; [`ModelFile::key`](super::ModelFile::key) adds the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such entry.
    #[error("key `{key}` is missing; convert the model again with a current converter")]
    Missing {
        /// The key.
        key: String,
    },
    /// The entry has another type than the caller wants.
    #[error("key `{key}` should be {want} but is {found}; convert the model again with a current converter")]
    Type {
        /// The key.
        key: String,
        /// The wanted type, in words.
        want: &'static str,
        /// The type in the file, in words.
        found: String,
    },
    /// The number is larger than any real model needs; since it sizes memory or a loop, it is refused.
    #[error("key `{key}` is {found}, above the limit of {limit}; the file is damaged or not for this program")]
    Limit {
        /// The key.
        key: String,
        /// The number in the file.
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

/// A path as one line of text: control characters are escaped, and at most 4096 characters are kept.
pub(super) fn shown_path(path: &Path) -> String {
    shorten(&path.to_string_lossy(), 4096)
}
