//! Plans for devices whose kernels are not written yet, and of the listing of another engine: what the rules make of them
//! when nothing is refused (`explain --assume`). Snapshots under `plans/`, and bounds.

use std::fmt::Write as _;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::{Fuse, RULES};
use onetrip_engine::model::{Model, ModelOptions};
use onetrip_engine::shape;
use onetrip_import as listing;
use onetrip_import::Listing;
use onetrip_import::ListingOptions;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use onetrip_ir::plan::text::human;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::harness::Options;
use crate::plans::{key, same};

const BIND: Bind = Bind { t: 1, s: 1, l: 256 };

/// The listing, and what its ladder passes on the way: as listed; no empty nodes; norm and scale; states in place; conv
/// group; gate chains; gated norm; merged projections; gate, up and SwiGLU; residual and norm; attention group; mask cast
/// and output gathers. Then norms move into prologues and residuals into epilogues, the conv group and the gated norm into
/// the delta net, the rest of its group into attention: 5 a layer, embedding, head.
pub(crate) const LISTING: &str = "listing:qwen3.5-9b-ggml-2026-04";
const PASSES: [u64; 13] = [1151, 1007, 902, 830, 710, 614, 566, 494, 430, 366, 294, 291, 162];

/// A shape, and how many dispatches one decode step of it may have.
const SHAPES: [(&str, u64); 3] =
    [("shape:qwen3.5-9b:q4_0", 165), ("shape:smollm2-135m:q4_1", 154), ("shape:qwen2.5-0.5b:q4_0", 124)];

/// A plan that is kept: of what, and for which device.
pub struct Snapshot {
    model: &'static str,
    device: &'static str,
}

/// All of them.
pub fn snapshots() -> Vec<Snapshot> {
    let of = |model| ["cuda", "gpu"].map(|device| Snapshot { model, device });
    let mut all: Vec<Snapshot> = SHAPES.iter().flat_map(|(model, _)| of(model)).collect();
    all.push(Snapshot { model: LISTING, device: "cuda" });
    all
}

/// The options of a device.
pub(crate) fn options(device: &str) -> ModelOptions {
    let target = match device {
        "cuda" => Target::Cuda(CudaCaps::default()),
        "gpu" => Target::Wgsl(WgslCaps::default()),
        _ => Target::Cpu(Isa::Portable),
    };
    ModelOptions { target, device: device.into(), ..Options::default().model() }
}

/// Options of a listing's plan for a device by its name.
pub(crate) fn listing_options(device: &str) -> ListingOptions {
    let ModelOptions { compute, target, device, .. } = options(device);
    ListingOptions { compute, target, device }
}

/// The rules up to and including number `n`.
fn first(n: usize) -> Fuse {
    Fuse::Some(RULES[..n].iter().map(|r| r.name.to_string()).collect())
}

/// The ladder of the listing: the plan without rules, then with one more each, then with our own `sample`.
fn ladder(listing: &Listing, device: &str) -> Result<Vec<(&'static str, Plan)>, Failed> {
    let o = listing_options(device);
    let mut rungs = vec![];
    for n in 0..=RULES.len() {
        let name = n.checked_sub(1).map_or("(no rule)", |i| RULES[i].name);
        rungs.push((name, listing.plan(&o, &first(n), true, false)?));
    }
    rungs.push((listing::SAMPLE.0, listing.plan(&o, &Fuse::All, true, true)?));
    Ok(rungs)
}

impl Snapshot {
    /// Its name under `plans/`.
    pub fn file_name(&self) -> String {
        let model = self.model.strip_prefix("shape:").unwrap_or(self.model);
        format!("{}.{}.decode-1.txt", model.replace(':', "-"), self.device)
    }

    fn plan(&self) -> Result<Plan, Failed> {
        let mut model = Model::new(shape::open(self.model)?, options(self.device))?;
        Ok(model.plan_with(key(BIND), &Fuse::All, true)?)
    }

    /// Its text.
    pub fn text(&self) -> Result<String, Failed> {
        let mut out = String::new();
        let Bind { t, s, l } = BIND;
        let assumed = "assumed: no kernel is needed for a row";
        writeln!(out, "{} on {}, decode-1, {assumed}; sizes for T {t}, S {s}, L {l}", self.model, self.device)?;
        if self.model != LISTING {
            let plan = self.plan()?;
            writeln!(out, "\n{}{}", plan.compact_table(Some(BIND)), plan.rules_text())?;
            writeln!(out, "{}", serde_json::to_string_pretty(&plan.ledger(BIND))?)?;
            return Ok(out);
        }
        let listing = listing::open(LISTING)?;
        writeln!(out, "\nnode              listed  empty")?;
        for (op, n) in &listing.nodes_by_op {
            writeln!(out, "{op:<16}  {n:>6}  {:>5}", listing.empty_by_op.get(op).unwrap_or(&0))?;
        }
        let (all, empty) = (listing.nodes_by_op.values().sum::<u64>(), listing.empty_by_op.values().sum::<u64>());
        writeln!(out, "{:<16}  {all:>6}  {empty:>5}\n\ndispatches   bytes  fired  rule", "all")?;
        let rungs = ladder(&listing, self.device)?;
        for (rule, plan) in &rungs {
            let ledger = plan.ledger(listing.bind());
            let fired: usize = plan.fired.iter().filter(|(name, _)| name == rule).map(|(_, n)| n).sum();
            let bytes = human(ledger.bytes_read + ledger.bytes_written);
            writeln!(out, "{:>10}  {bytes:>6}  {fired:>5}  {rule}", ledger.dispatches)?;
        }
        if let Some((_, plan)) = rungs.last() {
            writeln!(out, "\n{}", plan.compact_table(Some(BIND)))?;
        }
        Ok(out)
    }
}

/// The tests.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for s in snapshots() {
        let name = format!("plans/{} on {}/is the committed one", s.model, s.device);
        tests.push(Trial::test(name, move || same(&s.file_name(), &s.text()?)));
    }
    for (model, most) in SHAPES {
        let name = format!("plans/{model}/decodes in at most {most} dispatches where nothing is refused");
        tests.push(Trial::test(name, move || bounded(model, most)));
    }
    tests.push(Trial::test("plans/listing/the ladder passes every count and ends at 163", ladder_passes));
    tests
}

fn bounded(model: &'static str, most: u64) -> Result<(), Failed> {
    for device in ["cuda", "gpu"] {
        let ledger = Snapshot { model, device }.plan()?.ledger(BIND);
        let have = ledger.dispatches + ledger.grid_syncs;
        println!("{model} on {device}: {have} dispatches and grid syncs, at most {most}");
        if have > most {
            return Err(format!("{device}: {have} dispatches and grid syncs, at most {most}").into());
        }
    }
    Ok(())
}

fn ladder_passes() -> Result<(), Failed> {
    let listing = listing::open(LISTING)?;
    for device in ["cuda", "gpu", "cpu"] {
        let counts: Vec<u64> =
            ladder(&listing, device)?.iter().map(|(_, plan)| plan.ledger(listing.bind()).dispatches).collect();
        println!("{device}: {counts:?}");
        let mut rest = counts.iter();
        if let Some(missing) = PASSES.iter().find(|n| !rest.any(|have| have == *n)) {
            return Err(format!("{device}: {missing} is not on the ladder, in its place: {counts:?}").into());
        }
        if counts.first() != Some(&1151) || counts.last() != Some(&163) {
            return Err(format!("{device}: from {:?} to {:?}", counts.first(), counts.last()).into());
        }
    }
    Ok(())
}
