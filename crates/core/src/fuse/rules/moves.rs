//! Rules about ops that move elements and compute nothing, such as gathers and slices.

use super::find::{make, only_reader};
use crate::fuse::rewrite::Rewrite;
use crate::graph::Graph;
use crate::ops::Op;
use crate::ops::delta_net::{DeltaNet, Front};
use crate::ops::elementwise::Elementwise;
use crate::ops::embed::Embed;
use crate::ops::gather_rows::GatherRows;
use crate::ops::l2_norm::L2Norm;
use crate::ops::rms_norm::{RmsNorm, With};
use crate::ops::rope::Rope;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tree::Tree;

pub fn empty_nodes(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    // A chain of empty nodes is removed from its end.
    let mut node = at;
    loop {
        let n = &g.nodes[node];
        if !g.moves_nothing(n) {
            return None;
        }
        let (states, values): (Vec<_>, Vec<_>) = n.outs.iter().copied().partition(|&v| g.values[v].sig.is_state());
        if values.iter().any(|v| g.outputs.contains(v)) {
            return None;
        }
        match values.iter().flat_map(|&v| g.consumers(v)).next() {
            Some(reader) => node = reader,
            None => {
                // Writing no rows to a state leaves its previous version.
                let was = n.ins.iter().copied().filter(|&v| g.values[v].sig.is_state());
                return Some(Rewrite::Drop { remove: vec![node], same: states.into_iter().zip(was).collect() });
            }
        }
    }
}

pub fn embedding_scale(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Embed(embed) = &node.op else { return None };
    let (i, scale) = only_reader(g, node)?;
    let Op::Elementwise(Elementwise { tree: Tree::Binary(_, a, b) }) = &scale.op else { return None };
    let (Tree::In(0), Tree::Const(c)) = (&**a, &**b) else { return None };
    (scale.op == Elementwise::scale(*c).into())
        .then(|| make(g, vec![at, i], Embed { scale: embed.scale * c }, node.ins.clone(), scale.outs.clone()))?
}

pub fn slices_in_place(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Slice(slice) = &node.op else { return None };
    let (i, reader) = only_reader(g, node)?;
    let (x, view) = (node.outs[0], Some(slice.clone()));
    let (operand, op): (usize, Op) = match &reader.op {
        Op::L2Norm(norm @ L2Norm { view: None, .. }) if runs(slice, norm.dim) => {
            (0, L2Norm { view, ..norm.clone() }.into())
        }
        Op::RmsNorm(norm @ RmsNorm { view: None, .. })
            if norm.with != With::Sum && runs(slice, norm.group(g.values[x].sig.width)) =>
        {
            (0, RmsNorm { view, ..norm.clone() }.into())
        }
        Op::Rope(rope @ Rope { view: None, .. }) if runs(slice, rope.dim) => (0, Rope { view, ..rope.clone() }.into()),
        Op::DeltaNet(delta @ DeltaNet { front: Front::Separate, .. }) if *slice == delta.slices()[2] => {
            (2, DeltaNet { front: Front::Packed, ..delta.clone() }.into())
        }
        _ => return None,
    };
    let mut ins = reader.ins.clone();
    if ins.iter().filter(|&&v| v == x).count() != 1 || ins[operand] != x {
        return None;
    }
    ins[operand] = node.ins[0];
    make(g, vec![at, i], op, ins, reader.outs.clone())
}

/// Whether the slice keeps runs of `dim` elements adjacent.
fn runs(slice: &Slice, dim: usize) -> bool {
    dim > 0 && slice.len.is_multiple_of(dim)
}

pub fn one_index_gathers(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let is_gather = |i: usize| matches!(g.nodes[i].op, Op::GatherRows(_));
    let other = (at + 1..g.nodes.len()).find(|&i| is_gather(at) && is_gather(i))?;
    let (a, b) = (&g.nodes[at], &g.nodes[other]);
    make(g, vec![at, other], GatherRows, [&a.ins[..], &b.ins].concat(), [&a.outs[..], &b.outs].concat())
}

pub fn output_gathers(g: &Graph, ctx: &LoweringContext, at: usize) -> Option<Rewrite> {
    let is_gather = |&i: &usize| matches!(g.nodes[i].op, Op::GatherRows(_));
    if !ctx.one_each || !is_gather(&at) {
        return None;
    }
    // All gathers are dropped at once, because a sum may combine the outputs of several, and its operands must keep equal rows.
    let remove: Vec<usize> = (0..g.nodes.len()).filter(is_gather).collect();
    let pairs = |&i: &usize| g.nodes[i].outs.iter().copied().zip(g.nodes[i].ins.iter().copied());
    let same = remove.iter().flat_map(pairs).collect();
    Some(Rewrite::Drop { remove, same })
}
