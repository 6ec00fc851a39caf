//! Shapes of models: their metadata and the names and sizes of their tensors, without any weights.

use onetrip_engine::files::{Metadata, Value};
use onetrip_engine::weights::Dims;

/// The shape of a model of one of the architectures that have a model definition.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Architecture, by GGUF's name.
    pub arch: &'static str,
    /// Number of layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub dim: usize,
    /// Inner width of the feed-forward network.
    pub ffn: usize,
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// Longest context in positions.
    pub context: usize,
    /// Base of the rotary embedding.
    pub rope_base: f32,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Positions that a token sees in layers with sliding-window attention.
    pub window: Option<u32>,
    /// True if the output head shares its weights with the embedding table.
    pub tied: bool,
}

/// A tensor of a shape.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// GGUF's name.
    pub name: String,
    /// Elements in a row.
    pub width: usize,
    /// Rows; none for a single row (norms, biases), which has one dimension in files.
    pub rows: Option<usize>,
}

impl Tensor {
    /// Dimensions as GGUF lists them, innermost first.
    pub fn dims(&self) -> Vec<u64> {
        [Some(self.width), self.rows].into_iter().flatten().map(|n| n as u64).collect()
    }

    /// Elements of the tensor: width times rows.
    pub fn len(&self) -> usize {
        self.width * self.rows.unwrap_or(1)
    }

    /// True if the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shape {
    /// GGUF's metadata.
    pub fn metadata(&self) -> Metadata {
        let mut m = Metadata::new();
        let a = self.arch;
        m.insert("general.architecture".into(), Value::Str(a.into()));
        let counts = [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.dim),
            ("attention.value_length", self.dim),
            ("rope.dimension_count", self.dim),
            ("vocab_size", self.vocab),
        ];
        let mut set = |key: &str, value| m.insert(format!("{a}.{key}"), value);
        counts.into_iter().for_each(|(key, n)| {
            set(key, Value::U64(n as u64));
        });
        set("attention.layer_norm_rms_epsilon", Value::F64(self.eps.into()));
        set("rope.freq_base", Value::F64(self.rope_base.into()));
        if let Some(w) = self.window {
            set("attention.sliding_window", Value::U64(w.into()));
        }
        m
    }

    /// The same metadata in the form of Hugging Face's `config.json`.
    pub fn config_json(&self) -> serde_json::Value {
        let model_type = if self.arch == "gemma3" { "gemma3_text" } else { self.arch };
        let mut config = serde_json::json!({
            "model_type": model_type,
            "hidden_size": self.width,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
            "rms_norm_eps": self.eps,
            "rope_theta": self.rope_base,
            "tie_word_embeddings": self.tied,
        });
        if let Some(w) = self.window {
            config["sliding_window"] = w.into();
        }
        if self.arch == "gemma3" {
            config["query_pre_attn_scalar"] = self.dim.into();
            config["rope_local_base_freq"] = 10000.0.into();
            config["sliding_window_pattern"] = 6.into();
        }
        config
    }

    /// True if layer `i` has no sliding window. In Gemma 3 every sixth layer has none; in other models a window holds for all
    /// layers.
    pub fn is_global(&self, layer: usize) -> bool {
        self.window.is_none() || (self.arch == "gemma3" && (layer + 1).is_multiple_of(6))
    }

    /// All tensors that the model definition reads.
    pub fn tensors(&self) -> Vec<Tensor> {
        let declared = onetrip_engine::shape::declared(&self.metadata(), self.tied).expect("a shape that can be");
        let tensor = |(name, dims): (String, Dims)| match dims {
            Dims::Row(width) => Tensor { name, width, rows: None },
            _ => Tensor { name, width: dims.wanted().1, rows: dims.wanted().0 },
        };
        declared.into_iter().map(tensor).collect()
    }
}
