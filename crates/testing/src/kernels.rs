//! What a reader of the kernels gets to see: `docs/ops.md`, the table op × device, and what Metal gets of the hot WGSL
//! kernels (signatures and hashes of their MSL). `cargo xtask docs` writes both; tests compare.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use libtest_mimic::{Failed, Trial};
use onetrip_core::ops::{LISTED_ONLY, Op};
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, CudaCaps, Target, WgslCaps};

use crate::ops::LISTED;
use crate::setup::root;
use crate::wgpu::lowered;

mod msl;
mod wgsl;

/// Kernels that are kept as MSL: those of the decode path of a quantized model, and one of tiles. All others are translated too, and not kept.
const HOT: [(&str, &str); 4] = [
    ("matmul", "matmul/gemv.int8"),
    ("matmul", "matmul/gemm_f32_simt.int8"),
    ("rms_norm", "rms_norm/weight"),
    ("attention", "attention/decode_split_kv.plain"),
];
/// What is kept of them.
const MSL: &str = "crates/wgpu/msl/kernels.txt";
const TABLE: &str = "docs/ops.md";

/// Devices of the table: what lowers for them, and what test runs every case there.
fn devices() -> Vec<(&'static str, Target)> {
    let cuda = Target::Cuda(CudaCaps { lt: false, ..CudaCaps::default() });
    vec![("CPU", Target::Cpu(Isa::Portable)), ("CUDA", cuda), ("wgpu", Target::Wgsl(WgslCaps::default()))]
}

/// What an op has on a target: cases with a kernel, all cases, kernels by name, sentences of gaps.
#[derive(Default)]
struct Cell {
    with: usize,
    cases: usize,
    kernels: BTreeSet<String>,
    gaps: BTreeSet<&'static str>,
}

fn cell(op: &str, target: Target) -> Cell {
    let mut cell = Cell::default();
    for case in Op::all_cases().iter().filter(|(name, _)| *name == op).flat_map(|(_, cases)| cases) {
        cell.cases += 1;
        let mut has_all = true;
        for compute in [Compute::Int8, Compute::F32] {
            let Some(plan) = lowered(case, target, compute) else {
                has_all = false;
                continue;
            };
            // What follows the op in a case is another one's.
            for d in plan.dispatches.iter().filter(|d| d.op == op) {
                match d.gap {
                    Some(why) => {
                        has_all = false;
                        cell.gaps.insert(why);
                    }
                    None => _ = cell.kernels.insert(d.kernel_name()),
                }
            }
        }
        cell.with += usize::from(has_all);
    }
    cell
}

/// The page.
fn table() -> Result<String, Failed> {
    let mut out = String::from(HEAD);
    let (devices, mut kernels) = (devices(), String::new());
    for op in Op::NAMES {
        write!(out, "| [`{op}`](#{op}) |")?;
        writeln!(kernels, "\n### {op}\n")?;
        for (name, target) in &devices {
            let cell = cell(op, *target);
            match cell.gaps.is_empty() {
                true => write!(out, " pass ({}) |", cell.with)?,
                false => {
                    let why: Vec<&str> = cell.gaps.iter().copied().collect();
                    write!(out, " {} of {}; gap: {} |", cell.with, cell.cases, why.join("; "))?;
                }
            }
            let names: Vec<String> = cell.kernels.iter().map(|k| format!("`{k}`")).collect();
            writeln!(kernels, "- {name}: {}", if names.is_empty() { "none".into() } else { names.join(", ") })?;
        }
        writeln!(out, " untested here |")?;
    }
    Ok(format!("{out}{ABOUT}{kernels}"))
}

const HEAD: &str = "\
# Ops and devices

Written by `cargo xtask docs` from the ops' own answers; a test fails where it is stale. Each op has cases (shapes, types of
weights and caches, numbers of rows); a cell says how many of them have a kernel there, and why where one has none.

| op | CPU | CUDA | wgpu: Vulkan | wgpu: Metal, DX12 |
|---|---|---|---|---|
";

const ABOUT: &str = "
*pass*: a test compares every case with the op's meaning on any machine: on the CPU for each instruction set it has; CUDA
C++ compiled for the CPU, thread by thread; WGSL on whatever Vulkan driver there is, Debian's software one in CI.
*untested here*: no machine of ours has it. naga translates every kernel for it, and `onetrip selftest --device wgpu` runs
the same cases on such a machine in a minute. What Metal gets of the hottest kernels is described in
`crates/wgpu/msl/kernels.txt`; `cargo xtask docs` writes the MSL itself below `target/msl/`.

## Kernels
";

/// Writes all of it again; names of files that were written, and the folder of the texts.
pub fn write() -> Result<Vec<String>, Failed> {
    std::fs::write(root().join(TABLE), table()?)?;
    let kernels = msl::kernels(&HOT)?;
    std::fs::write(root().join(MSL), msl::table(&kernels))?;
    let folder = msl::folder();
    kernels.iter().try_for_each(|kernel| kernel.write_text(&folder).map(|_| ()))?;
    Ok(vec![TABLE.to_string(), MSL.to_string(), folder.to_string_lossy().into_owned()])
}

/// The tests of this module, named `kernels/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    vec![
        Trial::test("docs/ops.md is what the ops answer", || same(TABLE, &table()?)),
        Trial::test("kernels/only ops of listings have none on GPUs, and the reason is written", only_listed),
        Trial::test("kernels/the MSL of the hot kernels is what is committed", || {
            let have = std::fs::read_to_string(root().join(MSL)).unwrap_or_default();
            Ok(msl::compare(&have, &msl::kernels(&HOT)?, &msl::folder())?)
        }),
        Trial::test("kernels/MSL that is not the committed one is found, and its text is written", msl::finds),
        Trial::test("kernels/every WGSL file is valid by itself with the defaults of its header", wgsl::are_valid),
        Trial::test("kernels/a WGSL file that is not valid by itself is found", wgsl::finds),
    ]
}

/// Every case of every op has a kernel on every device, but for those of listings on GPUs: they have none and say why.
fn only_listed() -> Result<(), Failed> {
    for op in Op::NAMES {
        for (name, target) in devices() {
            let Cell { with, cases, kernels, gaps } = cell(op, target);
            let is_right = match LISTED.contains(op) && !matches!(target, Target::Cpu(_)) {
                true => with == 0 && kernels.is_empty() && gaps == BTreeSet::from([LISTED_ONLY]),
                false => with == cases && !kernels.is_empty() && gaps.is_empty(),
            };
            if !is_right {
                return Err(format!("{op} on {name}: {with} of {cases} cases, {kernels:?}, {gaps:?}").into());
            }
        }
    }
    Ok(())
}

fn same(file: &str, want: &str) -> Result<(), Failed> {
    let have = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    if have == want {
        return Ok(());
    }
    let lines = have.lines().zip(want.lines()).enumerate();
    let (n, (old, new)) = lines.into_iter().find(|(_, (a, b))| a != b).unwrap_or((0, ("", "")));
    Err(format!("{file}, line {}:\n  {old}\nis now\n  {new}\nrun `cargo xtask docs` and commit", n + 1).into())
}
