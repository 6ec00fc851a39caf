//! The hybrid model definition qwen35 on a small model whose weights are hashes of names: compared with an independent
//! float32 implementation (`crates/testing/tools/qwen35_numpy.py`, which wrote the reference), and with itself in every way of
//! running. The check of metadata against tensor shapes is tested too.

use std::collections::BTreeMap;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::{Fuse, RULES};
use onetrip_engine::files::{GgufWriter, Metadata, ModelFile, Value};
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, PlanKey};
use onetrip_engine::step::Engine;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::Compute;

use crate::harness::{Answers, CHUNK, Options, differences, forced, load, root_mean_square, run, sequences};

const REFERENCE: &[u8] = include_bytes!("../reference/qwen35-small.f32");
/// Texts of the reference, with their number of tokens: first those that run alone, then those of one ragged batch.
const ALONE: [(&str, usize); 4] = [("text.1", 1), ("text.7", 7), ("text.64", 64), ("text.300", 300)];
const TOGETHER: [(&str, usize); 3] = [("batch.3", 3), ("batch.40", 40), ("batch.131", 131)];
/// Tokens that follow each text, one in each step.
const THEN: usize = 20;
const VOCAB: usize = 128;
/// Tolerance on logits, which are about 4 in magnitude (up to 15): after eight layers, f32 sums in another order differ in
/// their last digits.
const SUMS: f32 = 1e-3;

/// The tests of this module, named `qwen35/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    type Test = fn() -> Result<(), Failed>;
    let all: [(&str, Test); 10] = [
        ("computes what the numpy implementation does, alone and in a ragged batch", numpy),
        ("no rule, every rule alone and all rules agree (f32)", rules_f32),
        ("no rule and all rules agree (int8)", rules_int8),
        ("two threads give the bits of one", threads),
        ("every instruction set gives the same", instruction_sets),
        ("reading in pieces and continuing changes nothing", pieces),
        ("a slot that another text used begins at zero", slots),
        ("a decode step has five dispatches a layer", dispatches),
        ("sizes that disagree are refused by name", bad_sizes),
        ("replays of a step begin from the same states", || replays(&Options::default())),
    ];
    all.into_iter().map(|(what, test)| Trial::test(format!("definitions/qwen35/{what}"), test)).collect()
}

/// A number below 2^24 for each index, by the tensor's name: FNV-1a, then SplitMix64.
fn hashed(name: &str) -> impl FnMut() -> u32 {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
    let mut i = 0u64;
    move || {
        i += 1;
        let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as u32
    }
}

fn ids(name: &str, n: usize) -> Vec<u32> {
    let mut next = hashed(name);
    (0..n).map(|_| next() % VOCAB as u32).collect()
}

/// The shape of a model of this architecture.
#[derive(Clone)]
struct Shape {
    counts: BTreeMap<&'static str, u64>,
    base: f64,
}

impl Shape {
    /// The shape that the numpy tool uses.
    fn small() -> Shape {
        let counts = [
            ("block_count", 8),
            ("context_length", 1024),
            ("embedding_length", 256),
            ("feed_forward_length", 384),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
            ("attention.key_length", 32),
            ("attention.value_length", 32),
            ("rope.dimension_count", 16),
            ("ssm.conv_kernel", 4),
            ("ssm.inner_size", 96),
            ("ssm.state_size", 16),
            ("ssm.time_step_rank", 6),
            ("ssm.group_count", 2),
            ("full_attention_interval", 4),
            ("vocab_size", VOCAB as u64),
        ];
        Shape { counts: counts.into(), base: 1e4 }
    }

    fn with(mut self, key: &'static str, value: u64) -> Shape {
        self.counts.insert(key, value);
        self
    }

    fn metadata(&self) -> Metadata {
        let mut m = Metadata::new();
        m.insert("general.architecture".into(), Value::Str("qwen35".into()));
        m.extend(self.counts.iter().map(|(key, n)| (format!("qwen35.{key}"), Value::U64(*n))));
        m.insert("qwen35.attention.layer_norm_rms_epsilon".into(), Value::F64(1e-6));
        m.insert("qwen35.rope.freq_base".into(), Value::F64(self.base));
        m
    }

