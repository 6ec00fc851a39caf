//! The models that have plan snapshots, and bounds on their dispatches. Since a plan is made before weights are loaded, files
//! with the real shapes and without weights are enough.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_engine::files::{GgufWriter, ModelFile};
use onetrip_engine::model::{Model, ModelOptions};
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;

use crate::harness::{Options, models};
use crate::setup::{BATCHES, key, options};
use crate::shape::{Shape, Tensor};

/// A published model: its shape and the types of its matrices.
pub(crate) struct Published {
    pub(crate) name: &'static str,
    /// Path of the real file below the folder of models, if there is one.
    path: Option<&'static str>,
    shape: Shape,
    format: fn(&Tensor) -> DType,
    /// The most dispatches of a layer in a decode step; four more are allowed before and after the layers.
    a_layer: u64,
}

/// Layer of a tensor.
fn layer(t: &Tensor) -> usize {
    t.name.split('.').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Part of the layer, or the tensor's own name.
fn part(t: &Tensor) -> &str {
    t.name.rsplit('.').nth(1).unwrap_or("")
}

pub(crate) fn published() -> Vec<Published> {
    let llama = Shape {
        arch: "llama",
        layers: 30,
        width: 576,
        heads: 9,
        kv_heads: 3,
        dim: 64,
        ffn: 1536,
        vocab: 49152,
        context: 8192,
        rope_base: 100000.0,
        eps: 1e-5,
        window: None,
        tied: true,
    };
    let qwen2 = Shape {
        arch: "qwen2",
        layers: 24,
        width: 896,
        heads: 14,
        kv_heads: 2,
        ffn: 4864,
        vocab: 151_936,
        context: 32768,
        rope_base: 1e6,
        eps: 1e-6,
        tied: false,
        ..llama.clone()
    };
    let qwen3 = Shape {
        arch: "qwen3",
        layers: 28,
        width: 1024,
        heads: 16,
        kv_heads: 8,
        dim: 128,
        ffn: 3072,
        tied: true,
        ..qwen2.clone()
    };
    let gemma3 = Shape {
        arch: "gemma3",
        layers: 18,
        width: 640,
        heads: 4,
        kv_heads: 1,
        dim: 256,
        ffn: 2048,
        vocab: 262_144,
        window: Some(512),
        tied: true,
        ..qwen2.clone()
    };
    let stories = Shape {
        layers: 5,
        width: 64,
        heads: 8,
        kv_heads: 4,
        dim: 8,
        ffn: 172,
        vocab: 512,
        context: 512,
        rope_base: 10000.0,
        ..llama.clone()
    };
    vec![
        Published {
            name: "smollm2-135m-q4_1",
            path: Some("smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"),
            shape: llama,
            format: |t| if part(t) == "token_embd" { DType::Q8_0 } else { DType::Q4_1 },
            a_layer: 5,
        },
        Published {
            name: "qwen2.5-0.5b-q4_k_m",
            path: Some("qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            shape: qwen2,
            format: |t| {
                let more = [0, 1, 3, 6, 7, 8, 9, 10, 13, 16, 19, 21].contains(&layer(t));
                match part(t) {
                    "output" => DType::Q8_0,
                    "attn_v" if more => DType::Q8_0,
                    "ffn_down" if more => DType::Q6_K,
                    "ffn_down" => DType::Q4_K,
                    _ => DType::Q5_0,
                }
            },
            a_layer: 5,
        },
        Published { name: "qwen3-0.6b-q8_0", path: None, shape: qwen3, format: |_| DType::Q8_0, a_layer: 6 },
        Published {
            name: "gemma-3-270m-q4_k_m",
            path: Some("gemma-3-270m/gemma-3-270m-q4_k_m.gguf"),
            shape: gemma3,
            format: |t| {
                let more = [0, 1, 4, 7, 10, 13, 15, 16, 17].contains(&layer(t));
                match part(t) {
                    "token_embd" => DType::Q8_0,
                    "attn_v" if more => DType::Q8_0,
                    "ffn_down" if more => DType::Q6_K,
                    "ffn_down" | "attn_output" => DType::Q4_K,
                    _ => DType::Q5_0,
                }
            },
            a_layer: 7,
        },
        Published {
            name: "stories260k-f32",
            path: Some("data/stories260k/stories260K-f32.gguf"),
            shape: stories,
            format: |_| DType::F32,
            a_layer: 6,
        },
    ]
}

/// Writes zeros as holes of a sparse file: a file of half a gigabyte takes a few kilobytes on disk.
struct Sparse(std::fs::File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Only zeros are written in buffers this large: the header of a file is smaller.
        if bytes.len() < HOLE {
            return self.0.write(bytes);
        }
        let end = self.0.seek(SeekFrom::Current(bytes.len() as i64))?;
        self.0.set_len(end)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Bytes of the smallest buffer that becomes a hole.
const HOLE: usize = 1 << 17;

/// A model that the engine knows by name, `shape:NAME`.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    layers: u64,
    /// Nodes by ggml's op names that its model definition must have: the counts in another engine's listing of a decode step.
    nodes: &'static [(&'static str, u64)],
}

