//! Node listings of other engines: `listing:NAME` (part of the program) or `listing:PATH` (a user's own) names the nodes
//! of one recorded step. They become a graph of our ops, so that the same rules, counts and predictions work on it. There
//! are no weights: a listing is explained and counted, never run. `docs/listing.md` describes the form.

use onetrip_core::compile::layout::choose_layouts;
use onetrip_core::compile::lower::lower_assuming;
use onetrip_ir::target::Compute;
use onetrip_ir::target::Target;
use onetrip_ir::tensor::ShapeError;
use std::collections::BTreeMap;
use std::io::Read;

use onetrip_ir::text::shown;

use onetrip_core::fuse::Fuse;
use onetrip_core::graph::Graph;
use onetrip_core::ops::sample::Sample;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;

mod nodes;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::{Head, ListingError};

/// What the name of a listing begins with.
pub const PREFIX: &str = "listing:";

/// Listings in the program.
const SHIPPED: &[(&str, &str)] =
    &[("qwen3.5-9b-ggml-2026-04", include_str!("../../../listings/qwen3.5-9b-ggml-2026-04.txt"))];

/// What our engine does on the device and a listing's does on the host, as the last step of a ladder: name and reason.
pub const SAMPLE: (&str, &str) =
    ("sample", "one row more: the listing's engine samples on the host, after a copy of all logits");

/// Why a listing cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such listing.
    #[error("there is no listing `{0}`; listings: {1}; or give the path of a file: listing:./step.txt")]
    Unknown(String, String),
    /// It cannot be read.
    #[error("cannot read the listing {0}: {1}; check the path")]
    Read(String, std::io::Error),
    /// Its text.
    #[error(transparent)]
    Text(#[from] ListingError),
}

/// A listing whose graph cannot be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("listing {listing}: {source}")]
pub struct PlanError {
    /// Its name or path.
    pub listing: String,
    /// What does not fit.
    pub source: ShapeError,
}

/// Where the plan of a listing runs.
#[derive(Clone, Debug)]
pub struct ListingOptions {
    /// Precision of activations.
    pub compute: Compute,
    /// Where the plan runs.
    pub target: Target,
    /// Name of the device in the plan.
    pub device: String,
}

/// A listing, read and made a graph.
pub struct Listing {
    /// Name or path.
    pub name: String,
    /// What it says of itself.
    pub head: Head,
    /// Its compute nodes by ggml's names.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Those of them whose result has no numbers.
    pub empty_by_op: BTreeMap<String, u64>,
    graph: Graph,
}

/// Names of the listings in the program.
pub fn names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// The listing `listing:NAME` or `listing:PATH`.
pub fn open(name: &str) -> Result<Listing, OpenError> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(Listing::read(name, text.as_bytes())?);
    }
    let path = std::path::Path::new(name);
    if !path.exists() && path.components().count() <= 1 && path.extension().is_none_or(|e| e != "txt") {
        return Err(OpenError::Unknown(shown(name), names().join(", ")));
    }
    let mut bytes = vec![];
    // One byte more than it may have, so that a longer file is refused without being read.
    let most = parse::MOST_BYTES as u64 + 1;
    let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|e| OpenError::Read(shown(name), e))?;
    Ok(Listing::read(name, &bytes)?)
}

impl Listing {
    /// Reads the text of a listing; `name` is named in errors.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Listing, ListingError> {
        let name = shown(name);
        let (head, items) = parse::parse(&name, bytes)?;
        let (mut nodes_by_op, mut empty_by_op) = (BTreeMap::new(), BTreeMap::new());
        for item in &items {
            let parse::Kind::Node(op) = item.kind else { continue };
            *nodes_by_op.entry(op.to_string()).or_default() += 1;
            if item.numbers() == 0 {
                *empty_by_op.entry(op.to_string()).or_default() += 1;
            }
        }
        let graph = nodes::graph(&head, &items);
        let graph = graph.map_err(|(line, what)| ListingError { listing: name.clone(), line, what })?;
        Ok(Listing { name, head, nodes_by_op, empty_by_op, graph })
    }

    /// The sizes of its step.
    pub fn bind(&self) -> Bind {
        Bind { t: self.head.tokens, s: self.head.sequences, l: self.head.context }
    }

    /// Its nodes as a graph of our ops, in the listing's order.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The plan of its step by these rules; with `sample`, our own op that chooses the token is appended to it. Nodes
    /// are counted as the listing has them. An error names the listing and the node that has no shape.
    pub fn plan(&self, o: &ListingOptions, fuse: &Fuse, assume: bool, sample: bool) -> Result<Plan, PlanError> {
        let Bind { t, s, .. } = self.bind();
        let ctx = LoweringContext::of(t as usize, s as usize, o.compute, o.target);
        let failed = |source| PlanError { listing: self.name.clone(), source };
        let mut graph = self.graph.clone();
        if sample {
            let logits = graph.outputs.clone();
            graph.outputs = graph.push(SAMPLE.0, Sample { top: 0 }, &logits).map_err(failed)?;
        }
        let layouts = choose_layouts(&graph, o.target, o.compute);
        let mut plan = lower_assuming(graph, ctx, fuse, &layouts, &o.device, assume).map_err(failed)?;
        plan.nodes_by_op = self.nodes_by_op.clone();
        plan.nodes_empty = self.empty_by_op.values().sum();
        Ok(plan)
    }
}
