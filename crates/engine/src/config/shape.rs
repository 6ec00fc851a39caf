//! The dimensions of a published model, and the metadata of its GGUF file.

use super::Recurrent;
use crate::files::{Metadata, Value};

/// The dimensions of a model, as its authors published them.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Name of the shape, as between the colons of `shape:NAME:FORMAT`.
    pub name: &'static str,
    /// Number of layers.
    pub layers: u64,
    /// Elements in a row of the residual stream.
    pub width: u64,
    /// Inner width of the feed-forward network.
    pub ffn: u64,
    /// Number of query heads.
    pub heads: u64,
    /// Number of key/value heads.
    pub kv_heads: u64,
    /// Elements in a head.
    pub head_dim: u64,
    /// Number of tokens.
    pub vocabulary: u64,
    /// Number of positions for which the model was trained.
    pub context: u64,
    /// Base of the rotary frequencies.
    pub rope_base: f64,
    /// Epsilon of the norms.
    pub eps: f64,
    /// The embedding table is also the output matrix.
    pub is_tied: bool,
    /// Positions of the sliding window of attention, if there is one.
    pub window: Option<u64>,
    /// Elements of a head that are rotated (RoPE); `None` if all are.
    pub rotated: Option<u64>,
    /// Shape of the layers that keep a recurrent state instead of a KV cache, if there are any.
    pub recurrent: Option<Recurrent>,
}

impl Shape {
    /// A shape without dimensions, to be completed.
    pub const NONE: Shape = Shape {
        name: "",
        layers: 0,
        width: 0,
        ffn: 0,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocabulary: 0,
        context: 0,
        rope_base: 10_000.0,
        eps: 1e-6,
        is_tied: true,
        window: None,
        rotated: None,
        recurrent: None,
    };

    /// The metadata that a GGUF file of this model would have, for the architecture `arch`.
    pub fn metadata(&self, arch: &str) -> Metadata {
        let s = self;
        let mut m = Metadata::new();
        m.insert("general.architecture".into(), Value::Str(arch.into()));
        m.insert("general.name".into(), Value::Str(s.name.into()));
        let mut set = |key: &str, value: Value| m.insert(format!("{arch}.{key}"), value);
        let counts = [
            ("block_count", s.layers),
            ("embedding_length", s.width),
            ("feed_forward_length", s.ffn),
            ("attention.head_count", s.heads),
            ("attention.head_count_kv", s.kv_heads),
            ("attention.key_length", s.head_dim),
            ("attention.value_length", s.head_dim),
            ("context_length", s.context),
            ("vocab_size", s.vocabulary),
        ];
        for (key, n) in counts {
            set(key, Value::U64(n));
        }
        if let Some(window) = s.window {
            set("attention.sliding_window", Value::U64(window));
        }
        if let Some(rotated) = s.rotated {
            set("rope.dimension_count", Value::U64(rotated));
        }
        if let Some(r) = s.recurrent {
            let counts = [
                ("ssm.group_count", r.k_heads),
                ("ssm.time_step_rank", r.v_heads),
                ("ssm.state_size", r.state),
                ("ssm.inner_size", r.v_heads * r.state),
                ("ssm.conv_kernel", r.conv),
                ("full_attention_interval", r.period),
            ];
            for (key, n) in counts {
                set(key, Value::U64(n as u64));
            }
        }
        set("attention.layer_norm_rms_epsilon", Value::F64(s.eps));
        set("rope.freq_base", Value::F64(s.rope_base));
        m
    }
}
