//! Small models with random weights, written as GGUF in any format and as Hugging Face folders.
//!
//! Weights are held in the form of Hugging Face's files: rotary pairs of q and k are split into halves, and Gemma's norm
//! weights are stored minus one. The differences of GGUF are applied when a file is written, as converters do.

use std::collections::BTreeMap;
use std::path::Path;

use libtest_mimic::Failed;
use onetrip_core::cases::Rng;
use onetrip_engine::files::GgufWriter;
use onetrip_ir::formats::DType;

use crate::shape::{Shape, Tensor};

/// A model in memory.
pub struct Small {
    /// Its shape.
    pub shape: Shape,
    /// The elements of each tensor by GGUF's names, in Hugging Face's form.
    pub numbers: BTreeMap<String, Vec<f32>>,
}

/// Chooses the storage type of each tensor.
pub type Format = dyn Fn(&Tensor) -> DType;

impl Small {
    /// The small model of an architecture. `wide` makes rows of 256, which the formats with large blocks need.
    pub fn new(arch: &'static str, wide: bool, seed: u64) -> Small {
        // With six layers, both kinds of Gemma's attention layers occur.
        let layers = if arch == "gemma3" { 6 } else { 2 };
        let (heads, kv_heads) = match arch {
            "llama" => (6, 2),
            "qwen2" => (4, 1),
            "qwen3" | "olmo2" => (4, 4),
            _ => (4, 2),
        };
        let shape = Shape {
            arch,
            layers: if wide { 2 } else { layers },
            width: if wide { 256 } else { 96 },
            heads: if wide { 8 } else { heads },
            kv_heads,
            dim: 32,
            ffn: if wide { 512 } else { 160 },
            vocab: 101,
            context: 1024,
            rope_base: 20000.0,
            eps: 1e-5,
            window: (arch == "gemma3").then_some(24),
            tied: !matches!(arch, "qwen2" | "olmo2"),
        };
        let mut rng = Rng::new(seed);
        let numbers = shape.tensors().into_iter().map(|t| {
            let scale = match t.rows {
                // Rows are scaled to keep the magnitude of the activations; the head is sharper, so that tokens differ.
                Some(_) if t.name.starts_with("token_embd") => 1.0 / (t.width as f32).sqrt() * 4.0,
                Some(_) => 1.0 / (t.width as f32).sqrt(),
                None => 0.2,
            };
            let offset = if t.name.ends_with("norm.weight") && arch != "gemma3" { 1.0 } else { 0.0 };
            let numbers = rng.normals(t.len()).iter().map(|x| x * scale + offset).collect();
            (t.name, numbers)
        });
        let numbers = numbers.collect();
        Small { shape, numbers }
    }

    /// The elements of a tensor in GGUF's form.
    fn for_gguf(&self, t: &Tensor) -> Vec<f32> {
        let mut numbers = self.numbers[&t.name].clone();
        if self.shape.arch == "gemma3" && t.name.ends_with("norm.weight") {
            numbers.iter_mut().for_each(|x| *x += 1.0);
        }
        let rotated = t.name.contains("attn_q.") || t.name.contains("attn_k.");
        if self.shape.arch == "llama" && rotated {
            // The rotary pairs (i, i + half) of a head become adjacent rows.
            let (dim, half) = (self.shape.dim, self.shape.dim / 2);
            let from = |row: usize| {
                let (head, r) = (row / dim, row % dim);
                head * dim + if r % 2 == 0 { r / 2 } else { half + r / 2 }
            };
            let old = &self.numbers[&t.name];
            for (row, out) in numbers.chunks_exact_mut(t.width).enumerate() {
                out.copy_from_slice(&old[from(row) * t.width..(from(row) + 1) * t.width]);
            }
        }
        numbers
    }

