//! Rules about matmuls, their prologues and epilogues, and chains of elementwise ops.

use super::find::{is_add, is_mul, is_unary, make, only_reader, other_operand};
use super::norms::weighted;
use crate::fuse::rewrite::{Rewrite, is_weight_row, joined_name, split_name};
use crate::graph::{Graph, Node, ValueId};
use crate::ops::Op;
use crate::ops::elementwise::Elementwise;
use crate::ops::matmul::Matmul;
use crate::ops::rms_norm::{RmsNorm, With};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tree::{Tree, Unary};

/// Moves the elementwise op that alone reads a matmul's output into the matmul's epilogue, if `wanted` accepts all its other
/// operands.
fn into_epilogue(g: &Graph, at: usize, wanted: fn(&Graph, ValueId) -> bool) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Matmul(matmul) = &node.op else { return None };
    let (i, reader) = only_reader(g, node)?;
    let Op::Elementwise(e) = &reader.op else { return None };
    let out = node.outs[0];
    let others: Vec<ValueId> = reader.ins.iter().copied().filter(|&v| v != out).collect();
    if others.iter().any(|&v| !wanted(g, v) || g.values[v].sig.width != g.values[out].sig.width) {
        return None;
    }
    let operands = node.ins.len() - matmul.first_weight();
    let tree = e.tree.replace(&|l| match reader.ins.get(l) {
        Some(&v) if v == out => matmul.outputs[0].clone(),
        Some(&v) => Tree::In(operands + others.iter().position(|&o| o == v).unwrap_or(0)),
        None => Tree::In(usize::MAX),
    });
    let ins = node.ins.iter().copied().chain(others).collect();
    make(g, vec![at, i], Matmul { outputs: vec![tree], ..matmul.clone() }, ins, reader.outs.clone())
}

pub fn bias_epilogue(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let (_, reader) = only_reader(g, &g.nodes[at])?;
    is_add(reader).then(|| into_epilogue(g, at, |g, v| is_weight_row(&g.values[v])))?
}

pub fn gate_chain(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let (_, reader) = only_reader(g, &g.nodes[at])?;
    (!gates_a_norm(g, reader)).then(|| into_epilogue(g, at, |g, v| is_weight_row(&g.values[v])))?
}

/// Whether the node is the SiLU by which a weighted norm is multiplied: the rule `gated-norm` needs it as a node of its own.
fn gates_a_norm(g: &Graph, node: &Node) -> bool {
    let is_norm = |v: ValueId| g.producer(v).is_some_and(|i| weighted(&g.nodes[i]).is_some());
    let gates = |mul: &Node| is_mul(mul) && other_operand(mul, node.outs[0]).is_some_and(is_norm);
    is_unary(node, Unary::Silu) && only_reader(g, node).is_some_and(|(_, reader)| gates(reader))
}

pub fn residual_epilogue(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Matmul(matmul) = &node.op else { return None };
    let (i, reader) = only_reader(g, node)?;
    let Op::RmsNorm(norm @ RmsNorm { with: With::Sum, .. }) = &reader.op else {
        return into_epilogue(g, at, |_, _| true);
    };
    // The sum moves into the epilogue, and its norm becomes a node of its own again.
    let (a, b) = (reader.ins[0], *reader.ins.last()?);
    let other = if a == node.outs[0] { b } else { a };
    let (sum_name, name) = split_name(&reader.name);
    let tree = Tree::sum(matmul.outputs[0].clone(), Tree::In(node.ins.len() - matmul.first_weight()));
    let product = Node {
        name: joined_name([node.name.as_str(), sum_name.as_str()]),
        op: Matmul { outputs: vec![tree], ..matmul.clone() }.into(),
        ins: [&node.ins[..], &[other]].concat(),
        outs: vec![reader.outs[0]],
    };
    let normed = Node {
        name,
        op: RmsNorm { with: With::Nothing, ..norm.clone() }.into(),
        ins: [&reader.outs[..1], &reader.ins[1..reader.ins.len() - 1]].concat(),
        outs: vec![reader.outs[1]],
    };
    Some(Rewrite::Make { remove: vec![at, i], made: vec![product, normed], values: vec![] })
}

pub fn gate_up(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Elementwise(e) = &node.op else { return None };
    let [gate, up] = node.ins[..] else { return None };
    let (a, b) = (g.producer(gate)?, g.producer(up)?);
    let plain = |i: usize| matches!(&g.nodes[i].op, Op::Matmul(m) if *m == Matmul::plain());
    let single = g.only_consumer(gate).is_some() && g.only_consumer(up).is_some();
    if a == b || !plain(a) || !plain(b) || !single || g.nodes[a].ins[0] != g.nodes[b].ins[0] {
        return None;
    }
    let ins = vec![g.nodes[a].ins[0], g.nodes[a].ins[1], g.nodes[b].ins[1]];
    make(g, vec![a, b, at], Matmul { products: 2, outputs: vec![e.tree.clone()], norm: None }, ins, node.outs.clone())
}

