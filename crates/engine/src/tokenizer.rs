//! Tokenizers: text to token ids and back.
//!
//! A tokenizer comes from the metadata of a GGUF file ([`Tokenizer::from_gguf`]: byte-level BPE with a merge list, or
//! SentencePiece BPE with scores and byte fallback) or from a `tokenizer.json` ([`Tokenizer::from_json_file`]).
//! All kinds share one table of token bytes, so they also share the code for decoding, streaming and special tokens.
//!
//! For GGUF files the ids are those of llama.cpp; for `tokenizer.json` they are those of the `tokenizers` crate.

mod bpe;
mod encoder;
mod error;
mod gguf;
mod json;
mod special;
mod spm;
mod stream;
mod table;

use std::path::Path;

use crate::files::Metadata;

pub use encoder::Tokenizer;
pub use error::TokenizerError;
pub use special::Special;
pub use stream::{StreamDecoder, Utf8Buffer};
pub use table::TokenKind;

impl Tokenizer {
    /// Builds the tokenizer that a GGUF file describes under `tokenizer.ggml.*`.
    ///
    /// # Errors
    /// A missing or malformed key, an unknown `tokenizer.ggml.model` or `.pre`, a merge or an id outside the vocabulary.
    pub fn from_gguf(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
        gguf::build(metadata)
    }

    /// Builds the tokenizer of a `tokenizer.json`. BOS, EOS and chat template come from the files `tokenizer_config.json`,
    /// `generation_config.json` and `chat_template.jinja` in the same folder, where they exist.
    ///
    /// # Errors
    /// A file cannot be read or parsed; the error has its name and the reason.
    pub fn from_json_file(path: &Path) -> Result<Tokenizer, TokenizerError> {
        json::build(path)
    }

    /// Builds a tokenizer from the bytes of a `tokenizer.json` alone, without BOS, EOS and chat template from other files.
    ///
    /// # Errors
    /// As [`Tokenizer::from_json_file`]; the path in the message is `tokenizer.json`.
    pub fn from_json_slice(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
        json::from_slice(bytes)
    }
}