    /// Name, dimensions (innermost first).
    fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let n = |key: &str| self.counts[key];
        let (width, ffn, dim) = (n("embedding_length"), n("feed_forward_length"), n("attention.key_length"));
        let (q, kv) = (n("attention.head_count") * dim, n("attention.head_count_kv") * dim);
        let (state, heads) = (n("ssm.state_size"), n("ssm.time_step_rank"));
        let inner = heads * state;
        let packed = 2 * n("ssm.group_count") * state + inner;
        let mut out = vec![
            ("token_embd.weight".to_string(), vec![width, n("vocab_size")]),
            ("output_norm.weight".into(), vec![width]),
            ("output.weight".into(), vec![width, n("vocab_size")]),
        ];
        for layer in 0..n("block_count") {
            let mut add = |name: &str, dims: &[u64]| out.push((format!("blk.{layer}.{name}"), dims.to_vec()));
            add("attn_norm.weight", &[width]);
            add("post_attention_norm.weight", &[width]);
            if (layer + 1) % n("full_attention_interval") == 0 {
                add("attn_q.weight", &[width, 2 * q]);
                add("attn_k.weight", &[width, kv]);
                add("attn_v.weight", &[width, kv]);
                add("attn_output.weight", &[q, width]);
                add("attn_q_norm.weight", &[dim]);
                add("attn_k_norm.weight", &[dim]);
            } else {
                add("attn_qkv.weight", &[width, packed]);
                add("attn_gate.weight", &[width, inner]);
                add("ssm_conv1d.weight", &[n("ssm.conv_kernel"), packed]);
                add("ssm_dt.bias", &[heads]);
                add("ssm_a", &[heads]);
                add("ssm_beta.weight", &[width, heads]);
                add("ssm_alpha.weight", &[width, heads]);
                add("ssm_norm.weight", &[state]);
                add("ssm_out.weight", &[inner, width]);
            }
            add("ffn_gate.weight", &[width, ffn]);
            add("ffn_up.weight", &[width, ffn]);
            add("ffn_down.weight", &[ffn, width]);
        }
        out
    }

    /// A GGUF file; matrices but for the filters in `format` where their rows allow it.
    fn gguf(&self, format: DType) -> Result<Vec<u8>, Failed> {
        let mut writer = GgufWriter::new();
        writer.set_all(&self.metadata());
        for (name, dims) in self.tensors() {
            let width = dims[0] as usize;
            let numbers = numbers(&name, width, dims.iter().product::<u64>() as usize);
            let wanted = if dims.len() > 1 && !name.contains("conv1d") { format } else { DType::F32 };
            let (dtype, row_bytes) = match wanted.row_bytes(width) {
                Some(bytes) => (wanted, bytes),
                None => (DType::F32, width * 4),
            };
            let mut bytes = vec![0; numbers.len() / width * row_bytes];
            for (row, out) in numbers.chunks_exact(width).zip(bytes.chunks_exact_mut(row_bytes)) {
                dtype.def().quantize(row, out);
            }
            writer.tensor(name, &dims, dtype.ggml(), bytes)?;
        }
        Ok(writer.to_bytes()?)
    }
}

/// The hashed elements of a tensor: `offset + scale * (a number between -1 and 1)`.
fn numbers(name: &str, width: usize, n: usize) -> Vec<f32> {
    let part = name.split('.').find(|p| *p != "blk" && p.parse::<u32>().is_err()).unwrap_or(name);
    let even = (3.0 / width as f64).sqrt();
    let (scale, offset) = match part {
        "token_embd" | "ssm_dt" => (1.0, 0.0),
        "ssm_conv1d" => (0.5, 0.0),
        "ssm_a" => (1.9, -2.0),
        "output" => (4.0 * even, 0.0),
        norm if norm.ends_with("norm") => (0.2, 1.0),
        _ => (even, 0.0),
    };
    let mut next = hashed(name);
    let unit = |x: u32| x as f32 / (1u32 << 23) as f32 - 1.0;
    (0..n).map(|_| unit(next()) * scale as f32 + offset as f32).collect()
}

/// The small model's file: for tests of other devices.
pub(crate) fn small_gguf(format: DType) -> Result<Vec<u8>, Failed> {
    Shape::small().gguf(format)
}

fn open(file: &[u8], o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::from_slice("small qwen35", file)?, o)
}

/// The reference's logits of the texts in turn.
fn reference() -> Answers {
    let all: Vec<f32> = REFERENCE.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    all.chunks_exact(VOCAB * (THEN + 1)).map(|text| text.chunks_exact(VOCAB).map(<[f32]>::to_vec).collect()).collect()
}

fn within(what: &str, error: f32, tolerance: f32) -> Result<(), Failed> {
    if error <= tolerance {
        Ok(())
    } else {
        Err(format!("{what}: logits differ by {error:.2e} > {tolerance:.0e}").into())
    }
}

