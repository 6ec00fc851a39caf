//! Helpers with which rules match nodes by their readers, producers and operands.

use crate::fuse::rewrite::{Rewrite, joined_name};
use crate::graph::{Graph, Node, ValueId};
use crate::ops::Op;
use crate::ops::elementwise::Elementwise;
use onetrip_ir::tree::Unary;

/// A rewrite that puts one op in the place of the nodes `remove`, with their names joined.
pub fn make(
    g: &Graph,
    remove: Vec<usize>,
    op: impl Into<Op>,
    ins: Vec<ValueId>,
    outs: Vec<ValueId>,
) -> Option<Rewrite> {
    let made = vec![Node { name: name_of(g, &remove), op: op.into(), ins, outs }];
    Some(Rewrite::Make { remove, made, values: vec![] })
}

/// The joined name of nodes, in their order.
pub fn name_of(g: &Graph, nodes: &[usize]) -> String {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    joined_name(nodes.into_iter().map(|i| g.nodes[i].name.as_str()))
}

/// The only node that reads the only output of `node`.
pub fn only_reader<'g>(g: &'g Graph, node: &Node) -> Option<(usize, &'g Node)> {
    if node.outs.len() != 1 {
        return None;
    }
    let i = g.only_consumer(node.outs[0])?;
    Some((i, &g.nodes[i]))
}

/// The producer of a value that has exactly one reader.
pub fn sole_producer(g: &Graph, value: ValueId) -> Option<(usize, &Node)> {
    g.only_consumer(value)?;
    let i = g.producer(value)?;
    Some((i, &g.nodes[i]))
}

/// The operand besides `value` of a node with two different operands.
pub fn other_operand(node: &Node, value: ValueId) -> Option<ValueId> {
    match node.ins[..] {
        [a, b] if a == value && b != value => Some(b),
        [a, b] if b == value && a != value => Some(a),
        _ => None,
    }
}

/// Whether the node is an elementwise op that applies `f` to its only input.
pub fn is_unary(node: &Node, f: Unary) -> bool {
    node.op == Elementwise::unary(f).into()
}

/// Whether the node is `a + b`.
pub fn is_add(node: &Node) -> bool {
    matches!(&node.op, Op::Elementwise(e) if e.is_add())
}

/// Whether the node is `a * b`.
pub fn is_mul(node: &Node) -> bool {
    matches!(&node.op, Op::Elementwise(e) if e.is_mul())
}
