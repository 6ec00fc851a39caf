//! Whole models as they are fetched, compared with recorded results of other engines (`crates/testing/reference`).

use std::path::PathBuf;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::{Fuse, RULES};
use onetrip_engine::files::{Kind, ModelFile};
use onetrip_engine::generate::{StopConditions, generate};
use onetrip_engine::step::{Engine, LOGIT_ROWS};
use onetrip_engine::tokenizer::{Special, Tokenizer};
use onetrip_ir::batch::SampleParams;
use onetrip_ir::target::Compute;
use serde_json::Value as Json;

use crate::harness::{Answers, CHUNK, Options, best, differences, exceeds, forced, load, models, sequences};
use crate::reference::read as reference;

/// A model with recorded results.
#[derive(Clone, Copy)]
struct Known {
    /// Name of the model in test names.
    name: &'static str,
    /// Path below the folder of models.
    path: &'static str,
    /// Name of the files in `crates/testing/reference`, without `.json`: llama.cpp's results, and with `.numpy` those of a
    /// float pass.
    reference: &'static str,
    /// Perplexity in the float pass.
    perplexity: f64,
    /// The set of `cargo xtask models` that contains the model; none if no package does.
    set: Option<&'static str>,
    /// Largest error of a top logit in f32 against the float pass.
    float: f32,
    /// Which of the recorded prompts are rendered chats, by name.
    chat: &'static [&'static str],
}

const SMOLLM2: Known = Known {
    name: "smollm2",
    path: "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf",
    reference: "smollm2-135m-instruct-q4_1",
    perplexity: 36.07,
    set: Some("smollm2"),
    float: 1e-4,
    chat: &["chat"],
};
const QWEN: Known = Known {
    name: "qwen2.5-0.5b",
    path: "qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    reference: "qwen2.5-coder-0.5b-instruct-q4_k_m",
    perplexity: 84.51,
    set: Some("qwen05"),
    float: 1e-4,
    chat: &["chat"],
};
const GEMMA: Known = Known {
    name: "gemma-3-270m",
    path: "gemma-3-270m/gemma-3-270m-q4_k_m.gguf",
    reference: "gemma-3-270m-q4_k_m",
    perplexity: 38.30,
    set: Some("gemma270"),
    float: 1e-4,
    chat: &[],
};
const STORIES: Known = Known {
    name: "stories260k",
    path: "data/stories260k/stories260K-f32.gguf",
    reference: "stories260K-f32",
    perplexity: 49.404,
    set: None,
    float: 1e-4,
    chat: &[],
};

/// Tolerances from `crates/testing/reference/README.md`: the relative error of the perplexity, and the reference's margin (in
/// logits) above which the best token must be equal.
const PERPLEXITY: f64 = 0.01;
const MARGIN: f64 = 1.0;
/// The fewest steps that must be compared for the test to be meaningful.
const STEPS: usize = 30;
/// Tokens of a text whose perplexity is computed on a software GPU.
const BEGINNING: usize = 128;

/// All tests of whole models; those that are slow are ignored unless `slow` is set.
pub fn tests(slow: bool) -> Vec<Trial> {
    let mut out = vec![];
    for known in [STORIES, SMOLLM2] {
        out.push(trial(slow, known, "token ids are the reference's", token_ids));
        out.push(trial(slow, known, "perplexity is within 1 %", perplexity));
        out.push(trial(slow, known, "the best token is the reference's where it is clear", |k| {
            teacher(k, Compute::Int8)
        }));
        out.push(trial(slow, known, "greedy text begins like the reference's", text));
    }
    out.push(trial(slow, STORIES, "f32 logits are the reference's", stories_logits));
    out.push(trial(slow, STORIES, "the Hugging Face folder gives what GGUF gives", stories_folder));
    out.push(trial(slow, STORIES, "perplexity is within 1 % (wgpu)", |k| {
        on_gpu(|| perplexity_with(k, &Options::f32().on_gpu()))
    }));
    if !slow {
        return out;
    }
    // Qwen's head takes 145 MB in planes. With bindings of 134 MB, as in Mesa's software Vulkan, it is cut into two shards.
    for known in [SMOLLM2, QWEN] {
        out.push(trial(slow, known, "perplexity is within 1 % (wgpu)", |k| on_gpu(|| perplexity_on_gpu(k))));
        out.push(trial(slow, known, "the best token is the reference's where it is clear (wgpu)", |k| {
            on_gpu(|| teacher_with(k, &fast().on_gpu()))
        }));
    }
    for known in [QWEN, GEMMA] {
        out.push(trial(slow, known, "token ids are the reference's", token_ids));
        out.push(trial(slow, known, "perplexity is within 1 %", perplexity));
        out.push(trial(slow, known, "the best token is the reference's where it is clear", |k| {
            teacher(k, Compute::Int8)
        }));
        out.push(trial(slow, known, "greedy text begins like the reference's", text));
    }
    for known in [SMOLLM2, QWEN, GEMMA] {
        out.push(trial(slow, known, "f32 logits are those of a float pass", float_logits));
        out.push(trial(slow, known, "the best token is the reference's where it is clear (f32)", |k| {
            teacher(k, Compute::F32)
        }));
        out.push(trial(slow, known, "peak memory stays under the file's size plus 300 MB", memory));
        out.push(trial(slow, known, "no rule, every rule alone and all rules agree", rules));
    }
    out
}

