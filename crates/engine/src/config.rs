//! The configuration of a model, read from GGUF metadata or from the `config.json` of Hugging Face into the same struct.

mod effects;
mod hyperparameters;
mod keys;
mod rope;
mod shape;
#[cfg(test)]
mod tests;
mod traits;
mod windows;

pub use effects::effects;
pub use hyperparameters::{Config, ConfigError, Recurrent};
pub use hyperparameters::{MAX_LAYERS, MAX_WIDTH};
pub use keys::{Key, Keys, key};
pub use rope::sliding as sliding_rope;
pub use shape::Shape;
pub use traits::{Pairs, Traits, Windows};

use hyperparameters::{MAX_CONTEXT, MAX_HEAD};

use crate::files::FileError;

impl Config {
    /// Reads the hyperparameters that all architectures have.
    pub fn common(keys: &Keys, arch: &str, traits: &Traits) -> Result<Config, ConfigError> {
        check_activation(keys, traits)?;
        let heads = keys.count(key("attention.head_count", "num_attention_heads"), MAX_WIDTH)?;
        let width = keys.count(key("embedding_length", "hidden_size"), MAX_WIDTH)?;
        let head_dim = keys.opt_count(key("attention.key_length", "head_dim"), MAX_WIDTH)?;
        let head_dim = head_dim.unwrap_or(width / heads.max(1));
        let context = keys.count(key("context_length", "max_position_embeddings"), MAX_CONTEXT)?;
        // Layers for multi-token prediction come last in `block_count`; they are not run, so they are not counted.
        let guessing = keys.opt_count(key("nextn_predict_layers", ""), MAX_LAYERS)?.unwrap_or(0);
        let layers = keys.count(key("block_count", "num_hidden_layers"), MAX_LAYERS)?.saturating_sub(guessing);
        let eps = key("attention.layer_norm_rms_epsilon", "rms_norm_eps");
        let eps = match keys.number_within(eps, 0.0, 1.0)? {
            None if keys.is_gguf() => return Err(keys.missing(eps)),
            found => found.unwrap_or(traits.eps),
        };
        let rope::Global { rope, original, long_factors } = rope::global(keys, head_dim, context, traits.rope_base)?;
        let (window, sliding) = windows::read(keys, layers, traits)?;
        let tied = keys.flag(key("", "tie_word_embeddings"))?;
        // The configuration promises an output matrix: a folder without it is incomplete.
        if tied == Some(false) && !keys.file().tensors().any(|t| t.name.ends_with("lm_head.weight")) {
            let what = "missing, and config.json says `tie_word_embeddings: false`";
            let hint = "fetch all weight files of the model again";
            return Err(FileError::tensor(keys.file().name(), "lm_head.weight", what, hint).into());
        }
        Ok(Config {
            arch: arch.into(),
            layers,
            width,
            ffn: keys.opt_count(key("feed_forward_length", "intermediate_size"), MAX_WIDTH)?,
            vocabulary: keys.opt_count(key("vocab_size", "vocab_size"), MAX_CONTEXT)?,
            heads,
            kv_heads: keys
                .opt_count(key("attention.head_count_kv", "num_key_value_heads"), MAX_WIDTH)?
                .unwrap_or(heads),
            head_dim,
            context,
            eps,
            local_rope: rope.clone(),
            rope,
            original,
            long_factors,
            window,
            sliding,
            neox: !keys.is_gguf() || traits.pairs == Pairs::Halves,
            attention_scale: keys.number_within(key("attention.scale", ""), 0.0, 1e3)?.filter(|x| *x != 0.0),
            logit_cap: keys
                .number_within(key("final_logit_softcapping", "final_logit_softcapping"), 0.0, 1e6)?
                .filter(|x| *x != 0.0),
            tied,
            norm_minus_one: !keys.is_gguf() && traits.norm_minus_one,
            recurrent: None,
        })
    }

    /// Checks that the hyperparameters fit each other, and that the file has no key with an effect that was not read.
    pub fn check(&self, keys: &Keys) -> Result<(), ConfigError> {
        let counts = [
            (self.layers, key("block_count", "num_hidden_layers")),
            (self.width, key("embedding_length", "hidden_size")),
            (self.heads, key("attention.head_count", "num_attention_heads")),
            (self.kv_heads, key("attention.head_count_kv", "num_key_value_heads")),
            (self.context, key("context_length", "max_position_embeddings")),
        ];
        if let Some((_, key)) = counts.iter().find(|(n, _)| *n == 0) {
            return Err(keys.refuse(format!("{} is 0: at least 1 is needed", keys.name(*key))));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let (q, kv) = (self.heads, self.kv_heads);
            let (q_key, kv_key) = (keys.name(counts[2].1), keys.name(counts[3].1));
            return Err(keys.refuse(format!("{q} query heads ({q_key}) do not divide among {kv} key heads ({kv_key})")));
        }
        let (head, rotated) = (self.head_dim, self.rope.dim);
        if !(1..=MAX_HEAD).contains(&head) {
            let key = keys.name(key("attention.key_length", "head_dim"));
            return Err(keys.refuse(format!(
                "a head has {head} numbers ({key}, or the width by the heads): 1 to {MAX_HEAD} can be"
            )));
        }
        if rotated < 2 || !rotated.is_multiple_of(2) || rotated > head {
            let key = keys.name(key("rope.dimension_count", "head_dim"));
            return Err(keys.refuse(format!(
                "{rotated} numbers of a head are rotated ({key}): an even number from 2 to {head} can be"
            )));
        }
        effects::refuse_unread(keys, head)
    }

    /// The positions that a token sees in layer `layer`, if they are not all earlier ones.
    pub fn window(&self, layer: usize) -> Option<u32> {
        self.window.filter(|_| self.is_sliding(layer))
    }

    /// Whether layer `layer` is one of those with a sliding window.
    pub fn is_sliding(&self, layer: usize) -> bool {
        self.sliding.get(layer).copied().unwrap_or(false)
    }
}

/// Checks the activation function. A model definition has only one, so a file with another would give wrong logits.
fn check_activation(keys: &Keys, traits: &Traits) -> Result<(), ConfigError> {
    let (name, known) = traits.activation;
    match keys.text(key("", name))? {
        Some(found) if !known.contains(&found) => {
            let found = onetrip_ir::text::shown(found);
            Err(keys.refuse(format!("`{name}` is `{found}`: for this architecture {} is computed", known[0])))
        }
        _ => Ok(()),
    }
}
