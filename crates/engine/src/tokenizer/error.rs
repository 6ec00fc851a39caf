//! Why a tokenizer cannot be built or used.

/// Why a tokenizer cannot be built or used. Every message is one line that names the place.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A key that the tokenizer needs is not in the metadata.
    #[error("key `{key}` is missing: the file has no tokenizer that can be built")]
    Missing {
        /// The metadata key.
        key: &'static str,
    },
    /// A key is there and its value cannot be used.
    #[error("key `{key}`: {problem}")]
    Invalid {
        /// The metadata key, or the part of `tokenizer.json`.
        key: &'static str,
        /// What is wrong, in words.
        problem: String,
    },
    /// A kind of tokenizer that onetrip does not build.
    #[error("key `{key}` is {value:?}, which is not supported (supported are {supported})")]
    Unsupported {
        /// The metadata key.
        key: &'static str,
        /// The value found.
        value: String,
        /// The values that would work.
        supported: String,
    },
    /// A tokenizer file that cannot be read or parsed.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong, in words.
        problem: String,
    },
    /// A text that the tokenizer gives up on.
    #[error("the text cannot be tokenized: {0}")]
    Encode(String),
}
