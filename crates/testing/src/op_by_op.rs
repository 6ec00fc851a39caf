//! `--fuse none` runs op by op: on every device and for every row bucket, the dispatches of a plan without rules are those of
//! the graph's nodes and no others, and its results are those of the plan with all rules.

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::{FRAGMENT_LAYOUT, Fuse};
use onetrip_core::graph::Graph;
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::step::Engine;
use onetrip_ir::device::Device as _;
use onetrip_ir::formats::DType;
use onetrip_ir::plan::{OperandId, Plan};
use onetrip_ir::target::Compute;
use onetrip_ir::tensor::Sig;

use crate::emulated::Emulated;
use crate::harness::{Answers, CHUNK, Options, best, exceeds, forced, load, root_mean_square, sequences};
use crate::plans::{NAMED, published};
use crate::qwen35::small_gguf;
use crate::setup::{BATCHES, DEVICES, key, options};
use crate::small::Small;

/// The tests of this module, named `op by op/…`.
pub fn tests() -> Vec<Trial> {
    let mut tests: Vec<Trial> = DEVICES
        .into_iter()
        .map(|device| {
            let name = format!("op by op/{device}: a plan by no rule has one op a node, in every bucket");
            Trial::test(name, move || every_model(device))
        })
        .collect();
    let cpu = Trial::test("op by op/cpu: the answers are those of all rules", || answers_agree(&CPU, on_cpu));
    let cuda =
        Trial::test("op by op/cuda-emulated: the answers are those of all rules", || answers_agree(&CUDA, on_emulated));
    let wgpu = Trial::ignorable_test("op by op/wgpu: the answers are those of all rules", || {
        match onetrip_wgpu::adapters().first() {
            None => Ok(Completion::ignored_with("not run: there is no adapter")),
            Some(_) => answers_agree(&WGPU, on_wgpu).map(|()| Completion::Completed),
        }
    });
    tests.extend([cpu, cuda.with_ignored_flag(Emulated::new().is_none()), wgpu]);
    tests
}

fn every_model(device: &str) -> Result<(), Failed> {
    for model in published() {
        every_bucket(&mut model.model_for(options(device))?).map_err(|why| format!("{}: {why}", model.name))?;
    }
    every_bucket(&mut NAMED.model_for(options(device))?).map_err(|why| format!("{}: {why}", NAMED.name))?;
    Ok(())
}

fn every_bucket(model: &mut Model) -> Result<(), String> {
    for (batch, bind) in BATCHES {
        let key = key(bind);
        let (graph, _) = model.graph(key.want).map_err(|e| e.to_string())?;
        let plan = model.plan_with(key, &Fuse::None, false).map_err(|e| e.to_string())?;
        is_op_by_op(&graph, &plan).map_err(|why| format!("{batch}: {why}"))?;
        // A test of the check: a plan with all rules must fail it.
        let fused = model.plan_with(key, &Fuse::All, false).map_err(|e| e.to_string())?;
        if is_op_by_op(&graph, &fused).is_ok() {
            return Err(format!("{batch}: a plan by all rules passes for op by op"));
        }
    }
    Ok(())
}

/// The dispatches of a plan follow the order of the graph's nodes: each node has at least one, and a dispatch uses only values
/// of its own node.
fn is_op_by_op(graph: &Graph, plan: &Plan) -> Result<(), String> {
    if let Some((rule, n)) = plan.fired.iter().find(|(_, n)| *n > 0) {
        return Err(format!("{rule} fired {n} times"));
    }
    if let Some(refused) = plan.refused.first() {
        return Err(format!("{} was tried, and refused at {}", refused.rule, refused.at));
    }
    let mut dispatches = plan.dispatches.iter().peekable();
    for node in &graph.nodes {
        let mut launches = 0;
        while let Some(d) = dispatches.next_if(|d| d.name == node.name && d.op == node.op.name()) {
            if let Some(why) = d.gap {
                return Err(format!("{} has no kernel: {why}", node.name));
            }
            let is_foreign = |what: &OperandId| matches!(what, OperandId::Value(v) if !node.ins.contains(v) && !node.outs.contains(v));
            if let Some(operand) = d.operands.iter().find(|o| is_foreign(&o.what)) {
                return Err(format!("{} touches {:?}, which is not its own", node.name, operand.what));
            }
            if d.operands.iter().any(|o| o.sig.as_ref().is_some_and(Sig::is_mma_fragment)) {
                return Err(format!("{} touches a value in MMA fragment layout", node.name));
            }
            launches += 1;
        }
        if launches == 0 {
            let next = dispatches.peek().map_or("nothing", |d| &d.name);
            return Err(format!("{} ({}) has no dispatch: {next} comes in its place", node.name, node.op.name()));
        }
    }
    match dispatches.next() {
        None => Ok(()),
        Some(d) => Err(format!("{} ({}) is of no node", d.name, d.op)),
    }
}

/// How the results of a device are compared.
struct Compared {
    compute: Compute,
    /// Largest difference between the logits without rules and with all rules, relative to their magnitude.
    tolerance: f32,
    /// A rule that must have fired in the decode step of 32 sequences, so that the comparison covers it.
    fires: &'static str,
}

