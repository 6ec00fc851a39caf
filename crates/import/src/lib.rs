//! Node listings of other engines. A listing, `listing:NAME` (part of the program) or `listing:PATH` (a file of the user), has
//! the compute nodes of one recorded step. The nodes become a graph of onetrip's ops, so that the same rules, counts and
//! predictions work on it. A listing has no weights: it is explained and counted, never run. `docs/listing.md` describes the
//! format.

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

/// The prefix of names of listings.
pub const PREFIX: &str = "listing:";

/// Listings that are part of the program: name and text.
const SHIPPED: &[(&str, &str)] =
    &[("qwen3.5-9b-ggml-2026-04", include_str!("../../../listings/qwen3.5-9b-ggml-2026-04.txt"))];

/// Name and reason of the last step of a ladder for listings: onetrip samples on the device, other engines on the host.
pub const SAMPLE: (&str, &str) =
    ("sample", "one row more: the listing's engine samples on the host, after a copy of all logits");

/// Why a listing cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no listing of this name; the second field has the names that exist.
    #[error("there is no listing `{0}`; listings: {1}; or give the path of a file: listing:./step.txt")]
    Unknown(String, String),
    /// The file cannot be read.
    #[error("cannot read the listing {0}: {1}; check the path")]
    Read(String, std::io::Error),
    /// The text of the listing has an error.
    #[error(transparent)]
    Text(#[from] ListingError),
}

/// The error of a listing whose graph cannot be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("listing {listing}: {source}")]
pub struct PlanError {
    /// Name or path of the listing.
    pub listing: String,
    /// The op at which shapes do not fit, and the reason.
    pub source: ShapeError,
}

/// Options of the plan of a listing.
#[derive(Clone, Debug)]
pub struct ListingOptions {
    /// Precision of activations.
    pub compute: Compute,
    /// The kind of device for which the plan is lowered, with its capabilities.
    pub target: Target,
    /// Name of the device, as the plan prints it.
    pub device: String,
}

/// A parsed listing with its graph.
pub struct Listing {
    /// Name or path of the listing.
    pub name: String,
    /// The lines of its head: engine, model, date and sizes of the step.
    pub head: Head,
    /// Number of compute nodes by the ggml name of their op.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Number of compute nodes whose result has no elements, by the ggml name of their op.
    pub empty_by_op: BTreeMap<String, u64>,
    graph: Graph,
}

/// Names of the listings that are part of the program.
pub fn names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// Opens the listing `listing:NAME` or `listing:PATH`.
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
    // One byte more than a listing may have is read, so that a longer file is refused without reading all of it.
    let most = parse::MOST_BYTES as u64 + 1;
    let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|e| OpenError::Read(shown(name), e))?;
    Ok(Listing::read(name, &bytes)?)
}

impl Listing {
    /// Parses the text of a listing; errors have `name`.
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

    /// Tokens, sequences and positions of the step.
    pub fn bind(&self) -> Bind {
        Bind { t: self.head.tokens, s: self.head.sequences, l: self.head.context }
    }

    /// The nodes as a graph of onetrip's ops, in the order of the listing.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The plan of the step with the rules `fuse`; `assume` as in `Model::plan_with` of the engine. With `sample`, onetrip's op
    /// `sample` is appended. Nodes are counted as in the listing. An error has the listing and the node whose shapes do not
    /// fit.
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
