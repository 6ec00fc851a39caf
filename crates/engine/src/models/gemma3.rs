//! Gemma 3: scaled embeddings, RMS norms of q and k, norms before and after each block. Five layers with a sliding window,
//! which have their own rotary base, are followed by one layer without a window.

use onetrip_core::graph::ValueId;

use crate::graph_builder::{BuildError, GraphBuilder, Unary};
use onetrip_core::ops::rope::frequencies::{RopeConfig, Scaling};

/// Adds the ops of the model to the graph; returns the logits.
pub fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    let c = p.config;
    let global = p.rope_table(&c.rope)?;
    let local = RopeConfig { base: c.local_rope_base, scaling: Scaling::None, ..c.rope.clone() };
    let local = p.rope_table(&local)?;
    let x = p.embed()?;
    let mut x = p.scale("embd_scale", x, (c.width as f32).sqrt())?;
    for layer in 0..c.layers {
        p.layer(layer);
        let (rope, window) = if c.is_global(layer) { (global, None) } else { (local, c.window) };
        let h = p.norm(x, "attn_norm")?;
        let q = p.linear(h, "attn_q")?;
        let k = p.linear(h, "attn_k")?;
        let v = p.linear(h, "attn_v")?;
        let q = p.head_norm(q, "attn_q_norm")?;
        let k = p.head_norm(k, "attn_k_norm")?;
        let q = p.rope(q, "rope_q", c.heads, rope)?;
        let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
        let a = p.attention(q, k, v, window)?;
        let o = p.linear(a, "attn_output")?;
        let o = p.norm(o, "post_attention_norm")?;
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "ffn_norm")?;
        let gate = p.linear(h, "ffn_gate")?;
        let up = p.linear(h, "ffn_up")?;
        let f = p.glu(Unary::GeluTanh, gate, up)?;
        let f = p.linear(f, "ffn_down")?;
        let f = p.norm(f, "post_ffw_norm")?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.end_of_layers();
    let x = p.logit_rows(x)?;
    let x = p.norm(x, "output_norm")?;
    p.head(x)
}
