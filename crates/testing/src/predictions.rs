//! Models without weights: the plan of a shape equals the plan of the file that it stands for. Predictions: the cost model's
//! prediction for every plan stays the same to the last digit when profiles or their curves are renamed.

use std::fmt::Write as _;
use std::path::PathBuf;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_cost::{Pricer, Profile, Tick};
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::{profiles, shape, switch};
use onetrip_import as listing;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, Target};

use crate::assumed::LISTING;
use crate::setup::{key, listing_options, options, root};

/// A shape, the file that it stands for, the type to which the file's matrices are converted, and rows that are not compared:
/// if a file has a separate head where the model's is tied, its embedding table has another layout.
const PAIRS: [(&str, &str, Option<DType>, usize); 3] = [
    ("shape:smollm2-135m:q4_1", "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf", None, 0),
    ("shape:gemma-3-270m:q8_0", "gemma-3-270m/gemma-3-270m-q4_k_m.gguf", Some(DType::Q8_0), 0),
    (
        "shape:qwen2.5-0.5b:q8_0",
        "qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        Some(DType::Q8_0),
        1,
    ),
];

/// The tests of this module, named `predictions/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let test = |&(name, file, weights, skip): &(&'static str, &'static str, Option<DType>, usize)| {
        Trial::ignorable_test(
            format!("predictions/{name} has the plan of its file"),
            move || match switch::models_dir().map(|dir| dir.join(file)).filter(|path| path.exists()) {
                None => Ok(Completion::ignored_with("not run: cargo xtask models")),
                Some(path) => same_plan(name, path, weights, skip).map(|()| Completion::Completed),
            },
        )
    };
    let mut tests: Vec<Trial> = PAIRS.iter().map(test).collect();
    tests.push(Trial::test("predictions/of every plan are the committed ones", || committed(&text(&shipped)?)));
    tests.push(Trial::test("predictions/profiles of version 1 predict the same to the last digit", || {
        committed(&text(&first_version)?)
    }));
    tests
}

/// Every kind of model, in formats that have different kernels.
const SHAPES: [&str; 6] = [
    "shape:smollm2-135m:q4_1",
    "shape:qwen2.5-0.5b:q4_0",
    "shape:qwen3-0.6b:q8_0",
    "shape:gemma-3-270m:q5_0",
    "shape:llama-8b:f16",
    "shape:qwen3.5-9b:q4_0",
];

/// Steps of each row bucket, and a prompt of several sequences.
const STEPS: [(&str, Bind); 5] = [
    ("decode-1", Bind { t: 1, s: 1, l: 256 }),
    ("decode-8", Bind { t: 8, s: 8, l: 1000 }),
    ("decode-32", Bind { t: 32, s: 32, l: 300 }),
    ("prefill-512", Bind { t: 512, s: 1, l: 512 }),
    ("prefill-4x100", Bind { t: 400, s: 4, l: 700 }),
];

/// A device, the profile that predicts its plans, and the numbers of CPU threads.
const DEVICES: [(&str, &str, &[usize]); 3] =
    [("cpu", "epyc-zen4-2", &[1, 2, 8]), ("cuda", "h200", &[1]), ("wgpu", "h200", &[1])];

/// A profile that is shipped with the program.
fn shipped(name: &str) -> Result<Profile, Failed> {
    Ok(profiles::named(name)?)
}

/// Version 1 of the same profile, read through the tables of old names.
fn first_version(name: &str) -> Result<Profile, Failed> {
    let file = root().join(format!("crates/engine/tests/profiles/{name}.v1.toml"));
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(profiles::parse(name, &text)?)
}

/// The committed predictions.
const COMMITTED: &str = "profiles/predictions.txt";

