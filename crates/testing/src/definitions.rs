//! The model definitions on small random models: compared with the papers' formulas, and with themselves in every way of
//! running.

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::{Fuse, RULES};
use onetrip_engine::files::ModelFile;
use onetrip_engine::step::{Engine, LOGIT_ROWS};
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::Compute;

use crate::harness::{
    Answers, CHUNK, Options, difference, differences, exceeds, forced, load, root_mean_square, sequences,
};
use crate::shape::Tensor;
use crate::small::{Small, naive_logits};

/// The architectures.
const ARCHS: [&str; 6] = ["llama", "qwen2", "qwen3", "gemma3", "phi3", "olmo2"];
/// Tokens that follow every prompt, one in each step.
const THEN: [u32; 3] = [7, 90, 33];
/// Tolerance on logits, which are about 4 in magnitude: f32 sums in another order differ in their last digits.
const SUMS: f32 = 5e-4;
/// With int8 activations, a difference in the last digit can change the quant to which an activation rounds; that moves the
/// following activations by a thousandth, which changes a tenth of their quants. In the end two ways of running may differ like
/// two independent roundings: by sqrt(2) times the error of one of them against f32, in root mean squares over all logits.
/// (Measured: up to 0.7 times between instruction sets. Rules do not change such digits, so they are held to `SUMS`.)
const QUANTS: f32 = 1.42;

/// The tests of this module, named `definitions/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    type Test = fn(&'static str) -> Result<(), Failed>;
    let every: [(&str, Test); 9] = [
        ("computes what the paper says, from GGUF and from a Hugging Face folder", papers),
        ("no rule, every rule alone and all rules agree (f32)", rules_f32),
        ("no rule, every rule alone and all rules agree (int8)", rules_int8),
        ("sequences in one ragged batch are as if alone", ragged),
        ("two threads give the bits of one", threads),
        ("every instruction set gives the same", instruction_sets),
        ("caches in f16 and q8_0 stay near f32", caches),
        ("weights converted at load are those of a converted file", requantized),
        ("a kept beginning and reading in pieces change nothing", pieces),
    ];
    let mut tests = vec![];
    for arch in ARCHS {
        for (what, test) in every {
            tests.push(Trial::test(format!("definitions/{arch}/{what}"), move || test(arch)));
        }
    }
    tests
}

fn prompt(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (i * i * 31 + i * 7 + 3) % 101).collect()
}

/// Name, whether rows of 256 are needed, and the type of each matrix.
type Mix = (&'static str, bool, fn(&Tensor) -> DType);

/// The mixes of formats in files: one format for every matrix, or as in a Q4_K_M file.
fn formats() -> Vec<Mix> {
    vec![
        ("f32", false, |_| DType::F32),
        ("f16", false, |_| DType::F16),
        ("q8_0", false, |_| DType::Q8_0),
        ("q4_1", false, |_| DType::Q4_1),
        ("mxfp4", false, |_| DType::MXFP4),
        ("q4_k and others", true, |t| match t.name.rsplit('.').nth(1) {
            Some("attn_v" | "ffn_down") => DType::Q6_K,
            Some("token_embd" | "output") => DType::Q8_0,
            Some("attn_k") => DType::Q5_0,
            _ => DType::Q4_K,
        }),
    ]
}

fn small(arch: &'static str, wide: bool, format: fn(&Tensor) -> DType) -> Result<Vec<u8>, Failed> {
    Small::new(arch, wide, 5).gguf(&format)
}

fn open(file: &[u8], o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::from_slice("small model", file)?, o)
}

fn within(what: &str, error: f32, tolerance: f32) -> Result<(), Failed> {
    if !exceeds(error, tolerance) {
        Ok(())
    } else {
        Err(format!("{what}: logits differ by {error:.2e}, more than {tolerance:.0e}").into())
    }
}

