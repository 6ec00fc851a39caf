//! The CUDA device, on machines that have one; and on every machine with NVRTC, compilation of its kernels for each GPU
//! generation.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::cases::case_plan;
use onetrip_core::fuse::Fuse;
use onetrip_core::ops::Op;
use onetrip_cuda::nvrtc::Compiler;
use onetrip_cuda::{CudaDevice, Options};
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::{shape, switch};
use onetrip_ir::formats::DType;
use onetrip_ir::kernel::{Code, Text};
use onetrip_ir::plan::Plan;
use onetrip_ir::target::{Compute, CudaCaps, RowBucket, Target};

/// Compute capabilities that kernels are compiled for.
const GENERATIONS: [u32; 3] = [80, 90, 100];

/// Models whose plans are compiled whole.
const MODELS: [&str; 4] =
    ["shape:qwen2.5-0.5b:f16", "shape:qwen2.5-0.5b:q4_0", "shape:llama-8b:q8_0", "shape:qwen3.5-9b:q4_0"];

/// The device, opened once; the error says why there is none.
fn device() -> &'static Result<Mutex<CudaDevice>, String> {
    static DEVICE: OnceLock<Result<Mutex<CudaDevice>, String>> = OnceLock::new();
    let options = || Options { libraries: switch::cuda_libraries(), ..Options::default() };
    DEVICE.get_or_init(|| CudaDevice::open(options()).map(Mutex::new).map_err(|e| e.to_string()))
}