/// Merges the matmul at `at` with a later matmul of the same input, if `wanted` accepts that input.
fn merged(g: &Graph, at: usize, wanted: fn(&Graph, ValueId) -> bool) -> Option<Rewrite> {
    let a = &g.nodes[at];
    let Op::Matmul(first) = &a.op else { return None };
    let x = a.ins[0];
    if !wanted(g, x) {
        return None;
    }
    let partner = g.consumers(x).into_iter().find(|&i| {
        let m = &g.nodes[i];
        i > at && m.ins[0] == x && matches!(&m.op, Op::Matmul(m) if m.norm.is_none()) && first.norm.is_none()
    })?;
    let b = &g.nodes[partner];
    let Op::Matmul(second) = &b.op else { return None };
    let (na, nb) = (first.products, second.products);
    let (operands_a, operands_b) = (&a.ins[1 + na..], &b.ins[1 + nb..]);
    let rename_a = |l: usize| Tree::In(if l < na { l } else { l + nb });
    let rename_b = |l: usize| Tree::In(if l < nb { na + l } else { na + operands_a.len() + l });
    let outputs = first.outputs.iter().map(|t| t.replace(&rename_a));
    let outputs = outputs.chain(second.outputs.iter().map(|t| t.replace(&rename_b))).collect();
    let weights = a.ins[1..1 + na].iter().chain(&b.ins[1..1 + nb]);
    let ins = [x].iter().chain(weights).chain(operands_a).chain(operands_b).copied().collect();
    let outs = a.outs.iter().chain(&b.outs).copied().collect();
    make(g, vec![at, partner], Matmul { products: na + nb, outputs, norm: None }, ins, outs)
}

/// Whether a matmul of this value feeds a delta net, or the convolution or window before one.
fn feeds_a_delta_net(g: &Graph, x: ValueId) -> bool {
    let recurrent = |&i: &usize| matches!(g.nodes[i].op, Op::DeltaNet(_) | Op::Conv(_) | Op::Window(_));
    let projections = g.consumers(x).into_iter().filter(|&i| matches!(g.nodes[i].op, Op::Matmul(_)));
    projections.flat_map(|i| &g.nodes[i].outs).any(|&out| g.consumers(out).iter().any(recurrent))
}

pub fn merged_projections(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    merged(g, at, feeds_a_delta_net)
}

pub fn merged_qkv(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    merged(g, at, |_, _| true)
}

pub fn norm_prologue(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let norm = weighted(node).filter(|norm| norm.view.is_none())?;
    let (i, reader) = only_reader(g, node)?;
    let Op::Matmul(matmul @ Matmul { norm: None, .. }) = &reader.op else { return None };
    let reads_once = reader.ins.iter().filter(|&&v| v == node.outs[0]).count() == 1 && reader.ins[0] == node.outs[0];
    let width = g.values[node.ins[0]].sig.width;
    if !reads_once || norm.group(width) != width {
        return None;
    }
    let ins = node.ins.iter().chain(&reader.ins[1..]).copied().collect();
    make(g, vec![at, i], Matmul { norm: Some(norm.eps), ..matmul.clone() }, ins, reader.outs.clone())
}

pub fn elementwise_chain(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Elementwise(first) = &node.op else { return None };
    let (i, reader) = only_reader(g, node)?;
    let Op::Elementwise(second) = &reader.op else { return None };
    let out = node.outs[0];
    // A value that the reader broadcasts would be computed again for every repetition.
    if g.values[out].sig.width != g.values[reader.outs[0]].sig.width
        || g.values[out].sig.rows != g.values[reader.outs[0]].sig.rows
    {
        return None;
    }
    let mut ins = node.ins.clone();
    ins.extend(reader.ins.iter().filter(|&&v| v != out));
    let kept = |v: ValueId| ins.iter().position(|&x| x == v).unwrap_or(usize::MAX);
    let tree = second.tree.replace(&|l| match reader.ins.get(l) {
        Some(&v) if v == out => first.tree.clone(),
        Some(&v) => Tree::In(kept(v)),
        None => Tree::In(usize::MAX),
    });
    make(g, vec![at, i], Elementwise { tree }, ins, reader.outs.clone())
}
