//! Llama 2 and 3, SmolLM2, Mistral. A layer is: norm, grouped-query attention with rotary embedding, norm, gated feed-forward.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Pairs, Shape, Traits};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "llama",
    model_types: &["llama", "mistral"],
    models: "Llama 2 and 3, SmolLM2, Mistral 7B, TinyLlama",
    traits: Traits { pairs: Pairs::Neighbours, ..Traits::PLAIN },
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

const PLAIN: Shape = Shape { vocabulary: 128_256, context: 131_072, rope_base: 5e5, eps: 1e-5, ..Shape::NONE };

const SHAPES: &[Shape] = &[
    Shape {
        name: "smollm2-135m",
        layers: 30,
        width: 576,
        ffn: 1536,
        heads: 9,
        kv_heads: 3,
        vocabulary: 49_152,
        context: 8192,
        rope_base: 1e5,
        ..PLAIN
    },
    Shape { name: "llama-1b", layers: 16, width: 2048, ffn: 8192, ..PLAIN },
    Shape { name: "llama-8b", layers: 32, width: 4096, ffn: 14_336, head_dim: 128, is_tied: false, ..PLAIN },
];
