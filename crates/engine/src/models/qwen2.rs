//! Qwen 2 and 2.5: the layers of Llama with biases on q, k and v.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Shape, Traits, Windows};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "qwen2",
    model_types: &["qwen2"],
    models: "Qwen 2 and 2.5, and what was trained from them",
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
        let [q, k, v] = p.qkv_biased(h)?;
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

const PLAIN: Shape = Shape { vocabulary: 151_936, context: 32_768, rope_base: 1e6, ..Shape::NONE };

const SHAPES: &[Shape] = &[
    Shape { name: "qwen2.5-0.5b", layers: 24, width: 896, ffn: 4864, heads: 14, kv_heads: 2, ..PLAIN },
    Shape {
        name: "qwen2.5-7b",
        layers: 28,
        width: 3584,
        ffn: 18_944,
        heads: 28,
        kv_heads: 4,
        head_dim: 128,
        vocabulary: 152_064,
        is_tied: false,
        ..PLAIN
    },
];