/// One test per op for its results, one per op and generation for its texts, and one per model for its plans.
pub fn tests(include_models: bool) -> Vec<Trial> {
    let mut tests = vec![];
    for op in crate::ops::on_gpus() {
        tests.push(Trial::ignorable_test(format!("op/{op}/cuda"), move || match device() {
            Err(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
            Ok(device) => {
                let mut device = device.lock().unwrap_or_else(|e| e.into_inner());
                crate::ops::op_cases(&mut *device, op, 3).map(|()| Completion::Completed)
            }
        }));
        for sm in GENERATIONS {
            tests.push(Trial::ignorable_test(format!("kernels/{op}/cuda compiles for sm_{sm}"), move || {
                let plans = cases(op, caps(sm))?;
                compile(sm, &plans)
            }));
        }
    }
    tests.push(Trial::ignorable_test(
        "kernels/a CUDA text that does not compile is named, with the compiler's words",
        refused,
    ));
    tests.push(Trial::ignorable_test("kernels/CUDA code that was kept and is damaged is made anew", damaged));
    for model in MODELS {
        tests.push(Trial::test(format!("plans/cuda has a kernel for every row of {model}"), move || {
            model_plans(model, caps(90)).map(drop)
        }));
        for sm in GENERATIONS.into_iter().filter(|_| include_models) {
            tests.push(Trial::ignorable_test(format!("plans/cuda compiles {model} for sm_{sm}"), move || {
                compile(sm, &model_plans(model, caps(sm))?)
            }));
        }
    }
    tests
}

fn caps(sm: u32) -> CudaCaps {
    // Shared memory that a thread block may have: 163 KB on 8.0, 227 KB from 9.0 on.
    let (sms, shared) = if sm < 90 { (108, 163 * 1024) } else { (132, 227 * 1024) };
    CudaCaps { sm, sms, shared, lt: false }
}

fn cases(op: &str, caps: CudaCaps) -> Result<Vec<Plan>, Failed> {
    let all = Op::all_cases().into_iter().filter(|(name, _)| *name == op).flat_map(|(_, cases)| cases);
    // With cuBLASLt and without.
    let both = all.flat_map(|case| [false, true].map(|lt| case_plan(&case, Target::Cuda(CudaCaps { lt, ..caps }))));
    Ok(both.collect::<Result<_, _>>()?)
}

/// Plans of a model for every row bucket; none may have a gap or a refused rule.
fn model_plans(name: &str, caps: CudaCaps) -> Result<Vec<Plan>, Failed> {
    let mut plans = vec![];
    for compute in [Compute::Int8, Compute::F32] {
        let options = ModelOptions {
            cache: DType::F16,
            weights: None,
            compute,
            fuse: Fuse::All,
            target: Target::Cuda(caps),
            device: "cuda".into(),
        };
        let mut model = Model::new(shape::open(name)?, options)?;
        // Many tokens of one sequence, and one token of each sequence.
        let buckets = [RowBucket::R1, RowBucket::R2To8, RowBucket::R9To64, RowBucket::Large];
        let of_one = buckets.map(|tokens| (tokens, RowBucket::R1, tokens == RowBucket::R1));
        let of_each = buckets[1..].iter().map(|&bucket| (bucket, bucket, true));
        for (tokens, seqs, one_each) in of_one.into_iter().chain(of_each) {
            let plan = model.plan(PlanKey { tokens, seqs, one_each, want: Want::Sample { top: 0 } })?;
            if let Some((n, row)) = plan.gaps().next() {
                return Err(format!("dispatch {n} ({}) is a gap: {}", row.name, row.gap.unwrap_or("")).into());
            }
            if let Some(refused) = plan.refused.first() {
                return Err(format!("{} is refused at {}: {}", refused.rule, refused.at, refused.why).into());
            }
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// Compiles every kernel text of the plans; ignored where there is no NVRTC.
fn compile(sm: u32, plans: &[Plan]) -> Result<Completion, Failed> {
    let compiler = match Compiler::new(sm, None, &switch::cuda_libraries()) {
        Ok(compiler) => compiler,
        Err(e) => return Ok(Completion::ignored_with(format!("not run: {e}"))),
    };
    if !compiler.arch.starts_with(&format!("sm_{sm}")) {
        return Ok(Completion::ignored_with(format!("not run: this NVRTC does not know sm_{sm}")));
    }
    let texts: HashSet<Arc<Text>> = plans
        .iter()
        .flat_map(|plan| &plan.dispatches)
        .filter_map(|d| match &d.code {
            Some(Code::Text(text)) => Some(text.clone()),
            _ => None,
        })
        .collect();
    let sources: Vec<(&str, &str)> = texts.iter().map(|t| (&*t.entry, &*t.source)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    for made in compiler.compile_all(&sources, threads) {
        made?;
    }
    Ok(Completion::Completed)
}

/// A damaged file of the kernel cache is used until the driver refuses it; then the kernel is compiled and stored again.
fn damaged() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let compiler = match Compiler::new(90, Some(folder.path().into()), &switch::cuda_libraries()) {
        Ok(compiler) => compiler,
        Err(e) => return Ok(Completion::ignored_with(format!("not run: {e}"))),
    };
    let (entry, text) = ("k", "extern \"C\" __global__ void k() {}");
    let good = compiler.compile(entry, text, &[])?;
    let kept: Vec<_> = std::fs::read_dir(folder.path())?.collect::<Result<_, _>>()?;
    let [kept] = &kept[..] else { return Err(format!("{} files are kept of one kernel", kept.len()).into()) };
    std::fs::write(kept.path(), "nonsense")?;
    let used = compiler.compile(entry, text, &[])?;
    let anew = compiler.compile_anew(entry, text)?;
    if used != b"nonsense" || anew != good || std::fs::read(kept.path())? != good {
        return Err("the cache is not used, or what was made anew is not kept".into());
    }
    Ok(Completion::Completed)
}

/// A kernel text with an error, and a valid one that fails to compile because of an option for every kernel.
fn refused() -> Result<Completion, Failed> {
    let mut compiler = match Compiler::new(90, None, &switch::cuda_libraries()) {
        Ok(compiler) => compiler,
        Err(e) => return Ok(Completion::ignored_with(format!("not run: {e}"))),
    };
    let Err(error) = compiler.compile("norm_kernel", "__global__ void norm_kernel() { nonsense(); }", &[]) else {
        return Err("nonsense compiles".into());
    };
    let said = error.to_string();
    if let Some(lost) = ["norm_kernel", &compiler.arch, "nonsense", "undefined"].iter().find(|w| !said.contains(**w)) {
        return Err(format!("no {lost:?} in {said}").into());
    }
    let text = "__global__ void k() {\n#ifdef WRONG\nWRONG;\n#endif\n}";
    compiler.compile("k", text, &[])?;
    compiler.defines = vec!["-DWRONG=nonsense()".into()];
    match compiler.compile("k", text, &[]) {
        Ok(_) => Err("an option for every kernel is none for this one".into()),
        Err(_) => Ok(Completion::Completed),
    }
}
