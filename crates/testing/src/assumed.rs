//! Plans of shapes and of another engine's listing when no rule is refused (`explain --assume`), with bounds on their
//! dispatches; and the snapshot of the listing, made with the kernels that exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::{Fuse, RULES};
use onetrip_core::ops::LISTED_ONLY;
use onetrip_engine::model::Model;
use onetrip_engine::shape;
use onetrip_import as listing;
use onetrip_import::Listing;
use onetrip_import::ListingOptions;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use onetrip_ir::plan::text::human;

use crate::ops::LISTED;
use crate::setup::{caps, key, listing_options, options, same};

const BIND: Bind = Bind { t: 1, s: 1, l: 256 };

/// The listing. `PASSES` has the dispatches of its plan after these groups of rules: as listed; no empty nodes; norm and scale;
/// states in place; conv group; gate chains; gated norm; merged projections; gate, up and SwiGLU; residual and norm; attention
/// group; mask cast and output gathers. Then norms move into prologues and residuals into epilogues, the conv group and the
/// gated norm into the delta net, and the rest of its group into attention, which leaves 5 dispatches in a layer, the embedding
/// and the head.
pub(crate) const LISTING: &str = "listing:qwen3.5-9b-ggml-2026-04";
/// Its snapshot under `plans/`.
pub(crate) const LISTING_FILE: &str = "listing-qwen3.5-9b-ggml-2026-04.cuda.decode-1.txt";
const PASSES: [u64; 13] = [1151, 1007, 902, 830, 710, 614, 566, 494, 430, 366, 294, 291, 162];

/// A shape, and the most dispatches of its decode step.
const SHAPES: [(&str, u64); 3] =
    [("shape:qwen3.5-9b:q4_0", 165), ("shape:smollm2-135m:q4_1", 154), ("shape:qwen2.5-0.5b:q4_0", 124)];

/// The rules up to and including number `n`.
fn first(n: usize) -> Fuse {
    Fuse::Some(RULES[..n].iter().map(|r| r.name.to_string()).collect())
}

/// The ladder of the listing: the plan without rules, the plans with one more rule each, and the plan with the engine's own
/// `sample` op. With `assume`, no rule is refused.
fn ladder(listing: &Listing, o: &ListingOptions, assume: bool) -> Result<Vec<(&'static str, Plan)>, Failed> {
    let mut rungs = vec![];
    for n in 0..=RULES.len() {
        let name = n.checked_sub(1).map_or("(no rule)", |i| RULES[i].name);
        rungs.push((name, listing.plan(o, &first(n), assume, false)?));
    }
    rungs.push((listing::SAMPLE.0, listing.plan(o, &Fuse::All, assume, true)?));
    Ok(rungs)
}

/// The snapshot of the listing: its nodes, the effect of each rule, and the final plan.
pub fn listing_text() -> Result<String, Failed> {
    let mut out = String::new();
    let (listing, o) = (listing::open(LISTING)?, listing_options("cuda"));
    let Bind { t, s, l } = BIND;
    writeln!(out, "{LISTING} on cuda, decode-1; sizes for T {t}, S {s}, L {l}\ncaps: {}", caps(o.target))?;
    writeln!(out, "\nnode              listed  empty")?;
    for (op, n) in &listing.nodes_by_op {
        writeln!(out, "{op:<16}  {n:>6}  {:>5}", listing.empty_by_op.get(op).unwrap_or(&0))?;
    }
    let (all, empty) = (listing.nodes_by_op.values().sum::<u64>(), listing.empty_by_op.values().sum::<u64>());
    writeln!(out, "{:<16}  {all:>6}  {empty:>5}\n\ndispatches   bytes  fired  rule", "all")?;
    let rungs = ladder(&listing, &o, false)?;
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

/// The tests of this module, named `assumed/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    tests.push(Trial::test(format!("plans/{LISTING} on cuda/is the committed one"), || {
        same(LISTING_FILE, &listing_text()?)
    }));
    for (model, most) in SHAPES {
        let name = format!("plans/{model}/decodes in at most {most} dispatches where nothing is refused");
        tests.push(Trial::test(name, move || bounded(model, most)));
    }
    tests.push(Trial::test("plans/listing/the ladder passes every count and ends at 163", ladder_passes));
    tests
}

/// On the ladder, only ops that listings alone have lack a kernel, and none of them is left in the final plan. The CPU also
/// lacks the cast of the mask.
fn gaps_are_listed(device: &str, rungs: &[(&str, Plan)]) -> Result<(), Failed> {
    let gaps = |plan: &Plan| plan.gaps().map(|(_, d)| (d.op, d.gap)).collect::<BTreeSet<_>>();
    let Some(((_, first), (_, last))) = rungs.first().zip(rungs.last()) else { return Err("no ladder".into()) };
    let (ops, reasons): (BTreeSet<&str>, BTreeSet<_>) = gaps(first).into_iter().unzip();
    let is_right = match device {
        "cpu" => ops == BTreeSet::from(["copy"]),
        _ => ops == BTreeSet::from(LISTED) && reasons == BTreeSet::from([Some(LISTED_ONLY)]),
    };
    match is_right && gaps(last).is_empty() && rungs.iter().all(|(_, plan)| plan.refused.is_empty()) {
        true => Ok(()),
        false => Err(format!("{device}: gaps as listed {:?}, in the end {:?}", gaps(first), gaps(last)).into()),
    }
}

fn bounded(model: &'static str, most: u64) -> Result<(), Failed> {
    for device in ["cuda", "wgpu"] {
        let mut shape = Model::new(shape::open(model)?, options(device))?;
        let have = shape.plan_with(key(BIND), &Fuse::All, true)?.ledger(BIND).dispatches;
        println!("{model} on {device}: {have} dispatches, at most {most}");
        if have > most {
            return Err(format!("{device}: {have} dispatches, at most {most}").into());
        }
    }
    Ok(())
}

fn ladder_passes() -> Result<(), Failed> {
    let listing = listing::open(LISTING)?;
    let devices = ["cuda", "wgpu", "cpu"].into_iter().flat_map(|device| [(device, true), (device, false)]);
    for (device, assume) in devices {
        let rungs = ladder(&listing, &listing_options(device), assume)?;
        let counts: Vec<u64> = rungs.iter().map(|(_, plan)| plan.ledger(listing.bind()).dispatches).collect();
        println!("{device}, {}: {counts:?}", if assume { "--assume" } else { "with the kernels that it has" });
        gaps_are_listed(device, &rungs)?;
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
