//! Phi 3, 3.5 and 4: the layers of Llama, with q, k and v in one matrix of the file, gate and up in another, and rotary
//! frequencies that depend on the asked context (longrope).

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Shape, Traits};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

pub const MODEL: Architecture = Architecture {
    name: "phi3",
    model_types: &["phi3"],
    models: "Phi 3 mini and medium, Phi 3.5 mini, Phi 4 and 4 mini; the factors of longrope are chosen once, by the asked \
             context, where transformers switches when a text grows longer than the original context",
    traits: Traits { eps: 1e-5, ..Traits::PLAIN },
    tensors: &[("attn_qkv", "self_attn.qkv_proj"), ("ffn_up", "mlp.gate_up_proj")],
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
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let [q, k, v] = p.packed(h, "attn_qkv", [("attn_q", q), ("attn_k", kv), ("attn_v", kv)])?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, c.window(layer))?;
        let o = p.linear(a, "attn_output", c.width)?;
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "ffn_norm")?;
        let ffn = p.ffn_width()?;
        let [gate, up] = p.packed(h, "ffn_up", [("ffn_gate", ffn), ("ffn_up", ffn)])?;
        let f = p.glu(Unary::Silu, gate, up)?;
        let f = p.linear(f, "ffn_down", c.width)?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.logits(x)
}

const SHAPES: &[Shape] = &[Shape {
    name: "phi-3.5-mini",
    layers: 32,
    width: 3072,
    ffn: 8192,
    heads: 32,
    kv_heads: 32,
    head_dim: 96,
    vocabulary: 32_064,
    context: 131_072,
    eps: 1e-5,
    is_tied: false,
    ..Shape::NONE
}];
