//! Gemma 3: scaled embeddings, RMS norms of q and k, norms before and after each block. Five layers with a sliding window,
//! which have their own rotary base, are followed by one layer without a window.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Config, ConfigError, Keys, Shape, Traits, Windows, key, sliding_rope};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "gemma3",
    model_types: &["gemma3_text"],
    models: "Gemma 3 (text)",
    traits: Traits {
        rope_base: 1e6,
        windows: Windows::AllBut(6),
        activation: ("hidden_activation", &["gelu_pytorch_tanh"]),
        norm_minus_one: true,
        ..Traits::PLAIN
    },
    tensors: &[("ffn_norm", "pre_feedforward_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")],
    read,
    define,
    shapes: SHAPES,
    ..Architecture::PLAIN
};

/// Layers of the 27B, whose attention scores are divided by other numbers than the root of the head's elements.
const LAYERS_OF_27B: usize = 62;

fn read(keys: &Keys, c: &mut Config) -> Result<(), ConfigError> {
    c.local_rope = sliding_rope(keys, &c.rope, c.context, 10_000.0)?;
    let divisor = keys.number_within(key("", "query_pre_attn_scalar"), 1e-6, 1e6)?;
    // A GGUF file does not say the divisor; of the published models only the 27B has another.
    let divisor =
        divisor.or((keys.is_gguf() && c.layers == LAYERS_OF_27B).then(|| c.width as f32 / c.heads.max(1) as f32));
    c.attention_scale = c.attention_scale.or(divisor.map(|d| 1.0 / d.sqrt()));
    Ok(())
}

/// Adds the ops of the model to the graph; returns the logits.
fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    let c = p.config;
    let global = p.rope_table(&c.rope)?;
    let local = p.rope_table(&c.local_rope)?;
    let x = p.embed()?;
    let mut x = p.scale("embd_scale", x, (c.width as f32).sqrt())?;
    for layer in 0..c.layers {
        p.layer(layer);
        let rope = if c.is_sliding(layer) { local } else { global };
        let h = p.norm(x, "attn_norm")?;
        let [q, k, v] = p.qkv(h)?;
        let q = p.head_norm(q, "attn_q_norm")?;
        let k = p.head_norm(k, "attn_k_norm")?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, c.window(layer))?;
        let o = p.linear(a, "attn_output", c.width)?;
        let o = p.norm(o, "post_attention_norm")?;
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "ffn_norm")?;
        let f = p.gated_ffn(h, Unary::GeluTanh)?;
        let f = p.norm(f, "post_ffw_norm")?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.logits(x)
}

const SHAPES: &[Shape] = &[Shape {
    name: "gemma-3-270m",
    layers: 18,
    width: 640,
    ffn: 2048,
    heads: 4,
    kv_heads: 1,
    head_dim: 256,
    vocabulary: 262_144,
    context: 32_768,
    rope_base: 1e6,
    window: Some(512),
    ..Shape::NONE
}];