/// Qwen3.5-9B: 24 gated delta nets and 8 attentions. The listing's empty nodes, copies and gathers are not in the definition.
pub(crate) const NAMED: Named = Named {
    name: "qwen3.5-9b:q4_0",
    layers: 32,
    nodes: &[("MUL_MAT", 249), ("MUL", 161), ("RMS_NORM", 105), ("UNARY", 104), ("ADD", 88), ("GLU", 32), ("ROPE", 16)],
};

impl Named {
    pub(crate) fn model_for(&self, options: ModelOptions) -> Result<Model, Failed> {
        Ok(Model::new(onetrip_engine::shape::open(&format!("shape:{}", self.name))?, options)?)
    }

    fn bounded(&self) -> Result<(), Failed> {
        let bind = Bind { t: 1, s: 1, l: 256 };
        let ledger = self.model_for(options("cpu"))?.plan(key(bind))?.ledger(bind);
        let have = ledger.dispatches;
        println!("{}: {have} dispatches, {} nodes", self.name, ledger.nodes);
        if have > 5 * self.layers + 5 || ledger.gaps > 0 {
            return Err(format!("{have} dispatches: {ledger:?}").into());
        }
        match self.nodes.iter().find(|(op, n)| ledger.nodes_by_op.get(*op) != Some(n)) {
            Some((op, n)) => Err(format!("{op}: {:?} nodes, {n} in the listing", ledger.nodes_by_op.get(*op)).into()),
            None => Ok(()),
        }
    }
}

impl Published {
    /// A file of the model's shape whose weights are all zero.
    fn file(&self, dir: &Path) -> Result<ModelFile, Failed> {
        let path = dir.join("model.gguf");
        let mut writer = GgufWriter::new();
        writer.set_all(&self.shape.metadata());
        let tensors = self.shape.tensors();
        let dtype = |t: &Tensor| if t.rows.is_some() { (self.format)(t) } else { DType::F32 };
        let bytes = |t: &Tensor| dtype(t).row_bytes(t.width).map(|b| b * t.rows.unwrap_or(1));
        let zeros = vec![0; tensors.iter().filter_map(bytes).max().unwrap_or(0)];
        for t in &tensors {
            let n = bytes(t).ok_or_else(|| format!("{}: no rows of {}", t.name, t.width))?;
            writer.tensor(t.name.clone(), &t.dims(), dtype(t).ggml(), &zeros[..n])?;
        }
        writer.write(Sparse(std::fs::File::create(&path)?))?;
        Ok(ModelFile::open(&path)?)
    }

    /// The model on the CPU; its weights are of no use.
    pub(crate) fn model(&self) -> Result<Model, Failed> {
        self.model_for(options("cpu"))
    }