fn papers(arch: &'static str) -> Result<(), Failed> {
    let model = Small::new(arch, false, 5);
    let ids = prompt(50);
    let want = naive_logits(&model, &ids);
    let dir = tempfile::tempdir()?;
    model.hugging_face(dir.path())?;
    let gguf = model.gguf(&|_| DType::F32)?;
    for kind in ["GGUF", "folder"] {
        let file = || if kind == "GGUF" { ModelFile::from_slice(kind, &gguf) } else { ModelFile::open(dir.path()) };
        for fuse in [Fuse::None, Fuse::All] {
            let mut engine = load(file()?, &Options::f32().fused(fuse.clone()))?;
            let mut worst = 0f32;
            let mut rows = 0;
            engine.logits(&ids, LOGIT_ROWS, &mut |i, row| {
                let want: Vec<f32> = want[i].iter().map(|x| *x as f32).collect();
                let off = difference(row, &want);
                worst = if exceeds(off, worst) { off } else { worst };
                rows += 1;
            })?;
            within(&format!("{kind}, {fuse:?}"), worst, SUMS)?;
            if rows != ids.len() {
                return Err(format!("{rows} rows of logits for {} tokens", ids.len()).into());
            }
        }
    }
    Ok(())
}

/// Logits after prompts of 1, 7, 64 and 300 tokens (a plan of each row bucket) and after each token that follows.
fn answers(file: &[u8], o: &Options) -> Result<Answers, Failed> {
    let mut engine = open(file, o)?;
    let seqs = sequences(&mut engine, 1)?;
    let mut out = vec![];
    for n in [1, 7, 64, 300] {
        // The last token differs, so that the cache of the previous prompt is not reused.
        let mut ids = prompt(n);
        ids[0] = n as u32 % 101;
        out.extend(forced(&mut engine, &seqs, &[&ids], &THEN, CHUNK)?);
    }
    Ok(out)
}

fn rules_f32(arch: &'static str) -> Result<(), Failed> {
    rules(arch, &Options::f32(), SUMS)
}

fn rules_int8(arch: &'static str) -> Result<(), Failed> {
    rules(arch, &Options::default(), SUMS)
}

/// Compares the logits of two ways of running with int8 activations; `exact` are those with f32 activations.
fn quants(what: &str, a: &Answers, b: &Answers, exact: &Answers) -> Result<(), Failed> {
    let (off, allowed) = (root_mean_square(a, b), QUANTS * root_mean_square(a, exact).min(root_mean_square(b, exact)));
    if off <= allowed.max(SUMS) {
        Ok(())
    } else {
        Err(format!("{what}: off by {off:.2e}, more than {allowed:.2e}").into())
    }
}

fn rules(arch: &'static str, o: &Options, tolerance: f32) -> Result<(), Failed> {
    for (name, wide, format) in formats() {
        let file = small(arch, wide, format)?;
        let plain = answers(&file, &o.fused(Fuse::None))?;
        // Two formats are enough for testing every rule alone; the others run with all rules together.
        let alone = RULES.iter().filter(|_| name == "q8_0" || name == "f32").map(|rule| Fuse::only(rule.name));
        for fuse in alone.chain([Fuse::All]) {
            let have = answers(&file, &o.fused(fuse.clone()))?;
            within(&format!("{name}, {fuse:?} against no rule"), differences(&plain, &have), tolerance)?;
        }
    }
    Ok(())
}

fn ragged(arch: &'static str) -> Result<(), Failed> {
    let texts = [prompt(5), prompt(70).split_off(9), prompt(200).split_off(199)];
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let file = small(arch, false, |_| DType::F32)?;
    for o in [Options::f32(), Options::f32().fused(Fuse::None)] {
        let mut together = open(&file, &Options { sequences: 3, ..o.clone() })?;
        let seqs = sequences(&mut together, 3)?;
        let have = forced(&mut together, &seqs, &texts, &THEN, CHUNK)?;
        for (i, text) in texts.iter().enumerate() {
            let mut alone = open(&file, &o)?;
            let seq = sequences(&mut alone, 1)?;
            let want = forced(&mut alone, &seq, &[text], &THEN, CHUNK)?;
            within(&format!("sequence {i} of three, {:?}", o.fuse), differences(&have[i..=i].to_vec(), &want), SUMS)?;
        }
        // The pages of sequences that end are given to the next one, which must not see their old contents.
        seqs.iter().for_each(|&seq| together.scheduler().remove(seq));
        let again = sequences(&mut together, 1)?;
        let other = prompt(40).split_off(3);
        let have = forced(&mut together, &again, &[&other], &THEN, CHUNK);
        let mut alone = open(&file, &o)?;
        let seq = sequences(&mut alone, 1)?;
        let want = forced(&mut alone, &seq, &[&other], &THEN, CHUNK)?;
        within("a sequence on pages of another", differences(&have?, &want), SUMS)?;
    }
    Ok(())
}

