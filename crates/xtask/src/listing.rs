//! `cargo xtask listing`: writes the shipped node listing under `listings/` again.
//!
//! The listing is not a dump of the other engine: its nodes were counted and their order in a layer noted, and this task writes
//! them out for every layer with the model's published sizes. Nodes have the names of onetrip's own model definition, so that
//! the two plans can be compared side by side. `docs/listing.md` describes the format.

use std::fmt::{Display, Write as _};
use std::path::Path;

use anyhow::{Context, Result};

/// The shipped listing, below the root of the checkout.
pub const PATH: &str = "listings/qwen3.5-9b-ggml-2026-04.txt";

const LAYERS: usize = 32;
/// One layer in every `PERIOD` has attention, the others have a delta net.
const PERIOD: usize = 4;
const WIDTH: usize = 4096;
const FFN: usize = 12_288;
const VOCABULARY: usize = 248_320;
const CONTEXT: usize = 256;
/// Attention: query heads, key/value heads, elements of a head, and how many of them are rotated.
const HEADS: usize = 16;
const KV_HEADS: usize = 4;
const DIM: usize = 256;
const ROTATED: usize = 64;
/// Delta net: key heads, value heads, elements of a head, taps of the convolution.
const K_HEADS: usize = 16;
const V_HEADS: usize = 32;
const STATE: usize = 128;
const TAPS: usize = 4;
/// Elements in a row of values, and in a row of q, k and v together.
const INNER: usize = V_HEADS * STATE;
const PACKED: usize = 2 * K_HEADS * STATE + INNER;
/// Elements of a sequence's two states.
const CONV_STATE: usize = (TAPS - 1) * PACKED;
const DELTA_STATE: usize = INNER * STATE;

const HEAD: &str = "\
listing 1
# One decode step as ggml's builder makes it: 1151 compute nodes, 144 of them on no rows. Written by `cargo xtask listing`
# from counts and the order of nodes; not dumped from a run. The form: docs/listing.md.
engine llama.cpp (ggml), spring of 2026
model Qwen3.5-9B, Q4_0
date 2026-04
phase decode
";

/// Builder of the listing.
#[derive(Default)]
struct Listing {
    out: String,
    /// `blk.3.` within layer 3.
    prefix: String,
}

