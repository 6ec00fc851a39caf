//! The tokenizer: encodes text to ids, and tells the bytes and the kind of each id.

use super::bpe::ByteLevelBpe;
use super::error::TokenizerError;
use super::json::pipeline::Pipeline;
use super::special::{Matcher, Part, Special};
use super::spm::ScoredBpe;
use super::table::{Table, TokenKind};

/// The algorithm that encodes text without special tokens.
pub(super) enum Model {
    /// Byte-level BPE from GGUF metadata.
    Bpe(Box<ByteLevelBpe>),
    /// SentencePiece BPE by scores from GGUF metadata.
    Spm(Box<ScoredBpe>),
    /// The pipeline of a `tokenizer.json`; unlike the others it finds special tokens itself.
    Json(Box<Pipeline>),
}

/// A tokenizer, ready to encode and decode. Threads can share one.
pub struct Tokenizer {
    pub(super) table: Table,
    pub(super) model: Model,
    pub(super) matcher: Matcher,
    /// For each id, whether generation ends at this token.
    pub(super) ends: Vec<bool>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Encoding puts a space before the first word (SentencePiece); decoding from the start removes it again.
    pub(super) space_prefix: bool,
    pub(super) chat_template: Option<String>,
    pub(super) notes: Vec<String>,
}

impl Tokenizer {
    /// What the files say of tokens and what was not used, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Encodes `text`.
    ///
    /// # Errors
    /// The `tokenizers` crate fails on the text, for instance because a regular expression exceeds its limit.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        if special.add && self.add_bos {
            ids.extend(self.bos);
        }
        if let Model::Json(pipeline) = &self.model {
            let body = pipeline.encode(text, special)?;
            // If the template of the pipeline has added BOS too, one of the two is dropped.
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
                Part::Token(id) => ids.push(id),
                Part::Text(text) => match &self.model {
                    Model::Bpe(bpe) => bpe.encode(text, ids)?,
                    Model::Spm(spm) => spm.encode(text, self.space_prefix && after_special, ids),
                    Model::Json(_) => {}
                },
            }
            after_special = matches!(part, Part::Token(_));
        }
        Ok(())
    }

    /// The bytes of a token, which may be part of a UTF-8 character. For a control token they are its name, for an id outside
    /// the vocabulary U+FFFD, and for an unused id nothing.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.table.bytes(id).unwrap_or("\u{FFFD}".as_bytes())
    }

    /// Number of ids, with unused ones; every id is below this number.
    pub fn vocab_size(&self) -> usize {
        self.table.len()
    }

    /// The beginning-of-sequence token, if the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token, if the model has one. Generation may end at other tokens too: see [`Tokenizer::is_end`].
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether the model asks for a BOS before every prompt.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether generation ends at this token. It does at the end of a sequence, turn or message, which are known by the
    /// metadata of the file or by the names of tokens.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.get(id as usize).copied().unwrap_or(false)
    }

    /// Whether decoded text leaves this token out (control and unknown tokens).
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.table.kind(id), Some(TokenKind::Control | TokenKind::Unknown))
    }

    /// The kind of a token; `None` for an id outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.table.kind(id)
    }

    /// The chat template that comes with the tokenizer, as Jinja source for [`crate::chat::ChatTemplate`]; `None` if it is
    /// empty.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref().filter(|source| !source.trim().is_empty())
    }
}
