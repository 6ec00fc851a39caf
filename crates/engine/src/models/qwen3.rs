//! Qwen 3: like Llama, with an RMS norm of each head of q and k before the rotary embedding.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Shape, Traits, Windows};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "qwen3",
    model_types: &["qwen3"],
    models: "Qwen 3 (dense)",
    traits: Traits { windows: Windows::OnRequest, ..Traits::PLAIN },
    define,
    shapes: SHAPES,
    ..Architecture::PLAIN
};

/// Adds the ops of the model to the graph; returns the logits.
fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    let c = p.config;
    let rope = p.rope_table(&c.rope)?;
    let mut x = p.embed()?;
    for layer in 0..c.layers {
        p.layer(layer);
        let h = p.norm(x, "attn_norm")?;
        let [q, k, v] = p.qkv(h)?;
        let q = p.head_norm(q, "attn_q_norm")?;
        let k = p.head_norm(k, "attn_k_norm")?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, c.window(layer))?;
        let o = p.linear(a, "attn_output", c.width)?;
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "ffn_norm")?;
        let f = p.gated_ffn(h, Unary::Silu)?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.logits(x)
}

const SHAPES: &[Shape] = &[Shape {
    name: "qwen3-0.6b",
    layers: 28,
    width: 1024,
    ffn: 3072,
    heads: 16,
    head_dim: 128,
    vocabulary: 151_936,
    context: 40_960,
    rope_base: 1e6,
    ..Shape::NONE
}];
