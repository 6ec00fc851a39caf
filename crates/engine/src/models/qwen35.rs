//! Qwen 3.5: three layers with a gated delta net, then one with full attention. A delta net keeps one matrix for each head
//! instead of a KV cache that grows, and sees its last inputs through a short convolution. Attention rotates only a part of
//! each head, and its output is multiplied by a gate that the same projection makes as the queries.

use onetrip_core::graph::ValueId;

use crate::architecture::Architecture;
use crate::config::{Config, ConfigError, Key, Keys, MAX_LAYERS, MAX_WIDTH, Recurrent, Shape, key};
use crate::graph_builder::{BuildError, GraphBuilder, Unary};
use onetrip_core::ops::conv::MAX_TAPS;

pub const MODEL: Architecture = Architecture {
    name: "qwen35",
    folders: "folders of Hugging Face have the heads in another order: use a GGUF file",
    models: "Qwen 3.5 (dense, text)",
    ignored: &[("rope.dimension_sections", "", "for text, positions in time, height and width are equal")],
    read,
    define,
    shapes: SHAPES,
    ..Architecture::PLAIN
};

/// Most heads of a delta net.
const MAX_HEADS: usize = 4096;

/// Reads and checks the shape of recurrent layers.
fn read(keys: &Keys, c: &mut Config) -> Result<(), ConfigError> {
    let of = |name| key(name, "");
    let least = |key: Key, n: usize, least: usize| match n >= least {
        true => Ok(n),
        false => Err(keys.refuse(format!("{} is {n}: at least {least} is needed", keys.name(key)))),
    };
    let count = |name, limit, min| least(of(name), keys.count(of(name), limit)?, min);
    let r = Recurrent {
        k_heads: count("ssm.group_count", MAX_HEADS, 1)?,
        v_heads: count("ssm.time_step_rank", MAX_HEADS, 1)?,
        state: count("ssm.state_size", MAX_HEADS, 1)?,
        conv: count("ssm.conv_kernel", MAX_TAPS, 2)?,
        period: {
            let period = of("full_attention_interval");
            least(period, keys.opt_count(period, MAX_LAYERS)?.unwrap_or(4), 1)?
        },
    };
    let inner = keys.count(of("ssm.inner_size"), MAX_WIDTH)?;
    let (v, k, state) = (r.v_heads, r.k_heads, r.state);
    let [v_key, k_key, state_key] =
        ["ssm.time_step_rank", "ssm.group_count", "ssm.state_size"].map(|n| keys.name(of(n)));
    if v * state != inner {
        let inner_key = keys.name(of("ssm.inner_size"));
        let product = v * state;
        return Err(keys.refuse(format!(
            "{inner_key} is {inner}, but {v} heads ({v_key}) of {state} ({state_key}) are {product}"
        )));
    }
    if !v.is_multiple_of(k) {
        return Err(keys.refuse(format!("{v} value heads ({v_key}) do not divide among {k} key heads ({k_key})")));
    }
    c.recurrent = Some(r);
    Ok(())
}

/// Adds the ops of the model to the graph; returns the logits.
fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
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
        let f = p.gated_ffn(h, Unary::Silu)?;
        x = p.add("ffn_residual", f, x)?;
    }
    p.logits(x)
}

fn delta_net(p: &mut GraphBuilder, h: ValueId, r: Recurrent) -> Result<ValueId, BuildError> {
    let (keys, values) = (r.k_heads * r.state, r.v_heads * r.state);
    let qkv = p.linear(h, "attn_qkv", 2 * keys + values)?;
    let qkv = p.conv(qkv, "ssm_conv1d", r.conv)?;
    let qkv = p.unary(Unary::Silu, qkv, "conv_silu")?;
    let q = p.slice(qkv, "delta_q", 2 * keys + values, 0, keys)?;
    let k = p.slice(qkv, "delta_k", 2 * keys + values, keys, keys)?;
    let v = p.slice(qkv, "delta_v", 2 * keys + values, 2 * keys, values)?;
    let q = p.l2_norm(q, "delta_q_norm", r.state)?;
    let k = p.l2_norm(k, "delta_k_norm", r.state)?;
    let alpha = p.linear(h, "ssm_alpha", r.v_heads)?;
    let alpha = p.add_row(alpha, "ssm_dt.bias")?;
    let alpha = p.unary(Unary::Softplus, alpha, "delta_softplus")?;
    let g = p.mul_row(alpha, "ssm_a")?;
    let beta = p.linear(h, "ssm_beta", r.v_heads)?;
    let beta = p.unary(Unary::Sigmoid, beta, "delta_beta")?;
    let o = p.delta_net([q, k, v, g, beta], r)?;
    let o = p.norm_of(o, "ssm_norm", r.state)?;
    let z = p.linear(h, "attn_gate", values)?;
    let z = p.unary(Unary::Silu, z, "delta_gate")?;
    let o = p.mul("delta_out", o, z)?;
    p.linear(o, "ssm_out", p.config.width)
}

fn attention(p: &mut GraphBuilder, h: ValueId, rope: usize) -> Result<ValueId, BuildError> {
    let c = p.config;
    let packed = p.linear(h, "attn_q", 2 * c.heads * c.head_dim)?;
    let q = p.slice(packed, "attn_queries", 2 * c.head_dim, 0, c.head_dim)?;
    let q = p.head_norm(q, "attn_q_norm")?;
    let k = p.linear(h, "attn_k", c.kv_heads * c.head_dim)?;
    let v = p.linear(h, "attn_v", c.kv_heads * c.head_dim)?;
    let k = p.head_norm(k, "attn_k_norm")?;
    let gate = p.slice(packed, "attn_gates", 2 * c.head_dim, c.head_dim, c.head_dim)?;
    let q = p.rope(q, "rope_q", c.heads, rope)?;
    let k = p.rope(k, "rope_k", c.kv_heads, rope)?;
    let a = p.attention(q, k, v, None)?;
    let gate = p.unary(Unary::Sigmoid, gate, "attn_gate_sigmoid")?;
    let a = p.mul("attn_gated", a, gate)?;
    p.linear(a, "attn_output", c.width)
}

const SHAPES: &[Shape] = &[Shape {
    name: "qwen3.5-9b",
    layers: 32,
    width: 4096,
    ffn: 12_288,
    heads: 16,
    kv_heads: 4,
    head_dim: 256,
    vocabulary: 248_320,
    context: 262_144,
    rope_base: 1e7,
    is_tied: false,
    rotated: Some(64),
    recurrent: Some(Recurrent { k_heads: 16, v_heads: 32, state: 128, conv: 4, period: 4 }),
    ..Shape::NONE
}];
