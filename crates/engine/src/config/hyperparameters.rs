//! The hyperparameters of a model, and the errors for hyperparameters that cannot be used.

use crate::files::FileError;
use onetrip_core::ops::rope::frequencies::RopeConfig;

/// Upper limits of hyperparameters: a larger number means that the file is damaged.
pub(super) const MAX_LAYERS: usize = 4096;
pub(super) const MAX_WIDTH: usize = 1 << 20;
pub(super) const MAX_CONTEXT: usize = 1 << 27;
pub(super) const MAX_HEAD: usize = 4096;

/// Architecture and hyperparameters of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture, by GGUF's names: `llama`, `qwen2`, `qwen3`, `qwen35`, `gemma3`.
    pub arch: String,
    /// Number of layers.
    pub layers: usize,
    /// Elements in a row of the residual stream.
    pub width: usize,
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
    /// Rotary base of layers with a sliding window (Gemma 3).
    pub local_rope_base: f32,
    /// Number of positions that a token sees in layers with a sliding window.
    pub window: Option<u32>,
    /// The last of every `window_period` layers has no sliding window; 0: all layers have one.
    pub window_period: usize,
    /// Rotary pairs are `(i, i + half)` (NeoX style) instead of neighbours.
    pub neox: bool,
    /// Factor on attention scores, where it is not `1/sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// The file stores norm weights minus one (Gemma in Hugging Face files).
    pub norm_plus_one: bool,
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
    #[error("{file}: architecture `{arch}` is not supported; supported are {known}")]
    Arch {
        /// Name of the file.
        file: String,
        /// Architecture that the file names.
        arch: String,
        /// Names of the supported architectures, separated by commas.
        known: String,
    },
    /// A safetensors file outside of a folder has weights but no configuration.
    #[error("{file}: a bare safetensors file does not say what model it is: give the folder that has its config.json")]
    Bare {
        /// Name of the file.
        file: String,
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
