//! Errors of tokenizers.

/// Why a tokenizer cannot be built or used. Every message is one line that names the place.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A key that the tokenizer needs is not in the metadata.
    #[error("key `{key}` is missing: the file has no tokenizer that can be built")]
    Missing {
        /// The metadata key.
        key: &'static str,
    },
    /// The value of a key cannot be used.
    #[error("key `{key}`: {problem}")]
    Invalid {
        /// The metadata key, or the part of `tokenizer.json`.
        key: &'static str,
        /// The reason, in words.
        problem: String,
    },
    /// A kind of tokenizer that onetrip does not build.
    #[error("key `{key}` is {value:?}, which is not supported (supported are {supported})")]
    Unsupported {
        /// The metadata key.
        key: &'static str,
        /// The value found.
        value: String,
        /// The supported values, in words.
        supported: String,
    },
    /// A tokenizer file that cannot be read or parsed.
    #[error("{path}: {problem}")]
    File {
        /// Path of the file.
        path: String,
        /// The reason, in words.
        problem: String,
    },
    /// A text that cannot be encoded; the field has the error of the `tokenizers` crate.
    #[error("the text cannot be tokenized: {0}")]
    Encode(String),
}
