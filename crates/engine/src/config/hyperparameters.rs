//! The hyperparameters of a model, and the errors for hyperparameters that cannot be used.

use crate::files::FileError;
use onetrip_core::ops::rope::frequencies::RopeConfig;

/// Most layers: a larger number means that the file is damaged.
pub const MAX_LAYERS: usize = 4096;
/// Most elements of a row, heads or blocks: a larger number means that the file is damaged.
pub const MAX_WIDTH: usize = 1 << 20;
pub(super) const MAX_CONTEXT: usize = 1 << 27;
pub(super) const MAX_HEAD: usize = 4096;

/// Architecture and hyperparameters of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture, by GGUF's name.
    pub arch: String,
    /// Number of layers.
    pub layers: usize,
    /// Elements in a row of the residual stream.
    pub width: usize,
    /// Inner width of the feed-forward network, where the file says it.
    pub ffn: Option<usize>,
    /// Number of tokens, where the file says it. The embedding table may have more rows.
    pub vocabulary: Option<usize>,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads.
    pub kv_heads: usize,
    /// Elements in a head.
    pub head_dim: usize,
    /// Number of positions for which the model was trained.
    pub context: usize,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Rotary embedding; where some layers have a sliding window, that of the layers without one.
    pub rope: RopeConfig,
    /// Number of positions of the context before it was made longer (longrope): for a longer context than that, the factors
    /// for long contexts are chosen.
    pub original: usize,
    /// Divisors of the rotary frequencies for contexts up to `original`, and for longer ones, where `config.json` lists them.
    pub long_factors: Option<[Vec<f32>; 2]>,
    /// Rotary embedding of layers with a sliding window.
    pub local_rope: RopeConfig,
    /// Number of positions that a token sees in layers with a sliding window.
    pub window: Option<u32>,
    /// For each layer, whether it is one of those with a sliding window.
    pub sliding: Vec<bool>,
    /// Rotary pairs are `(i, i + half)` (NeoX style) instead of neighbours.
    pub neox: bool,
    /// Factor on attention scores, where it is not `1/sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// Logits are `cap · tanh(x / cap)`, where there is a cap.
    pub logit_cap: Option<f32>,
    /// The embedding table is also the output matrix, where the file says so or says the opposite.
    pub tied: Option<bool>,
    /// The file stores norm weights minus one.
    pub norm_minus_one: bool,
    /// Shape of the layers that keep a recurrent state instead of a KV cache, if there are any.
    pub recurrent: Option<Recurrent>,
}

/// The shape of layers that keep a recurrent state (gated delta net).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// Number of query heads, which is also that of key heads.
    pub k_heads: usize,
    /// Number of value heads.
    pub v_heads: usize,
    /// Elements in a query, key or value head; the state of a value head is a square matrix of this width.
    pub state: usize,
    /// Number of taps of the causal convolution.
    pub conv: usize,
    /// The last of every `period` layers has full attention instead.
    pub period: usize,
}

impl Recurrent {
    /// Whether layer `layer` has full attention.
    pub fn is_attention(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.period)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A metadata entry is missing or cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The architecture has no model definition.
    #[error("{file}: architecture `{arch}` is not supported{why}; supported are {known}")]
    Arch {
        /// Name of the file.
        file: String,
        /// Architecture that the file names.
        arch: String,
        /// Names of the supported architectures, separated by commas.
        known: String,
        /// More about the reason, in parentheses after a space, or empty.
        why: String,
    },
    /// A safetensors file outside of a folder has weights but no configuration.
    #[error("{file}: a bare safetensors file does not say what model it is: give the folder that has its config.json")]
    Bare {
        /// Name of the file.
        file: String,
    },
    /// A key that changes the result and that no definition of this architecture implements.
    #[error("{file}: {what}; use a file of a supported model, or another program for this one")]
    Effect {
        /// Name of the file.
        file: String,
        /// The key, its value, and why it is refused.
        what: String,
    },
    /// Hyperparameters that contradict each other.
    #[error("{file}: {what}; the file is damaged or of an unknown variant: fetch or convert it again")]
    Shape {
        /// Name of the file.
        file: String,
        /// The contradiction, in words.
        what: String,
    },
}
