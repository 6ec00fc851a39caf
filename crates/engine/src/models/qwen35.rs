//! Qwen 3.5: three layers with a gated delta net, then one with full attention. A delta net keeps one matrix for each head
//! instead of a KV cache that grows, and sees its last inputs through a short convolution. Attention rotates only a part of
//! each head, and its output is multiplied by a gate that the same projection makes as the queries.

use onetrip_core::graph::ValueId;

use crate::config::Recurrent;
use crate::graph_builder::{BuildError, GraphBuilder, Unary};

/// Adds the ops of the model to the graph; returns the logits.
pub fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    let c = p.config;
    let r = p.recurrent()?;
    // The rotary embedding has sections for positions in text, height and width. For text all three positions are equal, so
    // one table is enough.
    let rope = p.rope_table(&c.rope)?;
    let mut x = p.embed()?;
    for layer in 0..c.layers {
        p.layer(layer);
        let h = p.norm(x, "attn_norm")?;
        let o = if r.is_attention(layer) { attention(p, h, rope)? } else { delta_net(p, h, r)? };
        x = p.add("attn_residual", o, x)?;

        let h = p.norm(x, "post_attention_norm")?;
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

fn delta_net(p: &mut GraphBuilder, h: ValueId, r: Recurrent) -> Result<ValueId, BuildError> {
    let qkv = p.linear(h, "attn_qkv")?;
    let qkv = p.conv(qkv, "ssm_conv1d", r.conv)?;
    let qkv = p.unary(Unary::Silu, qkv, "conv_silu")?;
    let (keys, values) = (r.k_heads * r.state, r.v_heads * r.state);
    let q = p.slice(qkv, "delta_q", 2 * keys + values, 0, keys)?;
    let k = p.slice(qkv, "delta_k", 2 * keys + values, keys, keys)?;
    let v = p.slice(qkv, "delta_v", 2 * keys + values, 2 * keys, values)?;
    let q = p.l2_norm(q, "delta_q_norm", r.state)?;
    let k = p.l2_norm(k, "delta_k_norm", r.state)?;
    let alpha = p.linear(h, "ssm_alpha")?;
    let alpha = p.add_row(alpha, "ssm_dt.bias")?;
    let alpha = p.unary(Unary::Softplus, alpha, "delta_softplus")?;
    let g = p.mul_row(alpha, "ssm_a")?;
    let beta = p.linear(h, "ssm_beta")?;
    let beta = p.unary(Unary::Sigmoid, beta, "delta_beta")?;
    let o = p.delta_net([q, k, v, g, beta], r)?;
    let o = p.norm_of(o, "ssm_norm", r.state)?;
    let z = p.linear(h, "attn_gate")?;
    let z = p.unary(Unary::Silu, z, "delta_gate")?;
    let o = p.mul("delta_out", o, z)?;
    p.linear(o, "ssm_out")
}

fn attention(p: &mut GraphBuilder, h: ValueId, rope: usize) -> Result<ValueId, BuildError> {
    let c = p.config;
    let packed = p.linear(h, "attn_q")?;
    let q = p.slice(packed, "attn_queries", 2 * c.head_dim, 0, c.head_dim)?;
    let q = p.head_norm(q, "attn_q_norm")?;
    let k = p.linear(h, "attn_k")?;
    let v = p.linear(h, "attn_v")?;
    let k = p.head_norm(k, "attn_k_norm")?;
    let gate = p.slice(packed, "attn_gates", 2 * c.head_dim, c.head_dim, c.head_dim)?;
    let q = p.rope(q, "rope_q", c.heads, rope)?;
    let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
    let a = p.attention(q, k, v, None)?;
    let gate = p.unary(Unary::Sigmoid, gate, "attn_gate_sigmoid")?;
    let a = p.mul("attn_gated", a, gate)?;
    p.linear(a, "attn_output")
}