impl Listing {
    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.out, "{line}");
    }

    fn named(&self, part: impl Display) -> String {
        format!("{}{part}", self.prefix)
    }

    /// Adds a node with a name within the layer and returns its full name.
    fn node(&mut self, part: &str, op: &str, ins: &[&str], shape: impl Display) -> String {
        let name = self.named(part);
        self.line(format_args!("node {name} {op} {} {shape}", ins.join(" ")));
        name
    }

    fn view(&mut self, part: &str, of: &str, shape: impl Display) -> String {
        let name = self.named(part);
        self.line(format_args!("view {name} {of} {shape}"));
        name
    }

    fn matmul(&mut self, part: &str, x: &str, rows: usize) -> String {
        let weight = self.named(format_args!("{part}.weight"));
        self.node(part, "MUL_MAT", &[&weight, x], f32(rows))
    }

    fn unary(&mut self, part: &str, f: &str, x: &str, width: usize) -> String {
        self.node(part, "UNARY", &[x], format_args!("f32[{width}] op={f}"))
    }

    /// A norm and the product with its weight: two nodes.
    fn norm(&mut self, part: &str, x: &str, shape: &str) -> String {
        let rms = self.node(&format!("{part}_rms"), "RMS_NORM", &[x], format_args!("{shape} eps=1e-6"));
        let weight = self.named(format_args!("{part}.weight"));
        self.node(part, "MUL", &[&rms, &weight], shape)
    }

    /// The states of the batch's sequences: one is cleared, those of the batch are gathered, those of others moved. In
    /// a step where no sequence begins or moves, three of these four nodes are on no rows.
    fn state(&mut self, part: &str, state: &str, width: usize) -> String {
        let none = self.view(&format!("{part}_none"), state, "f32[0]");
        self.node(&format!("{part}_clear"), "SCALE", &[&none], "f32[0] by=0");
        let rows = self.node(part, "GET_ROWS", &[state, "state_rows"], f32(width));
        let extra =
            self.node(&format!("{part}_extra"), "GET_ROWS", &[state, "extra_rows"], format_args!("f32[{width},0]"));
        let at = format_args!("f32[{width},0] offset={}", 4 * width).to_string();
        let to = self.view(&format!("{part}_extra_to"), state, at);
        self.node(&format!("{part}_extra_move"), "CPY", &[&extra, &to], format_args!("f32[{width},0]"));
        rows
    }

    /// Writes a value to where a state is.
    fn keep(&mut self, part: &str, value: &str, state: &str, width: usize) {
        let to = self.view(&format!("{part}_to"), state, f32(width));
        self.node(&format!("{part}_keep"), "CPY", &[value, &to], f32(width));
    }

    fn delta_net(&mut self, h: &str, layer: usize) -> String {
        let (r, s) = (format!("cache_r.{layer}"), format!("cache_s.{layer}"));
        let last = self.state("conv_state", &r, CONV_STATE);
        let qkv = self.matmul("attn_qkv", h, PACKED);
        let last = self.view("conv_last", &last, format_args!("f32[{},{PACKED}]", TAPS - 1));
        let new = self.view("conv_new", &qkv, format_args!("f32[1,{PACKED}] strides={},4", 4 * PACKED));
        let window = self.node("conv_window", "CONCAT", &[&last, &new], format_args!("f32[{TAPS},{PACKED}] dim=0"));
        let kept = format!("f32[{},{PACKED}] offset=4 strides=4,{}", TAPS - 1, 4 * TAPS);
        let kept = self.view("conv_kept", &window, kept);
        self.keep("conv_state", &kept, &r, CONV_STATE);
        let state = self.state("delta_state", &s, DELTA_STATE);
        let filter = self.named("ssm_conv1d.weight");
        let conv = self.node("ssm_conv1d", "SSM_CONV", &[&window, &filter], f32(PACKED));
        let conv = self.unary("conv_silu", "silu", &conv, PACKED);
        let (k_heads, v_heads) = (format!("f32[{STATE},{K_HEADS}]"), format!("f32[{STATE},{V_HEADS}]"));
        let k_bytes = 4 * K_HEADS * STATE;
        let q = self.view("delta_q", &conv, &k_heads);
        let k = self.view("delta_k", &conv, format_args!("{k_heads} offset={k_bytes}"));
        let v = self.view("delta_v", &conv, format_args!("{v_heads} offset={}", 2 * k_bytes));
        let q = self.node("delta_q_norm", "L2_NORM", &[&q], format_args!("{k_heads} eps=1e-6"));
        let k = self.node("delta_k_norm", "L2_NORM", &[&k], format_args!("{k_heads} eps=1e-6"));
        let alpha = self.matmul("ssm_alpha", h, V_HEADS);
        let dt = self.named("ssm_dt.bias");
        let alpha = self.node("ssm_dt", "ADD", &[&alpha, &dt], f32(V_HEADS));
        let alpha = self.unary("delta_softplus", "softplus", &alpha, V_HEADS);
        let a = self.named("ssm_a");
        let g = self.node("delta_decay", "MUL", &[&alpha, &a], f32(V_HEADS));
        let beta = self.matmul("ssm_beta", h, V_HEADS);
        let beta = self.unary("delta_beta", "sigmoid", &beta, V_HEADS);
        let both = format!("f32[{INNER},{}]", 1 + STATE);
        let both = self.node("delta_net", "GATED_DELTA_NET", &[&q, &k, &v, &g, &beta, &state], both);
        let o = self.view("delta_out", &both, &v_heads);
        let next = self.view("delta_next", &both, format_args!("f32[{DELTA_STATE}] offset={}", 4 * INNER));
        self.keep("delta_state", &next, &s, DELTA_STATE);
        let o = self.norm("ssm_norm", &o, &v_heads);
        let z = self.matmul("attn_gate", h, INNER);
        let z = self.unary("delta_gate", "silu", &z, INNER);
        let o = self.view("delta_row", &o, f32(INNER));
        let o = self.node("delta_gated", "MUL", &[&o, &z], f32(INNER));
        self.matmul("ssm_out", &o, WIDTH)
    }

    fn attention(&mut self, h: &str, layer: usize) -> String {
        let (q_heads, kv_heads) = (format!("f32[{DIM},{HEADS}]"), format!("f32[{DIM},{KV_HEADS}]"));
        let packed = self.matmul("attn_q", h, 2 * HEADS * DIM);
        // The query and the gate of a head are adjacent.
        let strides = format!("strides=4,{}", 8 * DIM);
        let q = self.view("attn_queries", &packed, format_args!("{q_heads} {strides}"));
        let q = self.norm("attn_q_norm", &q, &q_heads);
        let k = self.matmul("attn_k", h, KV_HEADS * DIM);
        let v = self.matmul("attn_v", h, KV_HEADS * DIM);
        let k = self.view("attn_keys", &k, &kv_heads);
        let k = self.norm("attn_k_norm", &k, &kv_heads);
        let gate = self.view("attn_gates", &packed, format_args!("{q_heads} offset={} {strides}", 4 * DIM));
        let gate = self.node("attn_gate", "CONT", &[&gate], f32(HEADS * DIM));
        let rope = format!("dims={ROTATED} mode=neox base=1e7");
        let q = self.node("rope_q", "ROPE", &[&q, "positions"], format_args!("{q_heads} {rope}"));
        let k = self.node("rope_k", "ROPE", &[&k, "positions"], format_args!("{kv_heads} {rope}"));
        let mut seen = vec![];
        for (part, x) in [("cache_k", k), ("cache_v", v)] {
            let cache = format!("{part}.{layer}");
            let row = self.view(&format!("{part}_row"), &x, f32(KV_HEADS * DIM));
            let shape = format!("f16[{},{CONTEXT}]", KV_HEADS * DIM);
            self.node(part, "SET_ROWS", &[&row, "cache_rows", &cache], shape);
            // Layout by heads: [dim, positions, heads].
            let strides = format!("strides=2,{},{}", 2 * KV_HEADS * DIM, 2 * DIM);
            let shape = format!("f16[{DIM},{CONTEXT},{KV_HEADS}] {strides}");
            seen.push(self.view(&format!("{part}_heads"), &cache, shape));
        }
        if layer + 1 == PERIOD {
            // Added once for all layers, before its first use.
            let prefix = std::mem::take(&mut self.prefix);
            self.node("mask_f16", "CPY", &["mask"], format_args!("f16[{CONTEXT}]"));
            self.prefix = prefix;
        }
        let shape = format!("f32[{DIM},{HEADS}] scale={}", 1.0 / (DIM as f64).sqrt());
        let a = self.node("attention", "FLASH_ATTN_EXT", &[&q, &seen[0], &seen[1], "mask_f16"], shape);
        let gate = self.unary("attn_gate_sigmoid", "sigmoid", &gate, HEADS * DIM);
        let a = self.view("attn_row", &a, f32(HEADS * DIM));
        let a = self.node("attn_gated", "MUL", &[&a, &gate], f32(HEADS * DIM));
        self.matmul("attn_output", &a, WIDTH)
    }

    fn layer(&mut self, mut x: String, layer: usize) -> String {
        let row = f32(WIDTH);
        self.prefix = format!("blk.{layer}.");
        let h = self.norm("attn_norm", &x, &row);
        let mut o = if is_attention(layer) { self.attention(&h, layer) } else { self.delta_net(&h, layer) };
        if layer + 1 == LAYERS {
            // Gathers the rows whose logits are wanted.
            o = self.node("attn_rows", "GET_ROWS", &[&o, "logit_rows"], &row);
            x = self.node("residual_rows", "GET_ROWS", &[&x, "logit_rows"], &row);
        }
        let x = self.node("attn_residual", "ADD", &[&o, &x], &row);
        let h = self.norm("post_attention_norm", &x, &row);
        let (gate, up) = (self.matmul("ffn_gate", &h, FFN), self.matmul("ffn_up", &h, FFN));
        let f = self.node("ffn_act", "GLU", &[&gate, &up], format_args!("f32[{FFN}] op=swiglu"));
        let f = self.matmul("ffn_down", &f, WIDTH);
        let x = self.node("ffn_residual", "ADD", &[&f, &x], &row);
        self.prefix.clear();
        x
    }

    fn sources(&mut self) {
        let matrix = |name: &str, k: usize, rows: usize| format!("weight {name}.weight q4_0[{k},{rows}]");
        self.line(matrix("token_embd", WIDTH, VOCABULARY));
        for layer in 0..LAYERS {
            let mut matrices = vec![("ffn_gate", WIDTH, FFN), ("ffn_up", WIDTH, FFN), ("ffn_down", FFN, WIDTH)];
            let mut rows = vec![("attn_norm.weight", WIDTH), ("post_attention_norm.weight", WIDTH)];
            if is_attention(layer) {
                matrices.extend([("attn_q", WIDTH, 2 * HEADS * DIM), ("attn_k", WIDTH, KV_HEADS * DIM)]);
                matrices.extend([("attn_v", WIDTH, KV_HEADS * DIM), ("attn_output", HEADS * DIM, WIDTH)]);
                rows.extend([("attn_q_norm.weight", DIM), ("attn_k_norm.weight", DIM)]);
                self.line(format_args!("state cache_k.{layer} f16[{},{CONTEXT}]", KV_HEADS * DIM));
                self.line(format_args!("state cache_v.{layer} f16[{},{CONTEXT}]", KV_HEADS * DIM));
            } else {
                matrices.extend([("attn_qkv", WIDTH, PACKED), ("attn_gate", WIDTH, INNER), ("ssm_out", INNER, WIDTH)]);
                matrices.extend([("ssm_alpha", WIDTH, V_HEADS), ("ssm_beta", WIDTH, V_HEADS)]);
                rows.extend([("ssm_dt.bias", V_HEADS), ("ssm_a", V_HEADS), ("ssm_norm.weight", STATE)]);
                self.line(format_args!("weight blk.{layer}.ssm_conv1d.weight f32[{TAPS},{PACKED}]"));
                self.line(format_args!("state cache_r.{layer} f32[{CONV_STATE},1]"));
                self.line(format_args!("state cache_s.{layer} f32[{DELTA_STATE},1]"));
            }
            matrices.iter().for_each(|(part, k, n)| self.line(matrix(&format!("blk.{layer}.{part}"), *k, *n)));
            rows.iter().for_each(|(part, n)| self.line(format_args!("weight blk.{layer}.{part} f32[{n}]")));
        }
        self.line(format_args!("weight output_norm.weight f32[{WIDTH}]"));
        self.line(matrix("output", WIDTH, VOCABULARY));
        let inputs =
            "tokens i32[1]|positions i32[4]|cache_rows i64[1]|state_rows i32[1]|extra_rows i32[0]|logit_rows i32[1]";
        inputs.split('|').for_each(|input| self.line(format_args!("input {input}")));
        self.line(format_args!("input mask f32[{CONTEXT}]"));
    }
}