/// The engine's logits for the reference's texts: four that run alone, three in one batch.
fn answers(file: &[u8], o: &Options) -> Result<Answers, Failed> {
    let then = ids("then", THEN);
    let mut engine = open(file, &Options { sequences: 3, ..o.clone() })?;
    let mut out = vec![];
    for (name, n) in ALONE {
        let seq = sequences(&mut engine, 1)?;
        out.extend(forced(&mut engine, &seq, &[&ids(name, n)], &then, CHUNK)?);
        engine.scheduler().remove(seq[0]);
    }
    let seqs = sequences(&mut engine, 3)?;
    let texts = TOGETHER.map(|(name, n)| ids(name, n));
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    out.extend(forced(&mut engine, &seqs, &texts, &then, CHUNK)?);
    Ok(out)
}

fn numpy() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::F32)?;
    let want = reference();
    if want.len() != ALONE.len() + TOGETHER.len() {
        return Err(format!("the reference has {} texts", want.len()).into());
    }
    for fuse in [Fuse::None, Fuse::All] {
        let have = answers(&file, &Options::f32().fused(fuse.clone()))?;
        for (i, (have, want)) in have.iter().zip(&want).enumerate() {
            let error = differences(&vec![have.clone()], &vec![want.clone()]);
            within(&format!("text {i} of the reference, {fuse:?}"), error, SUMS)?;
        }
    }
    Ok(())
}

/// Compares the logits on the first wgpu adapter with those of the numpy implementation.
pub(crate) fn numpy_on_gpu() -> Result<(), Failed> {
    let have = answers(&Shape::small().gguf(DType::F32)?, &Options::f32().on_gpu())?;
    within("all texts of the reference", differences(&have, &reference()), SUMS)
}

/// The test below on the first wgpu adapter.
pub(crate) fn replays_on_gpu() -> Result<(), Failed> {
    replays(&Options::default().on_gpu())
}

/// A step that runs again from restored states gives bitwise the same logits.
fn replays(o: &Options) -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::Q4_0)?;
    let mut engine = open(&file, &Options { context: 64, sequences: 4, ..o.clone() })?;
    let (prompt, token) = (Bind { t: 24, s: 2, l: 12 }, Bind { t: 1, s: 1, l: 13 });
    let mut runs = 0;
    let found = engine.replays(&[(prompt, 3), (token, 4)], &mut || runs += 1)?;
    let held = found.iter().all(|r| r.hold() && r.different == 0 && r.numbers > 0);
    if !held || runs != 7 {
        return Err(format!("{runs} runs: {found:?}").into());
    }
    Ok(())
}

fn rules_f32() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::F32)?;
    let plain = answers(&file, &Options::f32().fused(Fuse::None))?;
    for fuse in RULES.iter().map(|rule| Fuse::only(rule.name)).chain([Fuse::All]) {
        let have = answers(&file, &Options::f32().fused(fuse.clone()))?;
        within(&format!("{fuse:?} against no rule"), differences(&have, &plain), SUMS)?;
    }
    Ok(())
}

fn rules_int8() -> Result<(), Failed> {
    for format in [DType::Q8_0, DType::Q4_0] {
        let file = Shape::small().gguf(format)?;
        let exact = answers(&file, &Options { compute: Compute::F32, ..Options::default().fused(Fuse::None) })?;
        let plain = answers(&file, &Options::default().fused(Fuse::None))?;
        let have = answers(&file, &Options::default())?;
        // A difference in the last digit can change an int8 quant, so the bound is a share of the difference between int8 and
        // f32.
        let (off, allowed) = (root_mean_square(&plain, &have), 0.5 * root_mean_square(&plain, &exact));
        if off > allowed {
            return Err(format!("{}: off by {off:.2e}, more than {allowed:.2e}", format.name()).into());
        }
    }
    Ok(())
}

fn threads() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::Q4_0)?;
    let one = answers(&file, &Options::default())?;
    let two = answers(&file, &Options { threads: 2, ..Options::default() })?;
    let same =
        one.iter().flatten().flatten().zip(two.iter().flatten().flatten()).all(|(a, b)| a.to_bits() == b.to_bits());
    if same { Ok(()) } else { Err(format!("differ by {:.1e}", differences(&one, &two)).into()) }
}

fn instruction_sets() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::F32)?;
    for &isa in Isa::available() {
        let have = answers(&file, &Options { isa, ..Options::f32() })?;
        within(isa.name(), differences(&have, &reference()), SUMS)?;
    }
    Ok(())
}

