//! The one integration-test binary: op × case × device, rules, plan snapshots, whole models.
//!
//! A test whose model is missing is reported as ignored, with a reason in its name, never as passed.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

pub mod assumed;
pub mod counts;
pub mod cuda;
pub mod cuda_files;
pub mod definitions;
pub mod docs;
pub mod emulated;
pub mod faults;
pub mod fragment_layout;
pub mod harness;
pub mod invariants;
pub mod kernels;
mod models_page;
pub mod op_by_op;
pub mod ops;
pub mod plans;
pub mod predictions;
pub mod qwen35;
pub mod random;
pub mod reference;
pub mod rules;
pub mod run_loop;
pub mod selection;
mod setup;
pub mod shape;
pub mod small;
pub mod snapshots;
pub mod tokenizers;
pub mod wgpu;
pub mod whole;

/// All tests; the slow ones on whole models only if asked for.
pub fn tests(include_models: bool) -> Vec<Trial> {
    let mut tests = ops::tests();
    tests.extend(cuda::tests(include_models));
    tests.extend(cuda_files::tests());
    tests.extend(emulated::tests());
    tests.extend(wgpu::tests());
    tests.extend(faults::tests());
    tests.extend(rules::tests());
    tests.extend(definitions::tests());
    tests.extend(fragment_layout::tests());
    tests.extend(op_by_op::tests());
    tests.extend(snapshots::tests());
    tests.extend(assumed::tests());
    tests.extend(plans::tests());
    tests.extend(docs::tests());
    tests.extend(kernels::tests());
    tests.extend(selection::tests());
    tests.extend(counts::tests());
    tests.extend(predictions::tests());
    tests.extend(reference::tests());
    tests.extend(invariants::tests(self::tests));
    tests.extend(qwen35::tests());
    let models = onetrip_engine::switch::models_dir();
    tests.extend(tokenizers::tests(models.as_deref()));
    tests.extend(whole::tests(include_models));
    tests.sort_by(|a, b| a.name().cmp(b.name()));
    tests
}

/// Runs the tests as `cargo test` would, with the arguments of the command line. `--include-models` adds the slow ones.
pub fn main() -> ExitCode {
    const MODELS: &str = "--include-models";
    let all: Vec<String> = std::env::args().collect();
    let mut args = Arguments::from_iter(all.iter().filter(|a| *a != MODELS));
    // Tests run one after the other: each uses all processors, and workers that wait at a barrier spin.
    args.test_threads = args.test_threads.or(Some(1));
    libtest_mimic::run(&args, tests(all.iter().any(|a| a == MODELS))).exit_code()
}