    /// The model for a device.
    pub(crate) fn model_for(&self, options: ModelOptions) -> Result<Model, Failed> {
        let dir = tempfile::tempdir()?;
        Ok(Model::new(self.file(dir.path())?, options)?)
    }
}

/// The tests of this module, named `plans/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for model in published() {
        let name = format!("plans/{}/decodes in at most {} dispatches a layer and four", model.name, model.a_layer);
        tests.push(Trial::test(name, move || bounded(&model)));
    }
    for model in published() {
        let Some(path) = model.path else { continue };
        let name = format!("plans/{}/the shape gives the plans of the real file", model.name);
        tests.push(Trial::ignorable_test(name, move || {
            let path = models().unwrap_or_default().join(path);
            if !path.is_file() {
                return Ok(Completion::ignored_with("not run: cargo xtask models"));
            }
            real(&model, &path).map(|()| Completion::Completed)
        }));
    }
    let name = format!("plans/{}/decodes in at most 165 dispatches and has the nodes of the listing", NAMED.name);
    tests.push(Trial::test(name, || NAMED.bounded()));
    tests.push(Trial::test("plans/are the same for every instruction set", every_isa));
    tests
}

fn real(model: &Published, path: &Path) -> Result<(), Failed> {
    let o = Options { isa: Isa::Portable, ..Options::default() };
    let (mut file, mut shape) = (Model::new(ModelFile::open(path)?, o.model())?, model.model()?);
    for (batch, bind) in BATCHES {
        let (have, want) = (file.plan(key(bind))?, shape.plan(key(bind))?);
        if have.table(None) != want.table(None) || have.ledger(bind) != want.ledger(bind) {
            return Err(
                format!("{batch}: the file gives\n{}\nits shape\n{}", have.table(None), want.table(None)).into()
            );
        }
    }
    Ok(())
}

fn bounded(model: &Published) -> Result<(), Failed> {
    let bind = Bind { t: 1, s: 1, l: 256 };
    let mut shape = model.model()?;
    let ledger = shape.plan(key(bind))?.ledger(bind);
    let plain = shape.plan_with(key(bind), &Fuse::None, false)?.ledger(bind);
    let bound = model.a_layer * model.shape.layers as u64 + 4;
    let have = ledger.dispatches;
    println!("{}: {have} dispatches, {} without rules", model.name, plain.dispatches);
    if have > bound {
        return Err(format!("{have} dispatches, at most {bound}").into());
    }
    if ledger.gaps + ledger.off_device > 0 {
        return Err(format!("{ledger:?}").into());
    }
    // The lower bound of the bytes read: every weight that a token needs, once.
    let dtype = |t: &Tensor| if t.rows.is_some() { (model.format)(t) } else { DType::F32 };
    let once = |t: &Tensor| match (part(t), model.shape.tied) {
        ("token_embd", false) => 0,
        _ => dtype(t).row_bytes(t.width).unwrap_or(0) * t.rows.unwrap_or(1),
    };
    let weights: usize = model.shape.tensors().iter().map(once).sum();
    if ledger.bytes_read < weights as u64 || ledger.bytes_read > 2 * weights as u64 + (64 << 20) {
        return Err(format!("claims {} bytes read, the weights have {weights}", ledger.bytes_read).into());
    }
    Ok(())
}

fn every_isa() -> Result<(), Failed> {
    for model in published() {
        let texts = |isa| -> Result<Vec<String>, Failed> {
            let mut made = model.model_for(Options { isa, ..Options::default() }.model())?;
            BATCHES.iter().map(|(_, bind)| Ok(made.plan(key(*bind))?.table(None))).collect()
        };
        let want = texts(Isa::Portable)?;
        for &isa in Isa::available() {
            let have = texts(isa)?;
            if let Some((batch, _)) = std::iter::zip(BATCHES, std::iter::zip(&have, &want)).find(|(_, (a, b))| a != b) {
                return Err(format!("{}, {}: another plan with {}", model.name, batch.0, isa.name()).into());
            }
        }
    }
    Ok(())
}
