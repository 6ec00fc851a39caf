//! Applying the rules: each rule in the order of the list, wherever it fits, tried against the device's lowering.

use crate::graph::{Graph, Node, Source, Value, ValueId};
use crate::lowering::Lowering;
use onetrip_ir::context::Setting;
use onetrip_ir::plan::Refusal;
use onetrip_ir::text::distance;

pub mod rules;
pub use rules::{RULES, Rule};

/// What a rule wants to put in the place of some nodes.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// Other nodes instead of the nodes `remove`, in this order, where the last of those stood; if something in between
    /// needs a result, where the first stood.
    Make {
        /// Nodes that go.
        remove: Vec<usize>,
        /// What comes.
        made: Vec<Node>,
        /// Values that were not there before: their ids follow those of the graph.
        values: Vec<Value>,
    },
    /// Nodes that do nothing. Outputs that are read are other values from now on.
    Drop {
        /// The nodes, in order.
        remove: Vec<usize>,
        /// Output, and the value that it is.
        same: Vec<(ValueId, ValueId)>,
    },
}

/// How often each rule fired, and where it was refused.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rule and number of rewrites, in the order of the list.
    pub fired: Vec<(&'static str, usize)>,
    /// Refusals.
    pub refused: Vec<Refusal>,
}

/// Which rules to apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fuse {
    /// All.
    All,
    /// None: op by op.
    None,
    /// Some, by name.
    Some(Vec<String>),
}

impl Fuse {
    /// `all`, `none`, or names separated by commas. The error names the nearest rule.
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

    /// True if the rule is wanted.
    pub fn has(&self, rule: &str) -> bool {
        match self {
            Fuse::All => true,
            Fuse::None => false,
            Fuse::Some(names) => names.iter().any(|n| n == rule),
        }
    }
}

/// Applies the wanted rules to the graph.
pub fn fuse(graph: &mut Graph, setting: &Setting, wanted: &Fuse) -> Report {
    fuse_assuming(graph, setting, wanted, false)
}

/// As [`fuse`]; with `assume`, a missing kernel refuses nothing.
pub fn fuse_assuming(graph: &mut Graph, setting: &Setting, wanted: &Fuse, assume: bool) -> Report {
    let mut report = Report::default();
    for rule in RULES.iter().filter(|r| wanted.has(r.name)) {
        let mut fired = 0;
        let mut at = 0;
        while at < graph.nodes.len() {
            match (rule.find)(graph, setting, at) {
                Some(rewrite) => match apply(graph, setting, rewrite, assume) {
                    // What was made, or what is next to it, may fit again: q takes k, then v.
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

/// Joins the names of nodes: `blk.0.attn_q`, `blk.0.attn_k` give `blk.0.attn_q+attn_k`.
fn joined_name<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut name = String::new();
    for full in names {
        if name.is_empty() {
            name = full.to_string();
            continue;
        }
        let prefix = full.rfind('.').map_or(0, |p| p + 1);
        let same = name.get(..prefix) == full.get(..prefix);
        let part = if same { &full[prefix..] } else { full };
        if name.rsplit(['.', '+']).next() != Some(part) {
            name = format!("{name}+{part}");
        }
    }
    name
}

/// Splits the first part off a joined name: `blk.0.add+norm` gives `blk.0.add` and `blk.0.norm`.
fn split_name(name: &str) -> (String, String) {
    let Some((first, rest)) = name.split_once('+') else { return (name.into(), name.into()) };
    let prefix = if rest.contains('.') { "" } else { &first[..first.rfind('.').map_or(0, |p| p + 1)] };
    (first.into(), format!("{prefix}{rest}"))
}

/// Gives the place of the first node that changed. `Err(Some)` is a refusal by the device, `Err(None)` a place where the
/// order of nodes forbids the rewrite.
fn apply(
    graph: &mut Graph,
    setting: &Setting,
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
            let fits = made.iter().try_for_each(|node| fits(graph, setting, node, assume));
            let places = [remove[remove.len() - 1], remove[0]];
            let done = fits.and_then(|()| replace(graph, &remove, made, places).ok_or(None));
            if done.is_err() {
                graph.values.truncate(before);
            }
            done.map(|()| remove[0])
        }
    }
}

/// A made node has the outputs that it takes over, and a kernel.
fn fits(graph: &Graph, setting: &Setting, node: &Node, assume: bool) -> Result<(), Option<(String, String)>> {
    let refusal = |why: String| Err(Some((node.name.clone(), why)));
    match node.op.shape(&graph.sigs(&node.ins)) {
        Err(e) => return refusal(e.to_string()),
        Ok(sigs) if sigs != graph.sigs(&node.outs) => {
            return refusal("the made op has outputs of another shape".into());
        }
        Ok(_) => {}
    }
    match node.op.lower(&graph.site(setting, &node.ins, &node.outs)) {
        Lowering::Gap(why) if !assume => refusal(why.into()),
        _ => Ok(()),
    }
}

/// Puts nodes in the place of others, at the first of `places` (of those that go) that keeps the order of reads and
/// writes; none does not change the graph.
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

/// A value that is a weight with one row.
pub(crate) fn is_weight_row(value: &Value) -> bool {
    matches!(value.source, Source::Weight(_)) && value.sig.rows.constant() == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_split_again() {
        let joined = joined_name(["blk.0.add", "blk.0.norm", "blk.0.norm"]);
        assert_eq!(
            (joined.as_str(), split_name(&joined)),
            ("blk.0.add+norm", ("blk.0.add".into(), "blk.0.norm".into()))
        );
        let joined = joined_name(["blk.0.add", "blk.1.norm"]);
        assert_eq!(split_name(&joined), ("blk.0.add".into(), "blk.1.norm".into()));
        assert_eq!(split_name(&joined_name(["add", "norm", "x"])), ("add".into(), "norm+x".into()));
    }
}
