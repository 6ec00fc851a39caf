//! Rules about norms of rows.

use super::find::{is_add, is_mul, is_unary, make, only_reader, other_operand, sole_producer};
use crate::fuse::rewrite::{Rewrite, is_weight_row};
use crate::graph::{Graph, Node};
use crate::ops::Op;
use crate::ops::rms_norm::{RmsNorm, With};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tree::Unary;

/// The node's op, if it is an RMS norm with a weight and without a gate, residual or sum.
pub fn weighted(node: &Node) -> Option<&RmsNorm> {
    match &node.op {
        Op::RmsNorm(norm) if norm.is_weighted() => Some(norm),
        _ => None,
    }
}

pub fn norm_weight(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::RmsNorm(norm @ RmsNorm { weight: false, with: With::Nothing, .. }) = &node.op else { return None };
    let (i, mul) = only_reader(g, node)?;
    let weight = other_operand(mul, node.outs[0])?;
    let fits = g.values[weight].sig.width == norm.group(g.values[node.outs[0]].sig.width);
    if !is_mul(mul) || !is_weight_row(&g.values[weight]) || !fits {
        return None;
    }
    make(g, vec![at, i], RmsNorm { weight: true, ..norm.clone() }, vec![node.ins[0], weight], mul.outs.clone())
}

pub fn gated_norm(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let norm = weighted(node)?;
    let (m, mul) = only_reader(g, node)?;
    let (s, silu) = sole_producer(g, other_operand(mul, node.outs[0])?)?;
    let fits = || g.values[silu.ins[0]].sig == g.values[node.outs[0]].sig;
    if !is_mul(mul) || !is_unary(silu, Unary::Silu) || !fits() {
        return None;
    }
    let ins = [&node.ins[..], &silu.ins].concat();
    make(g, vec![at, m, s], RmsNorm { with: With::Gate, ..norm.clone() }, ins, mul.outs.clone())
}

pub fn norm_residual(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let norm = weighted(node)?;
    let (i, add) = only_reader(g, node)?;
    let other = other_operand(add, node.outs[0])?;
    if !is_add(add) || g.values[other].sig != g.values[node.outs[0]].sig {
        return None;
    }
    let ins = [&node.ins[..], &[other]].concat();
    make(g, vec![at, i], RmsNorm { with: With::Residual, ..norm.clone() }, ins, add.outs.clone())
}

pub fn residual_norm(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let add = &g.nodes[at];
    let ([a, b], sum) = (add.ins[..].first_chunk()?, *add.outs.first()?);
    let fits = |v: usize| g.values[v].sig == g.values[sum].sig;
    if !is_add(add) || !fits(*a) || !fits(*b) {
        return None;
    }
    let norm_of_it = |&i: &usize| weighted(&g.nodes[i]).is_some_and(|n| n.view.is_none()) && g.nodes[i].ins[0] == sum;
    let i = g.consumers(sum).into_iter().find(norm_of_it)?;
    let node = &g.nodes[i];
    let op = RmsNorm { with: With::Sum, ..weighted(node)?.clone() };
    make(g, vec![at, i], op, vec![*a, node.ins[1], *b], vec![sum, node.outs[0]])
}
