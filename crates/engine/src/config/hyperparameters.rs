//! The hyperparameters of a model, and why they cannot be used.

use crate::files::FileError;
use onetrip_core::ops::rope::frequencies::RopeConfig;

/// Upper limits: a number beyond them is damage, not a model.
pub(super) const MAX_LAYERS: usize = 4096;
pub(super) const MAX_WIDTH: usize = 1 << 20;
pub(super) const MAX_CONTEXT: usize = 1 << 27;
pub(super) const MAX_HEAD: usize = 4096;

/// The shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture, by GGUF's names: `llama`, `qwen2`, `qwen3`, `qwen35`, `gemma3`.
    pub arch: String,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Numbers per head.
    pub head_dim: usize,
    /// Positions the model was trained for.
    pub context: usize,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Rotary embedding (of the global layers, where there are local ones).
    pub rope: RopeConfig,
    /// Rotary base of layers with a sliding window (Gemma 3).
    pub local_rope_base: f32,
    /// Positions a token sees in layers with a sliding window.
    pub window: Option<u32>,
    /// One layer in so many has no window; 0: all layers have it.
    pub window_period: usize,
    /// Rotary pairs are `(i, i + half)` instead of neighbours.
    pub neox: bool,
    /// Factor on attention scores, where it is not `1/sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// Norm weights are stored less one (Gemma in Hugging Face's form).
    pub norm_plus_one: bool,
    /// Layers that keep a state instead of a cache.
    pub recurrent: Option<Recurrent>,
}

/// The shape of layers that keep a recurrent state (gated delta net).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Numbers in a head of each.
    pub state: usize,
    /// Inputs that the convolution sees.
    pub conv: usize,
    /// One layer in so many has full attention.
    pub period: usize,
}

impl Recurrent {
    /// Layer `layer` has full attention.
    pub fn is_attention(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.period)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file's metadata.
    #[error(transparent)]
    File(#[from] FileError),
    /// An architecture without a page.
    #[error("{file}: architecture `{arch}` is not supported; supported are {known}")]
    Arch {
        /// The file.
        file: String,
        /// What it says.
        arch: String,
        /// What there is.
        known: String,
    },
    /// Weights without a configuration.
    #[error("{file}: a bare safetensors file does not say what model it is: give the folder that has its config.json")]
    Bare {
        /// The file.
        file: String,
    },
    /// Numbers that do not fit together.
    #[error("{file}: {what}; the file is damaged or of an unknown variant: fetch or convert it again")]
    Shape {
        /// The file.
        file: String,
        /// What does not fit.
        what: String,
    },
}