/// One line: all digits of the tick's time, and a hash of the bits of all dispatches' times.
fn line(tick: &Tick) -> String {
    // FNV-1a.
    let bytes = tick.dispatches.iter().flat_map(|us| us.to_bits().to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{} dispatches {:?} µs {hash:016x}", tick.dispatches.len(), tick.total())
}

/// The predictions of all plans, with the profiles that `profile` returns by name.
fn text(profile: &dyn Fn(&str) -> Result<Profile, Failed>) -> Result<String, Failed> {
    let mut out = String::new();
    let listing = listing::open(LISTING)?;
    for (device, hardware, threads) in DEVICES {
        let profile = profile(hardware)?;
        let mut add = |what: &str, plan: &_, bind| {
            for n in threads {
                let tick = Pricer::new(&profile, *n).tick(plan, bind);
                let _ = writeln!(out, "{device} {hardware} {n} threads, {what}: {}", line(&tick));
            }
        };
        for name in SHAPES {
            let mut model = Model::new(shape::open(name)?, options(device))?;
            for (step, bind) in STEPS {
                add(&format!("{name} {step}"), &model.plan(key(bind))?, bind);
            }
            let (step, bind) = STEPS[0];
            add(&format!("{name} {step} without rules"), &model.plan_with(key(bind), &Fuse::None, false)?, bind);
        }
        add(LISTING, &listing.plan(&listing_options(device), &Fuse::All, true, true)?, listing.bind());
    }
    Ok(out)
}

/// Writes the predictions of the plans and profiles there are; gives the file.
pub fn write() -> Result<&'static str, Failed> {
    std::fs::write(root().join(COMMITTED), text(&shipped)?)?;
    Ok(COMMITTED)
}

fn committed(now: &str) -> Result<(), Failed> {
    let committed = std::fs::read_to_string(root().join(COMMITTED))?.replace("\r\n", "\n");
    if committed.lines().count() != now.lines().count() {
        return Err(format!("{COMMITTED} is of other plans: run `cargo xtask plans` and commit").into());
    }
    for (was, is) in committed.lines().zip(now.lines()) {
        // Logarithms of another system's math library may differ in their last bit.
        if was != is && (cfg!(target_os = "linux") || !is_near(was, is)) {
            return Err(format!("{COMMITTED}:\n  {was}\nis now\n  {is}\nrun `cargo xtask plans` and commit").into());
        }
    }
    Ok(())
}

/// True if two lines differ at most in a last digit.
fn is_near(was: &str, is: &str) -> bool {
    let parts = |line: &str| {
        let (head, rest) = line.rsplit_once(" dispatches ")?;
        Some((head.to_string(), rest.split_once(' ')?.0.parse::<f64>().ok()?))
    };
    match (parts(was), parts(is)) {
        (Some((was, a)), Some((is, b))) => was == is && (a - b).abs() <= 1e-12 * a.abs(),
        _ => false,
    }
}

fn rows(file: ModelFile, weights: Option<DType>, (t, s, l): (usize, usize, u64)) -> Result<Vec<String>, Failed> {
    let options = ModelOptions {
        cache: DType::F16,
        weights,
        compute: Compute::Int8,
        fuse: Fuse::All,
        target: Target::Cpu(Isa::Portable),
        device: "cpu".into(),
    };
    let plan = Model::new(file, options)?.plan(PlanKey::of(t, s, Want::Sample { top: 0 }))?;
    let table = plan.table(Some(Bind { t: t as u64, s: s as u64, l }));
    // Column widths depend on the widest cell, which may be in a row that is left out, so spaces are normalized.
    Ok(table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

fn same_plan(name: &str, path: PathBuf, weights: Option<DType>, skip: usize) -> Result<(), Failed> {
    for batch in [(1, 1, 256), (8, 8, 300), (300, 1, 300)] {
        let made = rows(shape::open(name)?, None, batch)?;
        let real = rows(ModelFile::open(&path)?, weights, batch)?;
        if made.len() != real.len() {
            return Err(format!("{} rows, the file's plan has {}", made.len(), real.len()).into());
        }
        // The head line comes first.
        if let Some((a, b)) = made.iter().zip(&real).skip(1 + skip).find(|(a, b)| a != b) {
            return Err(format!("{batch:?}: `{a}`, the file's plan has `{b}`").into());
        }
    }
    Ok(())
}
