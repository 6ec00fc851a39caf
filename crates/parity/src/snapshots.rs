//! The plan snapshots under `plans/`: what every device gets of every kept model, made with the kernels that it has.
//! `cargo xtask plans` writes them, tests compare.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_import::ListingOptions;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, RowBucket, Target, WgslCaps};

use crate::assumed::{LISTING_FILE, listing_text};
use crate::harness::Options;
use crate::plans::{NAMED, published};

/// Devices that plans are kept for.
pub const DEVICES: [&str; 3] = ["cpu", "cuda", "wgpu"];

/// The batches that plans are kept for, one a bucket: name, and what it binds.
pub(crate) const BATCHES: [(&str, Bind); 4] = [
    ("decode-1", Bind { t: 1, s: 1, l: 256 }),
    ("decode-8", Bind { t: 8, s: 8, l: 256 }),
    ("decode-32", Bind { t: 32, s: 32, l: 256 }),
    ("prefill-512", Bind { t: 512, s: 1, l: 512 }),
];

/// The options of a device as it is by default: for CUDA an H200 with cuBLASLt, for wgpu what nearly every adapter has.
pub(crate) fn options(device: &str) -> ModelOptions {
    let target = match device {
        "cuda" => Target::Cuda(CudaCaps::default()),
        "wgpu" => Target::Wgsl(WgslCaps::default()),
        // Plans do not depend on the instruction set: a test says so.
        _ => Target::Cpu(Isa::Portable),
    };
    ModelOptions { target, device: device.into(), ..Options::default().model() }
}

/// Options of a listing's plan for a device as it is by default.
pub(crate) fn listing_options(device: &str) -> ListingOptions {
    let ModelOptions { compute, target, device, .. } = options(device);
    ListingOptions { compute, target, device }
}

/// The plan of a batch that chooses its next tokens.
pub(crate) fn key(bind: Bind) -> PlanKey {
    PlanKey::of(bind.t as usize, bind.s as usize, Want::Sample { top: 0 })
}

/// What a plan's device was taken to be, for the head of a snapshot.
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

/// A model whose plans are kept.
struct Kept {
    name: String,
    /// The model for a device.
    model: Box<dyn Fn(ModelOptions) -> Result<Model, Failed> + Send>,
}

fn kept() -> Vec<Kept> {
    let of = |model: crate::plans::Published| Kept {
        name: model.name.into(),
        model: Box::new(move |options| model.model_for(options)),
    };
    let mut all: Vec<Kept> = published().into_iter().map(of).collect();
    all.push(Kept { name: NAMED.name.into(), model: Box::new(|options| NAMED.model_for(options)) });
    all
}

impl Kept {
    fn file_name(&self, device: &str, batch: &str) -> String {
        format!("{}.{device}.{batch}.txt", self.name.replace(':', "-"))
    }

    /// The snapshots on a device: file and text of each.
    fn texts(&self, device: &str) -> Result<Vec<(String, String)>, Failed> {
        let mut model = (self.model)(options(device))?;
        let text = |(batch, bind): (&str, Bind)| -> Result<(String, String), Failed> {
            let plan = model.plan_with(key(bind), &Fuse::All, false)?;
            let plain = model.plan_with(key(bind), &Fuse::None, false)?;
            Ok((self.file_name(device, batch), text(&self.name, device, batch, bind, &plan, &plain)?))
        };
        BATCHES.into_iter().map(text).collect()
    }
}

/// The text of a snapshot.
fn text(model: &str, device: &str, batch: &str, bind: Bind, plan: &Plan, plain: &Plan) -> Result<String, Failed> {
    let Bind { t, s, l } = bind;
    let mut out = String::new();
    let (rows, sequences) = (RowBucket::of(t as usize).name(), RowBucket::of(s as usize).name());
    writeln!(out, "{model} on {device}, {batch}: rows {rows}, sequences {sequences}; sizes for T {t}, S {s}, L {l}")?;
    writeln!(out, "caps: {}", caps(plan.ctx.target))?;
    writeln!(out, "\n{}", plan.compact_table(Some(bind)))?;
    write!(out, "{}", plan.rules_text())?;
    writeln!(out, "\n{}", serde_json::to_string_pretty(&plan.ledger(bind))?)?;
    writeln!(out, "\nwithout rules: {} dispatches", plain.ledger(bind).dispatches)?;
    Ok(out)
}

/// The committed folder.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

/// Writes all snapshots again and removes those of models that are no longer kept; gives their names.
pub fn write_all() -> Result<Vec<String>, Failed> {
    let dir = folder();
    std::fs::create_dir_all(&dir)?;
    let mut all = vec![(LISTING_FILE.to_string(), listing_text()?)];
    for kept in kept() {
        for device in DEVICES {
            all.extend(kept.texts(device)?);
        }
    }
    for (name, text) in &all {
        std::fs::write(dir.join(name), text)?;
    }
    let written: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".txt") && !written.contains(&name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(written)
}

/// The tests: one for each model and device.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for device in DEVICES {
        for kept in kept() {
            let name = format!("plans/{} on {device}/are the committed ones", kept.name);
            let test = move || kept.texts(device)?.iter().try_for_each(|(file, text)| same(file, text));
            tests.push(Trial::test(name, test));
        }
    }
    tests.push(Trial::test("plans/no file is left of a model that is gone", no_strangers));
    tests
}

/// A snapshot is what it was.
pub(crate) fn same(name: &str, want: &str) -> Result<(), Failed> {
    let have = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
    if have.replace("\r\n", "\n") == want {
        return Ok(());
    }
    let line = have.lines().zip(want.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let (a, b) = (have.lines().nth(line).unwrap_or(""), want.lines().nth(line).unwrap_or(""));
    Err(format!("plans/{name}, line {}:\n  {a}\nis now\n  {b}\nrun `cargo xtask plans` and commit", line + 1).into())
}

fn no_strangers() -> Result<(), Failed> {
    let mut known = vec![LISTING_FILE.to_string()];
    for kept in kept() {
        let names = DEVICES.iter().flat_map(|device| BATCHES.iter().map(move |(batch, _)| (device, batch)));
        known.extend(names.map(|(device, batch)| kept.file_name(device, batch)));
    }
    for entry in std::fs::read_dir(folder())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".txt") && !known.contains(&name) {
            return Err(format!("plans/{name} belongs to no model: run `cargo xtask plans`").into());
        }
    }
    Ok(())
}