/// Runs a test if there is an adapter; otherwise the test says that there is none.
fn on_gpu(test: impl Fn() -> Result<(), Failed>) -> Result<(), Failed> {
    if onetrip_wgpu::adapters().is_empty() {
        println!("not run: there is no adapter");
        return Ok(());
    }
    test()
}

/// In a run of everything, a model that can be fetched must be present.
fn trial(slow: bool, known: Known, what: &str, test: fn(Known) -> Result<(), Failed>) -> Trial {
    Trial::ignorable_test(format!("models/{}/{what}", known.name), move || {
        if !path(known.path).is_file() {
            return match known.set {
                Some(set) if slow => Err(format!("the model is not there: cargo xtask models {set}").into()),
                Some(set) => Ok(Completion::ignored_with(format!("not run: cargo xtask models {set}"))),
                None => Ok(Completion::ignored_with("not run (no package)")),
            };
        }
        test(known).map(|()| Completion::Completed)
    })
}

/// Resident memory of this process in bytes, by its name in `/proc/self/status`.
fn resident(name: &str) -> Result<u64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    let kb = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kb.ok_or_else(|| format!("no {name} in /proc/self/status"))? * 1024)
}

/// Loads a model as the command line does, runs a prompt and a few steps, and reads the peak of resident memory.
fn memory(known: Known) -> Result<(), Failed> {
    let before = resident("VmRSS")?;
    // Resets the peak to the memory that is resident now.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let file = path(known.path);
    let size = std::fs::metadata(&file)?.len();
    let mut engine = load(ModelFile::open(&file)?, &Options { context: 4096, threads: 2, ..Options::default() })?;
    let seq = sequences(&mut engine, 1)?[0];
    engine.scheduler().set_tokens(seq, &[1; 600]);
    for _ in 0..5 {
        engine.step()?;
    }
    let peak = resident("VmHWM")?.saturating_sub(before);
    println!("{}: {} MB above what was there, the file has {} MB", known.name, peak / 1_000_000, size / 1_000_000);
    match peak < size + 300_000_000 {
        true => Ok(()),
        false => Err(format!("peak {peak} bytes for a file of {size}").into()),
    }
}

fn path(below: &str) -> PathBuf {
    models().unwrap_or_default().join(below)
}

fn prompts(reference: &Json) -> impl Iterator<Item = Prompt> + '_ {
    let list = reference["prompts"].as_array().into_iter().flatten();
    list.map(|p| Prompt {
        name: p["name"].as_str().unwrap_or("").into(),
        text: p["prompt"].as_str().unwrap_or("").into(),
        ids: ids(&p["prompt_tokens"]),
        greedy: ids(&p["greedy_tokens"]),
        greedy_text: p["greedy_text"].as_str().unwrap_or("").into(),
        first: ranked(&p["first_top10"]),
        steps: p["greedy_top5_per_step"].as_array().into_iter().flatten().map(ranked).collect(),
    })
}

struct Prompt {
    name: String,
    text: String,
    ids: Vec<u32>,
    greedy: Vec<u32>,
    greedy_text: String,
    first: Vec<(usize, f64)>,
    steps: Vec<Vec<(usize, f64)>>,
}

fn ids(list: &Json) -> Vec<u32> {
    list.as_array().into_iter().flatten().filter_map(Json::as_u64).map(|n| n as u32).collect()
}

