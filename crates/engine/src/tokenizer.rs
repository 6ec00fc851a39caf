//! Tokenizers: text to token ids and back.
//!
//! A tokenizer comes from the metadata of a GGUF file ([`Tokenizer::from_gguf`]: byte-level BPE with a merge list, or
//! SentencePiece BPE with scores and byte fallback) or from a `tokenizer.json` ([`Tokenizer::from_json_file`]).
//! All of them share one table of token bytes, so decoding, streaming and the special tokens are the same code.
//!
//! On GGUF files the ids equal llama.cpp's; on `tokenizer.json` they equal the `tokenizers` crate's.

mod bpe;
mod gguf;
mod json;
mod special;
mod spm;
mod stream;
mod table;

use std::path::Path;

use crate::files::Metadata;
pub use stream::{StreamDecoder, Utf8Buffer};
pub use table::TokenKind;

use special::Matcher;
use table::Table;

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

/// How [`Tokenizer::encode`] treats special tokens: two separate choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// Put the beginning-of-sequence token before (and the end-of-sequence token after) the text, where the model asks for it.
    pub add: bool,
    /// Read the text of control tokens, such as `<|im_end|>`, as those tokens. Off for text that a user wrote.
    pub parse: bool,
}

impl Special {
    /// The text alone: nothing added, control tokens are read as plain text.
    pub const NONE: Special = Special { add: false, parse: false };
    /// A prompt: both. (A rendered chat template brings its own BOS: use [`Special::TEMPLATE`].)
    pub const PROMPT: Special = Special { add: true, parse: true };
    /// A rendered chat template: nothing added, control tokens read as such.
    pub const TEMPLATE: Special = Special { add: false, parse: true };
}

/// What turns a stretch of text without special tokens into ids.
enum Model {
    /// Byte-level BPE from GGUF metadata.
    Bpe(Box<bpe::ByteLevelBpe>),
    /// SentencePiece BPE by scores from GGUF metadata.
    Spm(Box<spm::ScoredBpe>),
    /// A whole pipeline from a `tokenizer.json`; it finds special tokens itself.
    Json(Box<json::Pipeline>),
}

/// A tokenizer, ready to encode and decode. It is shared freely between threads.
pub struct Tokenizer {
    table: Table,
    model: Model,
    matcher: Matcher,
    /// One flag a token: generation ends here.
    ends: Vec<bool>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// SentencePiece puts a space before the first word; decoding from the start takes it away again.
    space_prefix: bool,
    chat_template: Option<String>,
}

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

    /// The ids of `text`.
    ///
    /// # Errors
    /// Only where the `tokenizers` crate gives up on a text (a regular expression that runs out of its limit).
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        if special.add && self.add_bos {
            ids.extend(self.bos);
        }
        if let Model::Json(pipeline) = &self.model {
            let body = pipeline.encode(text, special)?;
            // The pipeline's own template may have added the BOS already.
            let start = usize::from(!ids.is_empty() && body.first() == ids.first());
            ids.extend_from_slice(&body[start..]);
        } else {
            self.encode_parts(text, special.parse, &mut ids)?;
        }
        if special.add && self.add_eos && self.eos.is_some() && ids.last().copied() != self.eos {
            ids.extend(self.eos);
        }
        Ok(ids)
    }

    fn encode_parts(&self, text: &str, parse: bool, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let mut after_special = true;
        for part in self.matcher.split(text, parse) {
            match part {
                special::Part::Token(id) => ids.push(id),
                special::Part::Text(text) => match &self.model {
                    Model::Bpe(bpe) => bpe.encode(text, ids)?,
                    Model::Spm(spm) => spm.encode(text, self.space_prefix && after_special, ids),
                    Model::Json(_) => {}
                },
            }
            after_special = matches!(part, special::Part::Token(_));
        }
        Ok(())
    }

    /// The text of `ids` as a reader should see it: control tokens left out, and without the space that SentencePiece
    /// puts before the first word. Bytes that are not UTF-8, and ids outside the vocabulary, become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream_from_start();
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.flush());
        text
    }

    /// The text of `ids` with everything in it: control tokens by name, and the first space. For logs and tests.
    pub fn decode_verbatim(&self, ids: &[u32]) -> String {
        let mut buffer = Utf8Buffer::default();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&buffer.push(self.token_bytes(id)));
        }
        text.push_str(&buffer.flush());
        text
    }

    /// A decoder for tokens that continue a text, as a model's answer continues its prompt.
    pub fn stream(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, false)
    }

    /// A decoder for tokens from the beginning of a text: it drops the space that SentencePiece puts there.
    pub fn stream_from_start(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, self.space_prefix)
    }

    /// The bytes that a token stands for: not always whole UTF-8 characters; the name of a control token; U+FFFD for an
    /// id outside the vocabulary; nothing for an unused one.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.table.bytes(id).unwrap_or("\u{FFFD}".as_bytes())
    }

    /// How many ids there are, holes included: ids are below this number.
    pub fn vocab_size(&self) -> usize {
        self.table.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token. Generation ends at more than this one: see [`Tokenizer::is_end`].
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether the model asks for a BOS before every prompt.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether generation ends at this token: end of sequence, of turn, of message, by the file's metadata or by name.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.get(id as usize).copied().unwrap_or(false)
    }

    /// Whether a reader should not see this token (control and unknown tokens).
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.table.kind(id), Some(TokenKind::Control | TokenKind::Unknown))
    }

    /// What kind of token this is; `None` outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.table.kind(id)
    }

    /// The chat template that came with the tokenizer: Jinja source for [`crate::chat::ChatTemplate`]. An empty one is
    /// none.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref().filter(|source| !source.trim().is_empty())
    }
}
