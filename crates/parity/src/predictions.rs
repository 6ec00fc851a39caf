//! Models without weights: the plan of a shape is the plan of the file that it stands for.

use std::path::PathBuf;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_engine::files::ModelFile;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::page::Want;
use onetrip_engine::{shape, switch};
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, Target};

/// A shape, the file it stands for, the type that the file's matrices are converted to, and rows left out: of a file
/// that has a head of its own where the model's is tied, the embedding table lies otherwise.
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

/// The tests.
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
    PAIRS.iter().map(test).collect()
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
    // Columns are as wide as their widest cell, which may be in a row that is left out.
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
