//! OLMo 2: norms after the blocks instead of before them, and an RMS norm of q and k over their whole width.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Shape, Traits};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "olmo2",
    model_types: &["olmo2"],
    models: "OLMo 2",
    traits: Traits { eps: 1e-5, ..Traits::PLAIN },
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
        let [q, k, v] = p.qkv(x)?;
        let q = p.norm(q, "attn_q_norm")?;
        let k = p.norm(k, "attn_k_norm")?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, c.window(layer))?;
        let o = p.linear(a, "attn_output", c.width)?;
        let o = p.norm(o, "post_attention_norm")?;
        x = p.add("attn_residual", o, x)?;

        let f = p.gated_ffn(x, Unary::Silu)?;
        let f = p.norm(f, "post_ffw_norm")?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.logits(x)
}

const SHAPES: &[Shape] = &[Shape {
    name: "olmo2-1b",
    layers: 16,
    width: 2048,
    ffn: 8192,
    heads: 16,
    kv_heads: 16,
    head_dim: 128,
    vocabulary: 100_352,
    context: 4096,
    rope_base: 5e5,
    is_tied: false,
    ..Shape::NONE
}];