fn ranked(list: &Json) -> Vec<(usize, f64)> {
    let pair = |p: &Json| Some((p[0].as_u64()? as usize, p[1].as_f64()?));
    list.as_array().into_iter().flatten().filter_map(pair).collect()
}

fn margin(step: &[(usize, f64)]) -> f64 {
    match step {
        [a, b, ..] => a.1 - b.1,
        _ => 0.0,
    }
}

/// Two threads, since whole models take most of the tests' time.
fn fast() -> Options {
    Options { threads: 2, ..Options::default() }
}

fn open(known: Known, o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::open(path(known.path))?, o)
}

fn tokenizer(known: Known) -> Result<Tokenizer, Failed> {
    let file = ModelFile::open(path(known.path))?;
    match file.kind() {
        Kind::Gguf => Ok(Tokenizer::from_gguf(file.metadata())?),
        _ => Err("no tokenizer in this file".into()),
    }
}

fn token_ids(known: Known) -> Result<(), Failed> {
    let tokenizer = tokenizer(known)?;
    let mut compared = 0;
    for p in prompts(&reference(known.reference)?) {
        // A rendered chat template contains the BOS token itself.
        let special = if known.chat.contains(&p.name.as_str()) { Special::TEMPLATE } else { Special::PROMPT };
        let have = tokenizer.encode(&p.text, special)?;
        if have != p.ids {
            return Err(format!("{}: {have:?}, should be {:?}", p.name, p.ids).into());
        }
        compared += 1;
    }
    if compared >= 3 { Ok(()) } else { Err(format!("{compared} prompts in the reference").into()) }
}

fn perplexity(known: Known) -> Result<(), Failed> {
    let o = if known.name == STORIES.name { Options { threads: 2, ..Options::f32() } } else { fast() };
    perplexity_with(known, &o)
}

fn perplexity_with(known: Known, o: &Options) -> Result<(), Failed> {
    let tokens = ids(&reference(known.reference)?["perplexity"]["tokens"]);
    if tokens.len() != 512 {
        return Err(format!("{} tokens in the reference", tokens.len()).into());
    }
    let (have, n) = perplexity_of(&mut open(known, o)?, &tokens)?;
    println!("{}: perplexity {have:.3} over {n} predictions, reference {}", known.name, known.perplexity);
    let off = (have / known.perplexity - 1.0).abs();
    // A float model has no quantization error, so the tolerance is tighter.
    let allowed = if known.name == STORIES.name { 1e-4 } else { PERPLEXITY };
    if n == 511 && off <= allowed {
        Ok(())
    } else {
        Err(format!("perplexity {have}, should be {}", known.perplexity).into())
    }
}

/// Perplexity of a text, and how many of its tokens were predicted.
fn perplexity_of(engine: &mut Engine, tokens: &[u32]) -> Result<(f64, usize), Failed> {
    let (mut sum, mut n) = (0f64, 0);
    engine.logits(tokens, LOGIT_ROWS, &mut |i, row| {
        if let Some(&next) = tokens.get(i + 1) {
            let max = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)) as f64;
            let total: f64 = row.iter().map(|x| (*x as f64 - max).exp()).sum();
            sum -= row[next as usize] as f64 - max - total.ln();
            n += 1;
        }
    })?;
    Ok(((sum / n as f64).exp(), n))
}

/// Perplexity on a GPU, compared with the reference. A software GPU would take minutes for it: there the perplexity of the
/// beginning of the text is compared with that of the CPU device.
fn perplexity_on_gpu(known: Known) -> Result<(), Failed> {
    if !is_played() {
        return perplexity_with(known, &fast().on_gpu());
    }
    let tokens = ids(&reference(known.reference)?["perplexity"]["tokens"]);
    let tokens = tokens.get(..BEGINNING).ok_or("a short reference")?;
    let (have, n) = perplexity_of(&mut open(known, &fast().on_gpu())?, tokens)?;
    let (want, _) = perplexity_of(&mut open(known, &fast())?, tokens)?;
    println!("{}: perplexity {have:.3} over {n} predictions, on the CPU {want:.3}", known.name);
    let off = (have / want - 1.0).abs();
    if off <= PERPLEXITY { Ok(()) } else { Err(format!("perplexity {have}, on the CPU {want}").into()) }
}

