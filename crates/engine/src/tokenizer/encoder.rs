//! A tokenizer: text to ids, and what each id is.

use super::bpe::ByteLevelBpe;
use super::error::TokenizerError;
use super::json::pipeline::Pipeline;
use super::special::{Matcher, Part, Special};
use super::spm::ScoredBpe;
use super::table::{Table, TokenKind};

/// What turns a stretch of text without special tokens into ids.
pub(super) enum Model {
    /// Byte-level BPE from GGUF metadata.
    Bpe(Box<ByteLevelBpe>),
    /// SentencePiece BPE by scores from GGUF metadata.
    Spm(Box<ScoredBpe>),
    /// A whole pipeline from a `tokenizer.json`; it finds special tokens itself.
    Json(Box<Pipeline>),
}

/// A tokenizer, ready to encode and decode. It is shared freely between threads.
pub struct Tokenizer {
    pub(super) table: Table,
    pub(super) model: Model,
    pub(super) matcher: Matcher,
    /// One flag a token: generation ends here.
    pub(super) ends: Vec<bool>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// SentencePiece puts a space before the first word; decoding from the start takes it away again.
    pub(super) space_prefix: bool,
    pub(super) chat_template: Option<String>,
}

impl Tokenizer {
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
