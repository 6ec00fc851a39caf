//! The pipeline of the `tokenizers` crate, with and without special tokens read in the text.

use std::sync::OnceLock;

use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::special::Special;

/// The crate's pipeline, and a second one that reads the text of special tokens as plain text. The crate keeps that
/// choice inside the pipeline, so the second is made when first asked for.
pub(in crate::tokenizer) struct Pipeline {
    pub(super) parsing: tokenizers::Tokenizer,
    pub(super) plain: OnceLock<tokenizers::Tokenizer>,
}

impl Pipeline {
    pub(in crate::tokenizer) fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        let pipeline = if special.parse {
            &self.parsing
        } else {
            self.plain.get_or_init(|| {
                let mut plain = self.parsing.clone();
                plain.set_encode_special_tokens(true);
                plain
            })
        };
        let encoding = pipeline.encode_fast(text, special.add).map_err(|e| TokenizerError::Encode(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }
}
