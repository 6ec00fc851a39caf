//! Shared by the tests of plans: the devices and batches that snapshots exist for, options, and the repository's folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{ModelOptions, PlanKey};
use onetrip_import::ListingOptions;
use onetrip_ir::expr::Bind;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::harness::Options;

/// Folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Devices that have plan snapshots.
pub const DEVICES: [&str; 3] = ["cpu", "cuda", "wgpu"];

/// The batches that have plan snapshots, one for each row bucket: name and sizes.
pub(crate) const BATCHES: [(&str, Bind); 4] = [
    ("decode-1", Bind { t: 1, s: 1, l: 256 }),
    ("decode-8", Bind { t: 8, s: 8, l: 256 }),
    ("decode-32", Bind { t: 32, s: 32, l: 256 }),
    ("prefill-512", Bind { t: 512, s: 1, l: 512 }),
];

/// Options with a device's default capabilities: for CUDA those of an H200 with cuBLASLt, for wgpu those of nearly every
/// adapter.
pub(crate) fn options(device: &str) -> ModelOptions {
    let target = match device {
        "cuda" => Target::Cuda(CudaCaps::default()),
        "wgpu" => Target::Wgsl(WgslCaps::default()),
        // Plans do not depend on the instruction set, which a test verifies.
        _ => Target::Cpu(Isa::Portable),
    };
    ModelOptions { target, device: device.into(), ..Options::default().model() }
}

/// Options of a listing's plan, with a device's default capabilities.
pub(crate) fn listing_options(device: &str) -> ListingOptions {
    let ModelOptions { compute, target, device, .. } = options(device);
    ListingOptions { compute, target, device }
}

/// The plan of a batch that ends with sampling.
pub(crate) fn key(bind: Bind) -> PlanKey {
    PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 })
}

/// The capabilities that a plan was made for, for the head of a snapshot.
pub(crate) fn caps(target: Target) -> String {
    match target {
        Target::Cpu(_) => "any instruction set".into(),
        Target::Cuda(CudaCaps { sm, sms, shared, lt }) => {
            let (major, minor, kb) = (sm / 10, sm % 10, shared / 1024);
            let lt = if lt { "cuBLASLt" } else { "no cuBLASLt" };
            format!("compute capability {major}.{minor}, {sms} SMs, {kb} KiB of shared memory a block, {lt}")
        }
        Target::Wgsl(WgslCaps { f16, subgroups, dot4, coop, workgroup_bytes, invocations, binding_bytes }) => {
            let mut out = format!("f16 {f16}, dot products of int8 {dot4}");
            match subgroups {
                Some((least, most)) => _ = write!(out, ", subgroups of {least} to {most}"),
                None => out += ", no subgroups",
            }
            match coop {
                0 => out += ", no cooperative matrices",
                side => _ = write!(out, ", cooperative matrices of {side}"),
            }
            let (kb, mb) = (workgroup_bytes / 1024, binding_bytes >> 20);
            format!("{out}, {invocations} invocations and {kb} KiB a workgroup, bindings of {mb} MiB")
        }
    }
}

/// The folder of committed plans.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

/// Fails unless the text equals the committed snapshot.
pub(crate) fn same(name: &str, want: &str) -> Result<(), Failed> {
    let have = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
    if have.replace("\r\n", "\n") == want {
        return Ok(());
    }
    let line = have.lines().zip(want.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let (a, b) = (have.lines().nth(line).unwrap_or(""), want.lines().nth(line).unwrap_or(""));
    Err(format!("plans/{name}, line {}:\n  {a}\nis now\n  {b}\nrun `cargo xtask plans` and commit", line + 1).into())
}