fn threads(arch: &'static str) -> Result<(), Failed> {
    for (name, wide, format) in formats() {
        let file = small(arch, wide, format)?;
        for compute in [Compute::F32, Compute::Int8] {
            let o = Options { compute, ..Options::default() };
            let one = answers(&file, &Options { threads: 1, ..o.clone() })?;
            for threads in [2, 3] {
                let more = answers(&file, &Options { threads, ..o.clone() })?;
                let bits = |x: &Answers| x.iter().flatten().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
                if bits(&one) != bits(&more) {
                    let error = differences(&one, &more);
                    return Err(format!("{name}, {compute:?}: {threads} threads differ from one by {error:.1e}").into());
                }
            }
        }
    }
    Ok(())
}

fn instruction_sets(arch: &'static str) -> Result<(), Failed> {
    for (name, wide, format) in formats() {
        let file = small(arch, wide, format)?;
        let with = |isa, o: Options| answers(&file, &Options { isa, ..o });
        let exact = with(Isa::Portable, Options::f32())?;
        let want = with(Isa::Portable, Options::default())?;
        for &isa in Isa::available() {
            let what = format!("{name}, {} against portable", isa.name());
            within(&what, differences(&with(isa, Options::f32())?, &exact), SUMS)?;
            quants(&what, &with(isa, Options::default())?, &want, &exact)?;
        }
    }
    Ok(())
}

fn caches(arch: &'static str) -> Result<(), Failed> {
    let file = small(arch, false, |_| DType::F32)?;
    let want = answers(&file, &Options::f32())?;
    // An element of the cache is off by at most 2^-11 of itself in f16, and by 1/254 of its block's largest in q8_0.
    for (cache, tolerance) in [(DType::F16, 0.02), (DType::Q8_0, 0.3)] {
        let have = answers(&file, &Options { cache, ..Options::f32() })?;
        within(cache.name(), differences(&have, &want), tolerance)?;
        let plain = answers(&file, &Options { cache, ..Options::f32().fused(Fuse::None) })?;
        within(&format!("{} without rules", cache.name()), differences(&plain, &want), tolerance)?;
    }
    Ok(())
}

fn requantized(arch: &'static str) -> Result<(), Failed> {
    let model = Small::new(arch, false, 5);
    let plain = model.gguf(&|_| DType::F32)?;
    for to in [DType::Q8_0, DType::F16, DType::Q4_0, DType::BF16, DType::MXFP4] {
        let converted = model.gguf(&move |_| to)?;
        for compute in [Compute::F32, Compute::Int8] {
            let o = Options { compute, ..Options::default() };
            let at_load = answers(&plain, &Options { weights: Some(to), ..o.clone() })?;
            let in_file = answers(&converted, &o)?;
            if at_load != in_file {
                let error = differences(&at_load, &in_file);
                return Err(format!("{} at load differs from a file by {error:.1e}", to.name()).into());
            }
        }
    }
    Ok(())
}

fn pieces(arch: &'static str) -> Result<(), Failed> {
    let o = Options::f32();
    let file = small(arch, false, |_| DType::F32)?;
    let text = prompt(300);
    let mut whole = open(&file, &o)?;
    let seq = sequences(&mut whole, 1)?;
    let want = forced(&mut whole, &seq, &[&text], &THEN, CHUNK)?;
    for chunk in [1, 7, 64, 257] {
        let mut engine = open(&file, &o)?;
        let seq = sequences(&mut engine, 1)?;
        let have = forced(&mut engine, &seq, &[&text], &THEN, chunk)?;
        within(&format!("in pieces of {chunk}"), differences(&have, &want), SUMS)?;
    }
    // Another text with the same first 260 tokens ran before: those positions are reused from the cache.
    let mut engine = open(&file, &o)?;
    let seq = sequences(&mut engine, 1)?;
    let mut other = text[..260].to_vec();
    other.extend([1, 2, 3, 4, 5]);
    forced(&mut engine, &seq, &[&other], &[11], CHUNK)?;
    let kept = engine.scheduler().set_tokens(seq[0], &text);
    if kept != 260 {
        return Err(format!("{kept} tokens kept of 260 common ones").into());
    }
    let have = forced(&mut engine, &seq, &[&text], &THEN, CHUNK)?;
    within("with a kept beginning", differences(&have, &want), SUMS)
}
