//! Rules about attention: norms and rotations of heads, cache writes, gates, masks.

use super::find::{is_mul, is_unary, make, only_reader, other_operand, sole_producer};
use super::norms::weighted;
use crate::fuse::rewrite::Rewrite;
use crate::graph::{Graph, ValueId};
use crate::ops::Op;
use crate::ops::attention::{Attention, Gate};
use crate::ops::cache_write::CacheWrite;
use crate::ops::rope::Rope;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tree::Unary;

pub fn norm_rope(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let norm = weighted(node)?;
    let (i, reader) = only_reader(g, node)?;
    let Op::Rope(rope @ Rope { norm: None, view: None, .. }) = &reader.op else { return None };
    if norm.group(g.values[node.outs[0]].sig.width) != rope.dim {
        return None;
    }
    let op = Rope { norm: Some(norm.eps), view: norm.view.clone(), ..rope.clone() };
    make(g, vec![at, i], op, node.ins.clone(), reader.outs.clone())
}

pub fn rope_cache_write(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let Op::Attention(Attention { write: None, .. }) = &g.nodes[at].op else { return None };
    let [.., ks, vs] = g.nodes[at].ins[..] else { return None };
    let single = |v: ValueId| {
        let i = g.producer(v)?;
        matches!(&g.nodes[i].op, Op::CacheWrite(CacheWrite { pair: false, .. })).then_some(i)
    };
    let (k, v) = (single(ks)?, single(vs)?);
    let x = g.nodes[k].ins[0];
    let (mut remove, mut ins, mut rope) = (vec![k, v], vec![x, g.nodes[v].ins[0]], None);
    if let Some((i, rotation)) = sole_producer(g, x)
        && let Op::Rope(r @ Rope { view: None, .. }) = &rotation.op
    {
        remove.push(i);
        ins[0] = rotation.ins[0];
        ins.extend(&rotation.ins[1..]);
        rope = Some(r.clone());
    }
    ins.extend([g.nodes[k].ins[1], g.nodes[v].ins[1]]);
    make(g, remove, CacheWrite { pair: true, rope }, ins, vec![ks, vs])
}

pub fn attention_gate(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { gate: Gate::None, .. }) = &node.op else { return None };
    let m = g.only_consumer(node.outs[0])?;
    let mul = &g.nodes[m];
    let (s, sigmoid) = sole_producer(g, other_operand(mul, node.outs[0])?)?;
    let (c, gates) = sole_producer(g, *sigmoid.ins.first()?)?;
    if !is_mul(mul) || !is_unary(sigmoid, Unary::Sigmoid) || gates.op != attention.half(attention.dim).into() {
        return None;
    }
    let op = Attention { gate: Gate::Separate, ..attention.clone() };
    let mut ins = node.ins.clone();
    ins.insert(op.operands().gate?, gates.ins[0]);
    let outs = [&mul.outs[..], &node.outs[1..]].concat();
    make(g, vec![at, m, s, c], op, ins, outs)
}

pub fn mask_cast(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { mask: true, .. }) = &node.op else { return None };
    let mut ins = node.ins.clone();
    let mask = ins.remove(attention.operands().mask?);
    let op = Attention { mask: false, ..attention.clone() };
    let mut rewrite = make(g, vec![at], op, ins, node.outs.clone())?;
    // The last attention that reads the mask also removes its cast.
    if let Rewrite::Make { remove, .. } = &mut rewrite
        && let Some((cast, _)) = sole_producer(g, mask).filter(|(_, n)| matches!(n.op, Op::Copy(_)))
    {
        remove.push(cast);
    }
    Some(rewrite)
}

pub fn attention_write(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { write: None, .. }) = &node.op else { return None };
    let o = attention.operands();
    let (ks, vs) = (node.ins[o.states], node.ins[o.states + 1]);
    let i = g.producer(ks)?;
    let Op::CacheWrite(write @ CacheWrite { pair: true, .. }) = &g.nodes[i].op else { return None };
    if g.nodes[i].outs != [ks, vs] || g.only_consumer(ks) != Some(at) || g.only_consumer(vs) != Some(at) {
        return None;
    }
    let (written, caches) = g.nodes[i].ins.split_at(g.nodes[i].ins.len() - 2);
    let ins = [&node.ins[..o.k], written, &node.ins[o.k..o.states], caches].concat();
    let op = Attention { write: Some(write.clone()), ..attention.clone() };
    make(g, vec![i, at], op, ins, vec![node.outs[0], ks, vs])
}

pub fn attention_rope(g: &Graph, _: &LoweringContext, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { q_rope: None, .. }) = &node.op else { return None };
    let (i, producer) = sole_producer(g, node.ins[0])?;
    let (view, q_rope) = match &producer.op {
        Op::Rope(rope) => (rope.view.clone(), Some(Rope { view: None, ..rope.clone() })),
        Op::Slice(slice) => (Some(slice.clone()), None),
        _ => return None,
    };
    let mut ins = [&producer.ins[..], &node.ins[1..]].concat();
    let mut gate = attention.gate;
    // Queries are read in a packed projection only if the gates are read in it too.
    if let Some(view) = view {
        let row = attention.operands().gate.filter(|_| gate == Gate::Separate)?;
        if view != attention.half(0) || node.ins[row] != producer.ins[0] {
            return None;
        }
        ins.remove(row + producer.ins.len() - 1);
        gate = Gate::Packed;
    }
    make(g, vec![i, at], Attention { gate, q_rope, ..attention.clone() }, ins, node.outs.clone())
}
