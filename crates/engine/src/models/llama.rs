//! Llama 2 and 3, SmolLM2, Mistral. A layer is: norm, grouped-query attention with rotary embedding, norm, gated feed-forward.

use onetrip_core::graph::ValueId;

use crate::graph_builder::{BuildError, GraphBuilder, Unary};

/// Adds the ops of the model to the graph; returns the logits.
pub fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    let c = p.config;
    let rope = p.rope_table(&c.rope)?;
    let mut x = p.embed()?;
    for layer in 0..c.layers {
        p.layer(layer);
        let h = p.norm(x, "attn_norm")?;
        let q = p.linear(h, "attn_q")?;
        let k = p.linear(h, "attn_k")?;
        let v = p.linear(h, "attn_v")?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, c.window)?;
        let o = p.linear(a, "attn_output")?;
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "ffn_norm")?;
        let gate = p.linear(h, "ffn_gate")?;
        let up = p.linear(h, "ffn_up")?;
        let f = p.glu(Unary::Silu, gate, up)?;
        let f = p.linear(f, "ffn_down")?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.end_of_layers();
    let x = p.logit_rows(x)?;
    let x = p.norm(x, "output_norm")?;
    p.head(x)
}
