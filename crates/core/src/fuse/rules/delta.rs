//! Rules about the gated delta net and the convolution before it.

use super::find::{is_unary, make, name_of, sole_producer};
use crate::fuse::rewrite::Rewrite;
use crate::graph::{Graph, Node, Source, Value};
use crate::ops::Op;
use crate::ops::conv::Conv;
use crate::ops::delta_net::{DeltaNet, Front};
use crate::ops::l2_norm::L2Norm;
use crate::ops::rms_norm::{RmsNorm, With};
use crate::ops::state_write::StateWrite;
use crate::ops::window::Window;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tensor::Sig;
use onetrip_ir::tree::Unary;

pub fn states_in_place(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let read_by = |operand: usize| {
        let (r, read) = sole_producer(g, *node.ins.get(operand)?)?;
        matches!(read.op, Op::StateRead(_)).then_some((r, read.ins[0]))
    };
    let mut ins = node.ins.clone();
    match &node.op {
        Op::Window(window) => {
            let (r, state) = read_by(0)?;
            ins[0] = state;
            make(g, vec![r, at], window.clone(), ins, node.outs.clone())
        }
        Op::DeltaNet(delta) => {
            let (r, state) = read_by(ins.len() - 1)?;
            let (made, w) = (*node.outs.last()?, g.only_consumer(*node.outs.last()?)?);
            let write = &g.nodes[w];
            if write.op != (StateWrite { window: None }).into() || write.ins != [made, state] {
                return None;
            }
            *ins.last_mut()? = state;
            let outs = node.outs[..node.outs.len() - 1].iter().chain(&write.outs).copied().collect();
            make(g, vec![r, at, w], delta.clone(), ins, outs)
        }
        _ => None,
    }
}

pub fn conv_group(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    match &g.nodes[at].op {
        Op::Window(window) => window_and_conv(g, at, window),
        Op::Conv(conv @ Conv { heads: None, .. }) => conv_and_heads(g, at, conv),
        _ => None,
    }
}

/// Matches the window of a state, the write of its last rows to the state, and its convolution.
fn window_and_conv(g: &Graph, at: usize, window: &Window) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let (made, state) = (node.outs[0], node.ins[0]);
    let [a, b] = g.consumers(made)[..] else { return None };
    let is_conv = |i: usize| matches!(g.nodes[i].op, Op::Conv(_));
    let (c, w) = if is_conv(a) { (a, b) } else { (b, a) };
    let (conv, write) = (&g.nodes[c], &g.nodes[w]);
    let Op::Conv(op) = &conv.op else { return None };
    let fits = write.op == (StateWrite { window: Some(window.rows) }).into() && write.ins == [made, state];
    if !fits || op.taps != window.rows + 1 || !g.values[state].sig.is_state() || g.outputs.contains(&made) {
        return None;
    }
    make(g, vec![at, w, c], op.clone(), vec![node.ins[1], conv.ins[1], state], vec![conv.outs[0], write.outs[0]])
}

/// Matches a convolution with its state in place, SiLU, and the L2 norms of q and k, before a delta net that reads v out of the
/// packed projection.
fn conv_and_heads(g: &Graph, at: usize, op: &Conv) -> Option<Rewrite> {
    let conv = &g.nodes[at];
    let [y, state] = conv.outs[..] else { return None };
    let s = g.only_consumer(y)?;
    if !is_unary(&g.nodes[s], Unary::Silu) {
        return None;
    }
    let packed = g.nodes[s].outs[0];
    let readers = g.consumers(packed);
    let d = readers.iter().copied().find(|&i| matches!(g.nodes[i].op, Op::DeltaNet(_)))?;
    let node = &g.nodes[d];
    let Op::DeltaNet(delta @ DeltaNet { front: Front::Packed, .. }) = &node.op else { return None };
    if readers.len() != 3 || g.outputs.contains(&packed) {
        return None;
    }
    let [(q, first), (k, second)] = [sole_producer(g, node.ins[0])?, sole_producer(g, node.ins[1])?];
    let Op::L2Norm(L2Norm { eps, .. }) = first.op else { return None };
    let [q_slice, k_slice, v_slice] = delta.slices();
    let norm = |slice| Op::from(L2Norm { eps, dim: delta.k_dim, view: Some(slice) });
    let from_packed = first.ins == [packed] && second.ins == [packed] && node.ins[2] == packed;
    if first.op != norm(q_slice) || second.op != norm(k_slice) || !from_packed {
        return None;
    }
    let v = g.values.len();
    let sig = Sig::slot(g.values[packed].sig.rows.clone(), v_slice.len);
    let values = vec![Value { name: g.values[packed].name.clone(), sig, source: Source::Node }];
    let conv = Node {
        name: name_of(g, &[at, s, q, k]),
        op: Conv { heads: Some(delta.heads(eps)), ..op.clone() }.into(),
        ins: conv.ins.clone(),
        outs: vec![node.ins[0], node.ins[1], v, state],
    };
    let mut rest = node.clone();
    rest.op = DeltaNet { front: Front::Separate, ..delta.clone() }.into();
    rest.ins[2] = v;
    Some(Rewrite::Make { remove: vec![at, s, q, k, d], made: vec![conv, rest], values })
}

pub fn delta_conv(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::DeltaNet(delta @ DeltaNet { front: Front::Separate, .. }) = &node.op else { return None };
    let (i, conv) = sole_producer(g, node.ins[0])?;
    let Op::Conv(Conv { taps, heads: Some(heads) }) = &conv.op else { return None };
    let (qkv, (last, rest)) = (&node.ins[..3], node.ins[3..].split_last()?);
    let alone = qkv.iter().all(|&v| g.only_consumer(v) == Some(at));
    if *heads != delta.heads(heads.eps) || conv.outs[..3] != *qkv || !alone || !g.values[*last].sig.is_state() {
        return None;
    }
    // In order: packed projection and filter; gates and norm; the convolution's state and the delta net's state.
    let ins = [&conv.ins[..2], rest, &[conv.ins[2], *last]].concat();
    let outs = vec![node.outs[0], conv.outs[3], node.outs[1]];
    let front = Front::Conv { taps: *taps, eps: heads.eps };
    make(g, vec![i, at], DeltaNet { front, ..delta.clone() }, ins, outs)
}

pub fn delta_norm(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::DeltaNet(delta @ DeltaNet { norm: None, .. }) = &node.op else { return None };
    let i = g.only_consumer(node.outs[0])?;
    let gated = &g.nodes[i];
    let Op::RmsNorm(norm @ RmsNorm { weight: true, with: With::Gate, view: None, .. }) = &gated.op else { return None };
    if gated.ins[0] != node.outs[0] || norm.group(delta.v_width()) != delta.v_dim {
        return None;
    }
    let (before, states) = node.ins.split_at(delta.operands().conv_state);
    let ins = [before, &gated.ins[1..], states].concat();
    let outs = [&gated.outs[..], &node.outs[1..]].concat();
    make(g, vec![at, i], DeltaNet { norm: Some(norm.eps), ..delta.clone() }, ins, outs)
}