/// True if the first adapter is a software GPU.
fn is_played() -> bool {
    onetrip_wgpu::adapters().first().is_some_and(|a| a.kind == "software")
}

/// Teacher forcing on a prompt and the reference's continuation: returns the logits before each token of the continuation.
fn fed(engine: &mut Engine, p: &Prompt) -> Result<Vec<Vec<f32>>, Failed> {
    let seq = sequences(engine, 1)?;
    let then = &p.greedy[..p.greedy.len().saturating_sub(1)];
    let out = forced(engine, &seq, &[&p.ids], then, CHUNK)?;
    engine.scheduler().remove(seq[0]);
    out.into_iter().next().ok_or("no answer".into())
}

fn teacher(known: Known, compute: Compute) -> Result<(), Failed> {
    teacher_with(known, &Options { compute, ..fast() })
}

fn teacher_with(known: Known, o: &Options) -> Result<(), Failed> {
    let compute = o.compute;
    let mut engine = open(known, o)?;
    let (mut compared, mut equal, mut all) = (0, 0, 0);
    let is_played = o.gpu && is_played();
    for p in prompts(&reference(known.reference)?) {
        // Where a step takes long, only as many steps as the test needs.
        if is_played && compared >= STEPS {
            break;
        }
        for (i, (row, step)) in fed(&mut engine, &p)?.iter().zip(&p.steps).enumerate() {
            let same = best(row) == step[0].0;
            (all, equal) = (all + 1, equal + same as usize);
            if margin(step) > MARGIN {
                compared += 1;
                if !same {
                    let (have, want) = (best(row), step[0].0);
                    let (a, b) = (row[have], row[want]);
                    return Err(format!("{}, step {i}: token {have} ({a}) before {want} ({b})", p.name).into());
                }
            }
        }
    }
    println!(
        "{} ({compute:?}): {compared} clear steps compared; of all {all} steps, {equal} have the same best token",
        known.name
    );
    if compared >= STEPS { Ok(()) } else { Err(format!("only {compared} steps compared").into()) }
}

/// A greedy text may diverge from the reference's only where the reference's two best tokens are close to each other.
fn text(known: Known) -> Result<(), Failed> {
    let mut engine = open(known, &fast())?;
    let tokenizer = tokenizer(known)?;
    let mut longest = 0;
    for p in prompts(&reference(known.reference)?) {
        let seq = sequences(&mut engine, 1)?[0];
        let limits = StopConditions { n: p.greedy.len(), stop: vec![], ignore_end: true };
        let never = std::sync::atomic::AtomicBool::new(false);
        let mut streamed = String::new();
        let sample = SampleParams::default();
        let out = generate(&mut engine, Some(&tokenizer), seq, &p.ids, sample, &limits, &never, &mut |_, piece| {
            streamed.push_str(piece)
        })?;
        engine.scheduler().remove(seq);
        let tokens: Vec<u32> = out.tokens.iter().map(|t| t.id).collect();
        let same = tokens.iter().zip(&p.greedy).take_while(|(a, b)| a == b).count();
        if let Some(step) = p.steps.get(same)
            && same < p.greedy.len()
            && margin(step) > MARGIN
        {
            return Err(
                format!("{}: parts at token {same}, where the best token is clear: {:?}", p.name, out.text).into()
            );
        }
        let common = out.text.chars().zip(p.greedy_text.chars()).take_while(|(a, b)| a == b).count();
        if same == p.greedy.len() && out.text.trim_end() != p.greedy_text.trim_end() && !p.greedy_text.is_empty() {
            return Err(
                format!("{}: the same tokens, another text: {:?} and {:?}", p.name, out.text, p.greedy_text).into()
            );
        }
        if streamed != out.text {
            return Err(format!("{}: streamed {streamed:?}, gave {:?}", p.name, out.text).into());
        }
        println!("{}, {}: {same} of {} tokens, {common} characters as the reference", known.name, p.name, tokens.len());
        longest = longest.max(same);
    }
    if longest >= 5 { Ok(()) } else { Err(format!("no text agrees for more than {longest} tokens").into()) }
}