fn pieces() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::F32)?;
    let (text, then) = (ids("text.300", 300), ids("then", THEN));
    let want = reference()[3..4].to_vec();
    for chunk in [1, 2, 9, 65, 257] {
        let mut engine = open(&file, &Options::f32())?;
        let seq = sequences(&mut engine, 1)?;
        let have = forced(&mut engine, &seq, &[&text], &then, chunk)?;
        within(&format!("in pieces of {chunk}"), differences(&have, &want), SUMS)?;
        // The same text is continued from its middle. The recurrent state is that of its end, so the whole text runs again.
        let have = forced(&mut engine, &seq, &[&text], &then, chunk)?;
        within(&format!("again in pieces of {chunk}"), differences(&have, &want), SUMS)?;
    }
    // A longer text is continued from the position of the state.
    let mut engine = open(&file, &Options::f32())?;
    let seq = sequences(&mut engine, 1)?;
    engine.scheduler().set_tokens(seq[0], &text[..120]);
    let mut batch = engine.scheduler().next(CHUNK).ok_or("nothing to run")?;
    run(&mut engine, &mut batch, Want::LastLogits)?;
    let row = |_| onetrip_engine::scheduler::TokenOutput { seq: 0, id: text[120], log_prob: None, top: vec![] };
    engine.scheduler().take(&batch, row);
    let kept = engine.scheduler().set_tokens(seq[0], &text);
    if kept != 120 {
        return Err(format!("{kept} tokens kept, should be 120").into());
    }
    let have = forced(&mut engine, &seq, &[&text], &then, CHUNK)?;
    within("continued", differences(&have, &want), SUMS)
}

fn slots() -> Result<(), Failed> {
    let file = Shape::small().gguf(DType::F32)?;
    let then = ids("then", THEN);
    let mut engine = open(&file, &Options { sequences: 2, ..Options::f32() })?;
    let first = sequences(&mut engine, 2)?;
    let (long, short) = (ids("text.64", 64), ids("text.7", 7));
    forced(&mut engine, &first, &[&long, &long], &then, CHUNK)?;
    first.iter().for_each(|&seq| engine.scheduler().remove(seq));
    let again = sequences(&mut engine, 1)?;
    let have = forced(&mut engine, &again, &[&short], &then, CHUNK)?;
    within("a text on another's slot", differences(&have, &reference()[1..2].to_vec()), SUMS)
}

fn dispatches() -> Result<(), Failed> {
    let shape = Shape::small();
    for (sequences, want) in [(1, 5 * 8 + 3), (3, 5 * 8 + 3)] {
        let file = ModelFile::from_slice("small qwen35", &shape.gguf(DType::Q4_0)?)?;
        let mut model = Model::new(file, Options::default().model())?;
        let plan = model.plan(PlanKey::of(sequences, sequences, Want::Sample { top: 0 }))?;
        let ledger = plan.ledger(Bind { t: sequences as u64, s: sequences as u64, l: 100 });
        if ledger.dispatches != want || ledger.gaps != 0 || !plan.refused.is_empty() {
            return Err(format!("{} dispatches, should be {want}:\n{}", ledger.dispatches, plan.table(None)).into());
        }
    }
    Ok(())
}

fn bad_sizes() -> Result<(), Failed> {
    let small = Shape::small;
    let right = small().gguf(DType::F32)?;
    // Metadata that contradicts the tensors of the valid file, and words that the error must contain.
    let wrong: [(&'static str, u64, &[&str]); 9] = [
        ("ssm.inner_size", 128, &["ssm.inner_size", "128", "96"]),
        ("ssm.time_step_rank", 5, &["ssm.time_step_rank", "80"]),
        ("ssm.group_count", 4, &["6 value heads", "4 key heads"]),
        ("ssm.group_count", 3, &["attn_qkv", "192 rows"]),
        ("ssm.group_count", 0, &["qwen35.ssm.group_count` is 0"]),
        ("ssm.conv_kernel", 3, &["conv", "3"]),
        ("ssm.conv_kernel", 1, &["ssm.conv_kernel"]),
        ("ssm.conv_kernel", 1 << 40, &["ssm.conv_kernel"]),
        ("full_attention_interval", 0, &["full_attention_interval"]),
    ];
    for (key, value, words) in wrong {
        let mut writer = GgufWriter::new();
        writer.set_all(&small().with(key, value).metadata());
        for (name, dims) in small().tensors() {
            let n = dims.iter().product::<u64>() as usize;
            writer.tensor_f32(name, &dims, &vec![0.5; n])?;
        }
        let file = ModelFile::from_slice("wrong.gguf", &writer.to_bytes()?)?;
        let error = match Model::new(file, Options::f32().model()) {
            Ok(_) => return Err(format!("{key} = {value} was accepted").into()),
            Err(e) => e.to_string(),
        };
        if !error.starts_with("wrong.gguf") || error.contains('\n') || words.iter().any(|w| !error.contains(w)) {
            return Err(format!("{key} = {value}: the answer is `{error}`, without {words:?}").into());
        }
    }
    open(&right, &Options::f32()).map(|_| ())
}
