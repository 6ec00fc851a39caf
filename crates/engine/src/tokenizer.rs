//! Tokenizers: text to token ids and back.
//!
//! A tokenizer comes from the metadata of a GGUF file ([`Tokenizer::from_gguf`]: byte-level BPE with a merge list, or
//! SentencePiece BPE with scores and byte fallback) or from a `tokenizer.json` ([`Tokenizer::from_json_file`]).
//! All of them share one table of token bytes, so decoding, streaming and the special tokens are the same code.
//!
//! On GGUF files the ids equal llama.cpp's; on `tokenizer.json` they equal the `tokenizers` crate's.

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

    /// Builds the tokenizer of a `tokenizer.json`, with the BOS, EOS and chat template of the `tokenizer_config.json`
    /// (and `generation_config.json`, `chat_template.jinja`) beside it where those exist.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, named with the reason.
    pub fn from_json_file(path: &Path) -> Result<Tokenizer, TokenizerError> {
        json::build(path)
    }

    /// Builds a tokenizer from the bytes of a `tokenizer.json` alone: no BOS, EOS or chat template but what is in it.
    ///
    /// # Errors
    /// As [`Tokenizer::from_json_file`]; the path in the message is `tokenizer.json`.
    pub fn from_json_slice(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
        json::from_slice(bytes)
    }
}