fn float_logits(known: Known) -> Result<(), Failed> {
    let mut engine = open(known, &Options { threads: 2, ..Options::f32() })?;
    let mut worst = (0f32, String::new());
    for p in prompts(&reference(&format!("{}.numpy", known.reference))?) {
        let rows = fed(&mut engine, &p)?;
        let first = p.first.iter().map(|pair| (0, pair));
        let steps = p.steps.iter().enumerate().flat_map(|(i, step)| step.iter().map(move |pair| (i, pair)));
        for (i, (id, want)) in first.chain(steps) {
            let error = (rows[i][*id] - *want as f32).abs();
            if exceeds(error, worst.0) {
                worst = (error, format!("{}, step {i}, token {id}: {}, should be {want}", p.name, rows[i][*id]));
            }
        }
    }
    println!("{}: f32 logits within {:.1e} of the float pass", known.name, worst.0);
    if exceeds(worst.0, known.float) { Err(worst.1.into()) } else { Ok(()) }
}

fn stories_logits(known: Known) -> Result<(), Failed> {
    let mut worst = 0f32;
    for fuse in [Fuse::None, Fuse::All] {
        let mut engine = open(known, &Options { context: 512, ..Options::f32().fused(fuse) })?;
        for p in prompts(&reference(known.reference)?) {
            let rows = fed(&mut engine, &p)?;
            let first = p.first.iter().map(|pair| (0, pair));
            let steps = p.steps.iter().enumerate().flat_map(|(i, step)| step.iter().map(move |pair| (i, pair)));
            for (i, (id, want)) in first.chain(steps) {
                let error = (rows[i][*id] - *want as f32).abs();
                if exceeds(error, known.float) {
                    return Err(format!("{}, step {i}, token {id}: {}, should be {want}", p.name, rows[i][*id]).into());
                }
                worst = worst.max(error);
            }
        }
    }
    println!("stories260k: f32 logits within {worst:.1e} of the reference");
    Ok(())
}

fn stories_folder(known: Known) -> Result<(), Failed> {
    let o = Options { context: 512, ..Options::f32() };
    let mut gguf = open(known, &o)?;
    let mut folder = load(ModelFile::open(path("data/stories260k/stories260K-hf"))?, &o)?;
    for p in prompts(&reference(known.reference)?) {
        let (a, b) = (fed(&mut gguf, &p)?, fed(&mut folder, &p)?);
        let error = differences(&vec![a], &vec![b]);
        if exceeds(error, known.float) {
            return Err(format!("{}: logits differ by {error:.1e}", p.name).into());
        }
    }
    Ok(())
}

/// Rules move the same arithmetic to other launches. They may change where f32 rounds, but today all of them give bitwise the
/// same logits on these models. A difference would be visible, since it changes int8 quants of activations (up to 0.7 of a
/// logit when one sum was in another order).
fn rules(known: Known) -> Result<(), Failed> {
    let all: Vec<Prompt> = prompts(&reference(known.reference)?).collect();
    let p = all.iter().max_by_key(|p| p.ids.len()).ok_or("no prompts")?;
    // Only SmolLM2 runs with each rule alone and with all rules up to each (some rules find only what another made), since
    // loading takes most of the time.
    let names: Vec<String> = RULES.iter().filter(|_| known.name == SMOLLM2.name).map(|r| r.name.to_string()).collect();
    let up_to: Vec<Fuse> = (2..names.len()).map(|n| Fuse::Some(names[..n].to_vec())).collect();
    for o in [fast(), Options { threads: 2, ..Options::f32() }] {
        let answer = |fuse: &Fuse| -> Result<Answers, Failed> {
            let mut engine = open(known, &o.fused(fuse.clone()))?;
            let seq = sequences(&mut engine, 1)?;
            forced(&mut engine, &seq, &[&p.ids], &p.greedy[..8], CHUNK)
        };
        let plain = answer(&Fuse::None)?;
        let mut worst = 0f32;
        let some = names.iter().map(|name| Fuse::only(name)).chain(up_to.iter().cloned());
        for fuse in some.filter(|_| o.compute == Compute::Int8).chain([Fuse::All]) {
            let error = differences(&plain, &answer(&fuse)?);
            if exceeds(error, RULES_OFF) {
                return Err(format!("{:?}: {fuse:?} against no rule: logits differ by {error}", o.compute).into());
            }
            worst = worst.max(error);
        }
        println!("{} ({:?}): logits of all sets of rules within {worst:.1e} of no rule", known.name, o.compute);
    }
    Ok(())
}

/// Largest difference of a logit between two sets of rules.
const RULES_OFF: f32 = 1e-3;
