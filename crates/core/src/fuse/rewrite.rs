//! Rewrites of the graph, which rules return, and the names of the nodes that rewrites make.

use crate::graph::{Node, Source, Value, ValueId};
use onetrip_ir::tensor::Sig;

/// A change to the graph that a rule asks for.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// Replaces the nodes `remove` by the nodes `made`, which stand, in their order, in the place of the last removed node; or
    /// of the first one, if a node in between needs one of their results.
    Make {
        /// Indices of the nodes to remove.
        remove: Vec<usize>,
        /// The new nodes, in order.
        made: Vec<Node>,
        /// Values that `made` adds to the graph; their ids follow those of the graph's values.
        values: Vec<Value>,
    },
    /// Removes nodes that have no effect. Readers of their outputs read other values instead.
    Drop {
        /// Indices of the nodes, in order.
        remove: Vec<usize>,
        /// Pairs of an output and the value that replaces it.
        same: Vec<(ValueId, ValueId)>,
    },
    /// The same nodes, with a value between them in another form: its producer writes it so, and its readers read it so.
    Relayout {
        /// The value.
        value: ValueId,
        /// Its signature from now on.
        sig: Sig,
    },
}

/// Joins the names of nodes: `blk.0.attn_q`, `blk.0.attn_k` give `blk.0.attn_q+attn_k`.
pub fn joined_name<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
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
pub fn split_name(name: &str) -> (String, String) {
    let Some((first, rest)) = name.split_once('+') else { return (name.into(), name.into()) };
    let prefix = if rest.contains('.') { "" } else { &first[..first.rfind('.').map_or(0, |p| p + 1)] };
    (first.into(), format!("{prefix}{rest}"))
}

/// Whether a value is a weight with one row.
pub fn is_weight_row(value: &Value) -> bool {
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
