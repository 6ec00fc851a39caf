//! Applies the rules in the order of their list, each wherever it matches and the device's lowering has a kernel.

use crate::fuse::rewrite::Rewrite;
use crate::graph::{Graph, Node};
use crate::lowering::Lowering;
use crate::ops::LISTED_ONLY;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::plan::Refusal;
use onetrip_ir::text::distance;

pub mod rewrite;
pub mod rules;
pub use rules::{FRAGMENT_LAYOUT, RULES, Rule};

/// How often each rule was applied, and where it was refused.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each rule's name and its number of rewrites, in the order of the list.
    pub fired: Vec<(&'static str, usize)>,
    /// Places where the device has no kernel for what a rule would make, each once.
    pub refused: Vec<Refusal>,
}

/// Which rules to apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fuse {
    /// All rules.
    All,
    /// No rules: the plan runs op by op.
    None,
    /// The rules with these names.
    Some(Vec<String>),
}

impl Fuse {
    /// Parses `all`, `none`, or names separated by commas. For an unknown name the error suggests the nearest rule.
    pub fn parse(text: &str) -> Result<Fuse, String> {
        match text {
            "all" => Ok(Fuse::All),
            "none" => Ok(Fuse::None),
            list => {
                let names: Vec<String> = list.split(',').map(|s| s.trim().to_string()).collect();
                match names.iter().find(|n| !RULES.iter().any(|r| r.name == *n)) {
                    None => Ok(Fuse::Some(names)),
                    Some(wrong) => {
                        let nearest = RULES.iter().min_by_key(|r| distance(r.name, wrong)).map_or("", |r| r.name);
                        let all: Vec<&str> = RULES.iter().map(|r| r.name).collect();
                        Err(format!("no rule `{wrong}`; did you mean `{nearest}`? Rules: {}", all.join(", ")))
                    }
                }
            }
        }
    }

    /// One rule by its name, and no other.
    pub fn only(rule: &str) -> Fuse {
        Fuse::Some(vec![rule.into()])
    }

    /// Whether the rule is to be applied.
    pub fn has(&self, rule: &str) -> bool {
        match self {
            Fuse::All => true,
            Fuse::None => false,
            Fuse::Some(names) => names.iter().any(|n| n == rule),
        }
    }
}

/// Applies the wanted rules to the graph.
pub fn fuse(graph: &mut Graph, ctx: &LoweringContext, wanted: &Fuse) -> Report {
    fuse_assuming(graph, ctx, wanted, false)
}

/// As [`fuse`]; with `assume`, a missing kernel refuses nothing.
pub fn fuse_assuming(graph: &mut Graph, ctx: &LoweringContext, wanted: &Fuse, assume: bool) -> Report {
    let mut report = Report::default();
    for rule in RULES.iter().filter(|r| wanted.has(r.name)) {
        let mut fired = 0;
        let mut at = 0;
        while at < graph.nodes.len() {
            match (rule.find)(graph, ctx, at) {
                Some(rewrite) => match apply(graph, ctx, rewrite, assume) {
                    // The made node, or its neighbour, may match again: merging q with k makes a node that merges with v.
                    Ok(first) => {
                        fired += 1;
                        at = at.min(first).saturating_sub(1);
                    }
                    Err(Some((node, why))) => {
                        let refusal = Refusal { rule: rule.name, at: node, why };
                        if !report.refused.contains(&refusal) {
                            report.refused.push(refusal);
                        }
                        at += 1;
                    }
                    Err(None) => at += 1,
                },
                None => at += 1,
            }
        }
        report.fired.push((rule.name, fired));
    }
    report
}

/// Applies a rewrite and returns the index of the first node that changed. `Err(Some)` is a refusal: the node's name and the
/// reason. `Err(None)` means that the order of reads and writes forbids the rewrite here.
fn apply(
    graph: &mut Graph,
    ctx: &LoweringContext,
    rewrite: Rewrite,
    assume: bool,
) -> Result<usize, Option<(String, String)>> {
    match rewrite {
        Rewrite::Drop { remove, same } => {
            let name = graph.nodes[remove[0]].name.clone();
            remove.iter().rev().for_each(|&i| drop(graph.nodes.remove(i)));
            let read = graph.nodes.iter_mut().flat_map(|n| &mut n.ins).chain(&mut graph.outputs);
            for v in read {
                while let Some((_, is)) = same.iter().find(|(was, _)| was == v) {
                    *v = *is;
                }
            }
            graph.infer().map_err(|e| Some((name, e.to_string()))).map(|()| remove[0])
        }
        Rewrite::Make { mut remove, made, values } => {
            remove.sort_unstable();
            remove.dedup();
            let before = graph.values.len();
            graph.values.extend(values);
            let fits = made.iter().try_for_each(|node| fits(graph, ctx, node, assume));
            let places = [remove[remove.len() - 1], remove[0]];
            let done = fits.and_then(|()| replace(graph, &remove, made, places).ok_or(None));
            if done.is_err() {
                graph.values.truncate(before);
            }
            done.map(|()| remove[0])
        }
        Rewrite::Relayout { value, sig } => {
            let maker = graph.producer(value).ok_or(None)?;
            let before = std::mem::replace(&mut graph.values[value].sig, sig);
            let has_kernel = |&n: &usize| has_kernel(graph, ctx, &graph.nodes[n], assume);
            let done = [vec![maker], graph.consumers(value)].concat().iter().try_for_each(has_kernel);
            if done.is_err() {
                graph.values[value].sig = before;
            }
            done.map(|()| maker)
        }
    }
}

/// Checks that a made node has outputs of the shapes that it replaces, and, unless `assume`, that it has a kernel.
fn fits(graph: &Graph, ctx: &LoweringContext, node: &Node, assume: bool) -> Result<(), Option<(String, String)>> {
    let refusal = |why: String| Err(Some((node.name.clone(), why)));
    match node.op.shape(&graph.sigs(&node.ins)) {
        Err(e) => return refusal(e.to_string()),
        Ok(sigs) if sigs != graph.sigs(&node.outs) => {
            return refusal("the made op has outputs of another shape".into());
        }
        Ok(_) => {}
    }
    has_kernel(graph, ctx, node, assume)
}

/// The device has a kernel for a node, or is taken to have one, or the node is one of those that are never run.
fn has_kernel(graph: &Graph, ctx: &LoweringContext, node: &Node, assume: bool) -> Result<(), Option<(String, String)>> {
    match node.op.lower(&graph.site(ctx, &node.ins, &node.outs)) {
        Lowering::Gap(why) if !assume && why != LISTED_ONLY => Err(Some((node.name.clone(), why.into()))),
        _ => Ok(()),
    }
}

/// Replaces the nodes `remove` by the nodes `made`, which are inserted at the first of `places` (indices of removed nodes) that
/// keeps the order of reads and writes valid. Where neither does, it leaves the graph unchanged and returns `None`.
fn replace(graph: &mut Graph, remove: &[usize], made: Vec<Node>, places: [usize; 2]) -> Option<()> {
    let mut gone: Vec<(usize, Node)> = remove.iter().rev().map(|&i| (i, graph.nodes.remove(i))).collect();
    for place in places {
        let at = place - remove.iter().filter(|&&i| i < place).count();
        graph.nodes.splice(at..at, made.iter().cloned());
        if graph.check_order().is_ok() {
            return Some(());
        }
        graph.nodes.drain(at..at + made.len());
    }
    while let Some((i, node)) = gone.pop() {
        graph.nodes.insert(i, node);
    }
    None
}