/// Rules could change the order of sums; on the CPU they do not.
const CPU: Compared = Compared { compute: Compute::F32, tolerance: 1e-5, fires: "norm-prologue" };
/// Activations are rounded to f16 before they are multiplied with a weight. If a sum is in another order it may round the other
/// way, which changes an activation by 2^-10 of itself. (Measured: up to 6e-4, over the eight layers with delta nets.)
const CUDA: Compared = Compared { compute: Compute::F16, tolerance: 2e-3, fires: FRAGMENT_LAYOUT };
/// Sums are in another order, after which keys and values are rounded to f16 in the cache.
const WGPU: Compared = Compared { compute: Compute::F32, tolerance: 1e-4, fires: "residual-norm" };

/// Sequences of each batch and tokens of each text. Prompts of one token make decode steps, so that every row bucket occurs.
const TEXTS: [(usize, usize); 4] = [(1, 70), (1, 1), (8, 1), (32, 1)];
const THEN: [u32; 2] = [7, 90];
const SEQUENCES: usize = 32;

/// Rules, and how often each fired.
type Fired = Vec<(&'static str, usize)>;
type Open = fn(Vec<u8>, &Options) -> Result<Engine, Failed>;

fn on_cpu(file: Vec<u8>, o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::from_slice("small model", &file)?, o)
}

fn on_wgpu(file: Vec<u8>, o: &Options) -> Result<Engine, Failed> {
    load(ModelFile::from_slice("small model", &file)?, &o.on_gpu())
}

fn on_emulated(file: Vec<u8>, o: &Options) -> Result<Engine, Failed> {
    let device = Emulated::with_sms(8).ok_or("there is no C++ compiler (g++)")?;
    let options = ModelOptions { target: device.target(), device: "emulated".into(), ..o.model() };
    let model = Model::new(ModelFile::from_slice("small model", &file)?, options)?;
    Ok(Engine::load(model, Box::new(device), o.context, o.sequences, 1, &|_, _| {})?)
}

/// Compares the logits in every row bucket without rules and with all: of a model with attention alone, and of one with delta
/// nets.
fn answers_agree(how: &Compared, open: Open) -> Result<(), Failed> {
    // Rows of 256 elements are a multiple of the 128 columns of the MMA fragment layout.
    let llama = Small::new("llama", true, 5).gguf(&|_| DType::Q8_0)?;
    for (name, file) in [("llama", llama), ("qwen35", small_gguf(DType::Q4_0)?)] {
        file_agrees(file, how, open).map_err(|why| format!("{name}: {}", why.message().unwrap_or("no reason")))?;
    }
    Ok(())
}

fn file_agrees(file: Vec<u8>, how: &Compared, open: Open) -> Result<(), Failed> {
    let o = Options { compute: how.compute, context: 128, sequences: SEQUENCES, ..Options::default() };
    let answers = |fuse: Fuse| -> Result<(Vec<Answers>, Fired), Failed> {
        let mut engine = open(file.clone(), &o.fused(fuse))?;
        let all = TEXTS.iter().map(|&(n, len)| {
            let seqs = sequences(&mut engine, n)?;
            let text = |seq: usize| (0..len).map(|i| ((i * i * 31 + i * 7 + 3 * seq + len) % 101) as u32).collect();
            let texts: Vec<Vec<u32>> = (0..n).map(text).collect();
            let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
            let answer = forced(&mut engine, &seqs, &texts, &THEN, CHUNK)?;
            seqs.iter().for_each(|&seq| engine.scheduler().remove(seq));
            Ok(answer)
        });
        let all = all.collect::<Result<_, Failed>>()?;
        let key = PlanKey::of(SEQUENCES, SEQUENCES, Want::LastLogits);
        Ok((all, engine.recorded(key)?.plan.fired.clone()))
    };
    let ((plain, none), (fused, fired)) = (answers(Fuse::None)?, answers(Fuse::All)?);
    if let Some((rule, _)) = none.iter().find(|(_, n)| *n > 0) {
        return Err(format!("{rule} fired where no rule was asked for").into());
    }
    if !fired.iter().any(|(rule, n)| *rule == how.fires && *n > 0) {
        return Err(format!("{} did not fire: {fired:?}", how.fires).into());
    }
    for ((n, len), (a, b)) in TEXTS.iter().zip(plain.iter().zip(&fused)) {
        let zeros = a.iter().map(|steps| steps.iter().map(|row| vec![0.0; row.len()]).collect()).collect();
        let error = root_mean_square(a, b) / root_mean_square(a, &zeros);
        let tokens = |x: &Answers| x.iter().flatten().map(|row| best(row)).collect::<Vec<_>>();
        println!("{n} texts of {len}: logits differ by {error:.1e} of their size");
        if exceeds(error, how.tolerance) {
            return Err(format!("{n} texts of {len}: logits differ by {error:.1e} > {:.0e}", how.tolerance).into());
        }
        if tokens(a) != tokens(b) {
            return Err(format!("{n} texts of {len}: other tokens: {:?}, {:?}", tokens(a), tokens(b)).into());
        }
    }
    Ok(())
}
