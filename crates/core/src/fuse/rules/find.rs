//! What the rules look with: readers, producers, operands.

use crate::fuse::rewrite::{Rewrite, joined_name};
use crate::graph::{Graph, Node, ValueId};
use crate::ops::Op;
use crate::ops::elementwise::Elementwise;
use onetrip_ir::tree::Unary;

/// One op in the place of some nodes, with their names joined.
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

/// The node that alone reads the only output of `node`.
pub fn only_reader<'g>(g: &'g Graph, node: &Node) -> Option<(usize, &'g Node)> {
    if node.outs.len() != 1 {
        return None;
    }
    let i = g.only_consumer(node.outs[0])?;
    Some((i, &g.nodes[i]))
}

/// The node that makes a value nobody else reads.
pub fn sole_producer(g: &Graph, value: ValueId) -> Option<(usize, &Node)> {
    g.only_consumer(value)?;
    let i = g.producer(value)?;
    Some((i, &g.nodes[i]))
}

/// The other operand of a sum or product of two different values.
pub fn other_operand(node: &Node, value: ValueId) -> Option<ValueId> {
    match node.ins[..] {
        [a, b] if a == value && b != value => Some(b),
        [a, b] if b == value && a != value => Some(a),
        _ => None,
    }
}

/// An elementwise op that is this function of its one input.
pub fn is_unary(node: &Node, f: Unary) -> bool {
    node.op == Elementwise::unary(f).into()
}

/// `a + b`.
pub fn is_add(node: &Node) -> bool {
    matches!(&node.op, Op::Elementwise(e) if e.is_add())
}

/// `a * b`.
pub fn is_mul(node: &Node) -> bool {
    matches!(&node.op, Op::Elementwise(e) if e.is_mul())
}