    /// The bytes of a GGUF file; matrices in the format of their name, single rows in f32.
    pub fn gguf(&self, format: &Format) -> Result<Vec<u8>, Failed> {
        let mut writer = GgufWriter::new();
        writer.set_all(&self.shape.metadata());
        for t in self.shape.tensors() {
            let dtype = if t.rows.is_some() { format(&t) } else { DType::F32 };
            let row_bytes =
                dtype.row_bytes(t.width).ok_or_else(|| format!("{} has no rows of {}", dtype.name(), t.width))?;
            let numbers = self.for_gguf(&t);
            let mut bytes = vec![0; row_bytes * t.rows.unwrap_or(1)];
            for (row, out) in numbers.chunks_exact(t.width).zip(bytes.chunks_exact_mut(row_bytes)) {
                dtype.def().quantize(row, out);
            }
            writer.tensor(t.name.clone(), &t.dims(), dtype.ggml(), bytes)?;
        }
        Ok(writer.to_bytes()?)
    }

    /// Writes the model as a Hugging Face folder in f32.
    pub fn hugging_face(&self, dir: &Path) -> Result<(), Failed> {
        use safetensors::tensor::{Dtype, TensorView, serialize};
        std::fs::write(dir.join("config.json"), self.shape.config_json().to_string())?;
        let tensors = self.shape.tensors();
        let bytes: Vec<Vec<u8>> =
            tensors.iter().map(|t| self.numbers[&t.name].iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
        let views = tensors.iter().zip(&bytes).map(|(t, bytes)| {
            let shape = t.dims().iter().rev().map(|&d| d as usize).collect();
            Ok((self.hugging_face_name(&t.name), TensorView::new(Dtype::F32, shape, bytes)?))
        });
        let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        std::fs::write(dir.join("model.safetensors"), serialize(views, None)?)?;
        Ok(())
    }

    /// The name of a tensor in Hugging Face's modelling code.
    fn hugging_face_name(&self, name: &str) -> String {
        let gemma = self.shape.arch == "gemma3";
        let parts = [
            ("token_embd", "model.embed_tokens"),
            ("output_norm", "model.norm"),
            ("attn_q_norm", "self_attn.q_norm"),
            ("attn_k_norm", "self_attn.k_norm"),
            ("post_attention_norm", "post_attention_layernorm"),
            ("post_ffw_norm", "post_feedforward_layernorm"),
            ("attn_norm", "input_layernorm"),
            ("ffn_norm", if gemma { "pre_feedforward_layernorm" } else { "post_attention_layernorm" }),
            ("attn_qkv", "self_attn.qkv_proj"),
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", if self.shape.arch == "phi3" { "mlp.gate_up_proj" } else { "mlp.up_proj" }),
            ("ffn_down", "mlp.down_proj"),
            ("output", "lm_head"),
            ("blk", "model.layers"),
        ];
        let renamed =
            name.split('.').map(|part| parts.iter().find(|(from, _)| *from == part).map_or(part, |(_, to)| to));
        renamed.collect::<Vec<_>>().join(".")
    }
}

/// Logits after every token, computed in f64 from the papers' formulas without any code of the engine: no graph, cache or
/// batch.
pub fn naive_logits(model: &Small, ids: &[u32]) -> Vec<Vec<f64>> {
    let s = &model.shape;
    let gemma = s.arch == "gemma3";
    let get = |name: String| model.numbers.get(&name);
    let norm = |x: &[f64], w: &[f32]| -> Vec<f64> {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + s.eps as f64).sqrt();
        x.iter().zip(w).map(|(x, w)| x * scale * (*w as f64 + gemma as u8 as f64)).collect()
    };
    let product = |w: &[f32], x: &[f64]| -> Vec<f64> {
        w.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| *a as f64 * b).sum()).collect()
    };
    let embedding = &model.numbers["token_embd.weight"];
    let scale = if gemma { (s.width as f64).sqrt() } else { 1.0 };
    let row = |id: u32| &embedding[id as usize * s.width..(id as usize + 1) * s.width];
    let mut xs: Vec<Vec<f64>> = ids.iter().map(|&id| row(id).iter().map(|x| *x as f64 * scale).collect()).collect();
    for layer in 0..s.layers {
        let stored = |name: &str| get(format!("blk.{layer}.{name}.weight")).map_or(&[][..], |v| v);
        // Phi's files have q, k and v in one matrix, and gate and up in another.
        let rows = |name: &str, first: usize, rows: usize| &stored(name)[first * s.width..(first + rows) * s.width];
        let (all_q, all_kv) = (s.heads * s.dim, s.kv_heads * s.dim);
        let w = |name: &str| match (s.arch, name) {
            ("phi3", "attn_q") => rows("attn_qkv", 0, all_q),
            ("phi3", "attn_k") => rows("attn_qkv", all_q, all_kv),
            ("phi3", "attn_v") => rows("attn_qkv", all_q + all_kv, all_kv),
            ("phi3", "ffn_gate") => rows("ffn_up", 0, s.ffn),
            ("phi3", "ffn_up") => rows("ffn_up", s.ffn, s.ffn),
            _ => stored(name),
        };
        // OLMo 2 has no norm before a block.
        let before = |x: &[f64], name: &str| if s.arch == "olmo2" { x.to_vec() } else { norm(x, w(name)) };
        let base = if gemma && !s.is_global(layer) { 10000.0 } else { s.rope_base as f64 };
        // q, k or v of a token: matrix product, bias, head norm, rotary embedding.
        let project = |h: &[f64], name: &str, position: Option<usize>| -> Vec<f64> {
            let mut y = product(w(name), h);
            if let Some(bias) = get(format!("blk.{layer}.{name}.bias")) {
                y.iter_mut().zip(bias).for_each(|(y, b)| *y += *b as f64);
            }
            let Some(position) = position else { return y };
            if s.arch == "olmo2" {
                y = norm(&y, w(&format!("{name}_norm")));
            }
            for head in y.chunks_exact_mut(s.dim) {
                if let Some(w) = get(format!("blk.{layer}.{name}_norm.weight")).filter(|_| s.arch != "olmo2") {
                    head.copy_from_slice(&norm(head, w));
                }
                let half = s.dim / 2;
                for i in 0..half {
                    let (sin, cos) = (position as f64 * base.powf(-2.0 * i as f64 / s.dim as f64)).sin_cos();
                    (head[i], head[i + half]) =
                        (head[i] * cos - head[i + half] * sin, head[i] * sin + head[i + half] * cos);
                }
            }
            y
        };
        let (mut ks, mut vs): (Vec<Vec<f64>>, Vec<Vec<f64>>) = Default::default();
        for (t, x) in xs.iter_mut().enumerate() {
            let h = before(x, "attn_norm");
            let q = project(&h, "attn_q", Some(t));
            ks.push(project(&h, "attn_k", Some(t)));
            vs.push(project(&h, "attn_v", None));
            let first = if s.is_global(layer) { 0 } else { (t + 1).saturating_sub(s.window.unwrap_or(0) as usize) };
            let mut a = vec![];
            for (head, q) in q.chunks_exact(s.dim).enumerate() {
                let kv = head / (s.heads / s.kv_heads) * s.dim;
                let dot = |k: &Vec<f64>| q.iter().zip(&k[kv..kv + s.dim]).map(|(a, b)| a * b).sum::<f64>();
                let scores: Vec<f64> = ks[first..].iter().map(|k| (dot(k) / (s.dim as f64).sqrt()).exp()).collect();
                let sum: f64 = scores.iter().sum();
                a.extend(
                    (0..s.dim).map(|d| scores.iter().zip(&vs[first..]).map(|(p, v)| p / sum * v[kv + d]).sum::<f64>()),
                );
            }
            let mut o = product(w("attn_output"), &a);
            if gemma || s.arch == "olmo2" {
                o = norm(&o, w("post_attention_norm"));
            }
            x.iter_mut().zip(o).for_each(|(x, o)| *x += o);
            let h = before(x, "ffn_norm");
            let act = |g: f64| match gemma {
                true => 0.5 * g * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g * g * g)).tanh()),
                false => g / (1.0 + (-g).exp()),
            };
            let gate = product(w("ffn_gate"), &h);
            let up = product(w("ffn_up"), &h);
            let f: Vec<f64> = gate.iter().zip(up).map(|(g, u)| act(*g) * u).collect();
            let mut f = product(w("ffn_down"), &f);
            if gemma || s.arch == "olmo2" {
                f = norm(&f, w("post_ffw_norm"));
            }
            x.iter_mut().zip(f).for_each(|(x, f)| *x += f);
        }
    }
    let head = get("output.weight".into()).unwrap_or(embedding);
    xs.iter().map(|x| product(head, &norm(x, &model.numbers["output_norm.weight"]))).collect()
}
