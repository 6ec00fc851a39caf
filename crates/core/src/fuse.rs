//! Applying the rules: each rule in the order of the list, wherever it fits, tried against the device's lowering.

use crate::graph::{Graph, Node, Source, Value, ValueId};
use crate::ops::{Compute, Lowering, Op, RowClass, Site, Target};

pub mod rules;
pub use rules::{RULES, Rule};

/// For whom a graph is fused.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Class of the number of tokens.
    pub tokens: RowClass,
    /// Class of the number of sequences (rows of logits).
    pub seqs: RowClass,
    /// Every sequence has one token, so the rows of logits are the rows of the batch.
    pub one_each: bool,
    /// Precision of activations.
    pub compute: Compute,
    /// Where it will run.
    pub target: Target,
}

impl Setting {
    /// The site of an op with these inputs and outputs.
    pub fn site(&self, graph: &Graph, ins: &[ValueId], outs: &[ValueId]) -> Site {
        let ins = graph.sigs(ins);
        let by_seq = ins.first().is_some_and(|s| s.rows == crate::expr::Expr::S);
        Site {
            outs: graph.sigs(outs),
            class: if by_seq { self.seqs } else { self.tokens },
            ins,
            compute: self.compute,
            target: self.target,
        }
    }
}

/// What a rule wants to put in the place of some nodes.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// One op instead of the nodes `remove`. Its outputs take over the values `outs`.
    Make {
        /// Nodes that go.
        remove: Vec<usize>,
        /// What comes.
        op: Box<Op>,
        /// Its inputs.
        ins: Vec<ValueId>,
        /// The values it makes from now on.
        outs: Vec<ValueId>,
    },
    /// The node does nothing: its output is its first input.
    Drop(usize),
}

/// A place where a rule fitted but the device has no kernel for what it would make.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The rule.
    pub rule: &'static str,
    /// The node it would have made.
    pub at: String,
    /// The device's reason.
    pub why: String,
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

/// Edit distance, for "did you mean".
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + (ca != *cb) as usize).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
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
                    // The same place may fit again: q takes k, then v.
                    Ok(()) => {
                        fired += 1;
                        at = at.saturating_sub(1);
                    }
                    Err(Some((node, why))) => {
                        report.refused.push(Refusal { rule: rule.name, at: node, why });
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
fn joined_name(graph: &Graph, nodes: &[usize]) -> String {
    let mut name = String::new();
    for &i in nodes {
        let full = &graph.nodes[i].name;
        if name.is_empty() {
            name = full.clone();
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

/// `Err(Some)` is a refusal by the device, `Err(None)` a place where the order of nodes forbids the rewrite.
fn apply(graph: &mut Graph, setting: &Setting, rewrite: Rewrite, assume: bool) -> Result<(), Option<(String, String)>> {
    match rewrite {
        Rewrite::Drop(i) => {
            let node = graph.nodes.remove(i);
            for n in &mut graph.nodes {
                n.ins.iter_mut().filter(|v| **v == node.outs[0]).for_each(|v| *v = node.ins[0]);
            }
            graph.outputs.iter_mut().filter(|v| **v == node.outs[0]).for_each(|v| *v = node.ins[0]);
            graph.infer().map_err(|e| Some((node.name, e.to_string())))
        }
        Rewrite::Make { mut remove, op, ins, outs } => {
            remove.sort_unstable();
            remove.dedup();
            let name = joined_name(graph, &remove);
            let sigs = op.shape(&graph.sigs(&ins)).map_err(|e| Some((name.clone(), e.to_string())))?;
            if sigs != graph.sigs(&outs) {
                return Err(Some((name, "the made op has outputs of another shape".into())));
            }
            if let Lowering::Gap(why) = op.lower(&setting.site(graph, &ins, &outs))
                && !assume
            {
                return Err(Some((name, why.into())));
            }
            let mut next = graph.clone();
            let (lo, hi) = (remove[0], remove[remove.len() - 1]);
            let node = Node { name, op: *op, ins, outs };
            // Where the last part stood; if something in between needs the result, where the first part stood.
            for place in [hi, lo] {
                next.nodes.clone_from(&graph.nodes);
                next.nodes[place] = node.clone();
                for &i in remove.iter().rev().filter(|&&i| i != place) {
                    next.nodes.remove(i);
                }
                if next.check_order().is_ok() {
                    *graph = next;
                    return Ok(());
                }
            }
            Err(None)
        }
    }
}

/// A value that is a weight with one row.
pub(crate) fn is_weight_row(value: &Value) -> bool {
    matches!(value.source, Source::Weight(_)) && value.sig.rows.constant() == Some(1)
}