fn is_attention(layer: usize) -> bool {
    (layer + 1).is_multiple_of(PERIOD)
}

fn f32(width: usize) -> String {
    format!("f32[{width}]")
}

/// The text of the shipped listing.
pub fn text() -> String {
    let mut l = Listing { out: HEAD.into(), ..Listing::default() };
    l.line(format_args!("batch tokens=1 sequences=1 context={CONTEXT}"));
    l.sources();
    let mut x = l.node("token_embd", "GET_ROWS", &["token_embd.weight", "tokens"], f32(WIDTH));
    for layer in 0..LAYERS {
        x = l.layer(x, layer);
    }
    let x = l.norm("output_norm", &x, &f32(WIDTH));
    l.matmul("output", &x, VOCABULARY);
    l.out
}

/// Writes it.
pub fn run(root: &Path) -> Result<bool> {
    let path = root.join(PATH);
    std::fs::write(&path, text()).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {PATH}");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_listing_is_what_this_writes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PATH);
        let committed = std::fs::read_to_string(path).expect("the shipped listing");
        let differs = committed.lines().zip(text().lines()).position(|(a, b)| a != b);
        assert_eq!(differs, None, "cargo xtask listing would write another line there");
        assert!(committed == text(), "run cargo xtask listing");
    }
}
