//! The pipeline of the `tokenizers` crate, in one version that finds special tokens in a text and one that does not.

use std::sync::OnceLock;

use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::special::Special;

/// The pipeline of the crate, and a second one that reads the text of special tokens as plain text. The choice is a setting of
/// a whole pipeline in the crate, so a second pipeline is needed; it is made when first used.
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
