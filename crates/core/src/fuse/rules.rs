//! The rules, in the order in which they are tried: what each finds, what it makes, and because of what.
//!
//! A rule answers for one node of the graph with the rewrite it wants there. It changes nothing itself, knows no
//! device, and is refused where the device has no kernel for what it would make.

use super::{Rewrite, Setting, is_weight_row};
use crate::graph::{Graph, Node, ValueId};
use crate::ops::Op;
use crate::ops::attention::{Attention, Gate};
use crate::ops::cache_write::CacheWrite;
use crate::ops::columns::Columns;
use crate::ops::delta_net::{DeltaNet, Front};
use crate::ops::elementwise::{Elementwise, Tree, Unary};
use crate::ops::embed::Embed;
use crate::ops::matmul::Matmul;
use crate::ops::rms_norm::{RmsNorm, With};
use crate::ops::rope::Rope;

/// A named rewrite.
pub struct Rule {
    /// Name in `--fuse` lists and ladders.
    pub name: &'static str,
    /// What it finds.
    pub finds: &'static str,
    /// What it makes.
    pub makes: &'static str,
    /// Why that is better.
    pub because: &'static str,
    /// The rewrite it wants at a node.
    pub find: fn(&Graph, &Setting, usize) -> Option<Rewrite>,
}

/// All rules, in order.
pub const RULES: &[Rule] = &[
    Rule {
        name: "empty-nodes",
        finds: "a gather of rows that takes every row in order",
        makes: "nothing",
        because: "with one token a sequence the rows of logits are the rows of the batch",
        find: empty_nodes,
    },
    Rule {
        name: "norm-weight",
        finds: "a norm, multiplied by a weight row",
        makes: "a weighted norm",
        because: "the normed row is multiplied while it is in registers",
        find: norm_weight,
    },
    Rule {
        name: "embedding-scale",
        finds: "an embedding, times a number",
        makes: "a scaled embedding",
        because: "the row is scaled while it is copied",
        find: embedding_scale,
    },
    Rule {
        name: "bias-epilogue",
        finds: "a matmul, plus a weight row",
        makes: "a matmul with a bias in its epilogue",
        because: "the product is in registers when it is done",
        find: bias_epilogue,
    },
    Rule {
        name: "gate-up",
        finds: "two matmuls of one input, joined by an elementwise op",
        makes: "one matmul whose epilogue gates one product by the other",
        because: "x is read once and neither product goes to memory",
        find: gate_up,
    },
    Rule {
        name: "gate-chain",
        finds: "a matmul, then an elementwise op on its result and weight rows alone",
        makes: "a matmul with the op in its epilogue",
        because: "gates are a few numbers a row: each op on them would be a launch for next to nothing",
        find: gate_chain,
    },
    Rule {
        name: "conv-group",
        finds: "a causal convolution, SiLU, the split into q, k and v and the L2 norms of q and k before a delta net",
        makes: "a delta net that makes its q, k and v of the joint row",
        because: "every channel is read by one worker only, which has its part of both states at hand",
        find: conv_group,
    },
    Rule {
        name: "gated-norm",
        finds: "the weighted norm of a delta net's heads, times another value",
        makes: "a delta net that norms and gates what it gives",
        because: "a head's output is in the first-level cache when it is done",
        find: gated_norm,
    },
    Rule {
        name: "merged-projections",
        finds: "two matmuls of one input",
        makes: "one matmul with the outputs of both",
        because: "x is read (and rounded) once, and there is one launch for q, k and v",
        find: merged_projections,
    },
    Rule {
        name: "norm-residual",
        finds: "a weighted norm, plus another value",
        makes: "a norm that adds the residual",
        because: "the sum is made while the row is in registers",
        find: norm_residual,
    },
    Rule {
        name: "residual-epilogue",
        finds: "a matmul, then an elementwise op on its result",
        makes: "a matmul with the op in its epilogue",
        because: "the residual is added to the product in registers",
        find: residual_epilogue,
    },
    Rule {
        name: "norm-prologue",
        finds: "a weighted norm that only one matmul reads",
        makes: "a matmul with the norm in its prologue",
        because: "one row is normed faster than a launch is handed over",
        find: norm_prologue,
    },
    Rule {
        name: "norm-rope",
        finds: "a weighted norm of heads, then a rotation",
        makes: "a rotation that norms first",
        because: "a head fits in registers",
        find: norm_rope,
    },
    Rule {
        name: "rope-cache-write",
        finds: "the rotation of k and the cache writes of k and v before one attention",
        makes: "one cache write",
        because: "rotated keys go to the cache and nowhere else",
        find: rope_cache_write,
    },
    Rule {
        name: "attention-write",
        finds: "the cache write before attention",
        makes: "attention that writes the cache",
        because: "the newest key and value are at hand where they are first used",
        find: attention_write,
    },
    Rule {
        name: "attention-rope",
        finds: "the rotation of q before attention",
        makes: "attention that rotates its queries",
        because: "a query is read by one worker only",
        find: attention_rope,
    },
    Rule {
        name: "attention-gate",
        finds: "attention whose queries are split from a joint row, times the sigmoid of the other half",
        makes: "attention that reads the joint row and gates what it gives",
        because: "a query and its gate lie side by side, and neither half is copied",
        find: attention_gate,
    },
    Rule {
        name: "elementwise-chain",
        finds: "an elementwise op that only one other elementwise op reads",
        makes: "one op with both trees in one",
        because: "the value between them stays in registers",
        find: elementwise_chain,
    },
];

fn make(remove: Vec<usize>, op: impl Into<Op>, ins: Vec<ValueId>, outs: Vec<ValueId>) -> Option<Rewrite> {
    Some(Rewrite::Make { remove, op: Box::new(op.into()), ins, outs })
}

/// The node that alone reads the first output of `node`.
fn only_reader<'g>(g: &'g Graph, node: &Node) -> Option<(usize, &'g Node)> {
    if node.outs.len() != 1 {
        return None;
    }
    let i = g.only_consumer(node.outs[0])?;
    Some((i, &g.nodes[i]))
}

/// The other operand of a sum or product of two different values.
fn other_operand(node: &Node, value: ValueId) -> Option<ValueId> {
    match node.ins[..] {
        [a, b] if a == value && b != value => Some(b),
        [a, b] if b == value && a != value => Some(a),
        _ => None,
    }
}

fn empty_nodes(g: &Graph, setting: &Setting, at: usize) -> Option<Rewrite> {
    (setting.one_each && matches!(g.nodes[at].op, Op::GatherRows(_))).then_some(Rewrite::Drop(at))
}

fn norm_weight(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::RmsNorm(norm @ RmsNorm { weight: false, with: With::Nothing, .. }) = &node.op else { return None };
    let (i, mul) = only_reader(g, node)?;
    let weight = other_operand(mul, node.outs[0])?;
    let fits = g.values[weight].sig.width == norm.group(g.values[node.ins[0]].sig.width);
    if !matches!(&mul.op, Op::Elementwise(e) if e.is_mul()) || !is_weight_row(&g.values[weight]) || !fits {
        return None;
    }
    make(vec![at, i], RmsNorm { weight: true, ..norm.clone() }, vec![node.ins[0], weight], mul.outs.clone())
}

fn embedding_scale(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Embed(embed) = &node.op else { return None };
    let (i, scale) = only_reader(g, node)?;
    let Op::Elementwise(Elementwise { tree: Tree::Binary(_, a, b) }) = &scale.op else { return None };
    let (Tree::In(0), Tree::Const(c)) = (&**a, &**b) else { return None };
    (scale.op == Elementwise::scale(*c).into())
        .then(|| make(vec![at, i], Embed { scale: embed.scale * c }, node.ins.clone(), scale.outs.clone()))?
}

/// Puts the elementwise reader of a matmul's only output into its epilogue, where `wanted` allows the operand.
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
    make(vec![at, i], Matmul { outputs: vec![tree], ..matmul.clone() }, ins, reader.outs.clone())
}

fn bias_epilogue(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let (_, reader) = only_reader(g, &g.nodes[at])?;
    let is_bias = matches!(&reader.op, Op::Elementwise(e) if e.is_add());
    is_bias.then(|| into_epilogue(g, at, |g, v| is_weight_row(&g.values[v])))?
}

fn residual_epilogue(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    into_epilogue(g, at, |_, _| true)
}

fn gate_chain(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let (_, reader) = only_reader(g, &g.nodes[at])?;
    (!is_unary(reader, Unary::Silu)).then(|| into_epilogue(g, at, |g, v| is_weight_row(&g.values[v])))?
}

/// The node that makes a value nobody else reads.
fn sole_producer(g: &Graph, value: ValueId) -> Option<(usize, &Node)> {
    g.only_consumer(value)?;
    let i = g.producer(value)?;
    Some((i, &g.nodes[i]))
}

/// An elementwise op that is this function of its one input.
fn is_unary(node: &Node, f: Unary) -> bool {
    matches!(&node.op, Op::Elementwise(e) if e.tree == Tree::unary(f, Tree::In(0)))
}

fn conv_group(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::DeltaNet(delta @ DeltaNet { front: Front::Apart, .. }) = &node.op else { return None };
    let mut remove = vec![at];
    let mut eps = None;
    let mut joint = None;
    for (i, columns) in delta.columns().into_iter().enumerate() {
        let mut value = node.ins[i];
        if i < 2 {
            let (n, norm) = sole_producer(g, value)?;
            let Op::L2Norm(l2) = &norm.op else { return None };
            if l2.dim != delta.k_dim || eps.is_some_and(|eps| eps != l2.eps) {
                return None;
            }
            eps = Some(l2.eps);
            remove.push(n);
            value = norm.ins[0];
        }
        let (n, split) = sole_producer(g, value)?;
        if split.op != Op::Columns(columns) || joint.is_some_and(|joint| joint != split.ins[0]) {
            return None;
        }
        joint = Some(split.ins[0]);
        remove.push(n);
    }
    let (joint, eps) = (joint?, eps?);
    if g.consumers(joint).len() != 3 || g.outputs.contains(&joint) {
        return None;
    }
    let silu = g.producer(joint)?;
    let (i, conv) = sole_producer(g, *g.nodes[silu].ins.first()?)?;
    let Op::Conv(op) = &conv.op else { return None };
    if !is_unary(&g.nodes[silu], Unary::Silu) {
        return None;
    }
    remove.extend([silu, i]);
    // Joint row and filter; gates and norm; the convolution's state, the delta net's state.
    let (last, rest) = node.ins[3..].split_last()?;
    let ins = conv.ins[..2].iter().chain(rest).chain([&conv.ins[2], last]).copied().collect();
    let outs = vec![node.outs[0], conv.outs[1], node.outs[1]];
    make(remove, DeltaNet { front: Front::Conv { taps: op.taps, eps }, ..delta.clone() }, ins, outs)
}

fn gated_norm(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::DeltaNet(delta @ DeltaNet { norm: None, .. }) = &node.op else { return None };
    let i = g.only_consumer(node.outs[0])?;
    let Op::RmsNorm(norm @ RmsNorm { weight: true, with: With::Nothing, part: None, .. }) = &g.nodes[i].op else {
        return None;
    };
    let (m, mul) = only_reader(g, &g.nodes[i])?;
    let (s, silu) = sole_producer(g, other_operand(mul, g.nodes[i].outs[0])?)?;
    if !is_unary(silu, Unary::Silu) {
        return None;
    }
    let gate = silu.ins[0];
    let fits = norm.group(delta.v_width()) == delta.v_dim && g.values[gate].sig == g.values[node.outs[0]].sig;
    if !matches!(&mul.op, Op::Elementwise(e) if e.is_mul()) || !fits {
        return None;
    }
    let states = delta.operands().conv_state;
    let ins =
        node.ins[..states].iter().chain([&g.nodes[i].ins[1], &gate]).chain(&node.ins[states..]).copied().collect();
    let outs = mul.outs.iter().chain(&node.outs[1..]).copied().collect();
    make(vec![at, i, m, s], DeltaNet { norm: Some(norm.eps), ..delta.clone() }, ins, outs)
}

fn attention_gate(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { gate: Gate::None, .. }) = &node.op else { return None };
    let half = |start| Op::Columns(Columns { group: 2 * attention.dim, start, len: attention.dim });
    let (q, queries) = sole_producer(g, node.ins[0])?;
    let m = g.only_consumer(node.outs[0])?;
    let mul = &g.nodes[m];
    let (s, sigmoid) = sole_producer(g, other_operand(mul, node.outs[0])?)?;
    let (c, gates) = sole_producer(g, *sigmoid.ins.first()?)?;
    let is_gate = is_unary(sigmoid, Unary::Sigmoid) && matches!(&mul.op, Op::Elementwise(e) if e.is_mul());
    if !is_gate || queries.op != half(0) || gates.op != half(attention.dim) || queries.ins != gates.ins {
        return None;
    }
    let ins = queries.ins.iter().chain(&node.ins[1..]).copied().collect();
    let outs = mul.outs.iter().chain(&node.outs[1..]).copied().collect();
    make(vec![at, q, m, s, c], Attention { gate: Gate::Joint, ..attention.clone() }, ins, outs)
}

fn gate_up(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
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
    make(vec![a, b, at], Matmul { products: 2, outputs: vec![e.tree.clone()], norm: None }, ins, node.outs.clone())
}

fn merged_projections(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let a = &g.nodes[at];
    let Op::Matmul(first) = &a.op else { return None };
    let x = a.ins[0];
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
    make(vec![at, partner], Matmul { products: na + nb, outputs, norm: None }, ins, outs)
}

fn norm_residual(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::RmsNorm(norm @ RmsNorm { weight: true, with: With::Nothing, part: None, .. }) = &node.op else {
        return None;
    };
    let (i, add) = only_reader(g, node)?;
    let other = other_operand(add, node.outs[0])?;
    if !matches!(&add.op, Op::Elementwise(e) if e.is_add()) || is_weight_row(&g.values[other]) {
        return None;
    }
    let ins = vec![node.ins[0], node.ins[1], other];
    make(vec![at, i], RmsNorm { with: With::Residual, ..norm.clone() }, ins, add.outs.clone())
}

fn norm_prologue(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::RmsNorm(norm @ RmsNorm { weight: true, with: With::Nothing, part: None, .. }) = &node.op else {
        return None;
    };
    let (i, reader) = only_reader(g, node)?;
    let Op::Matmul(matmul @ Matmul { norm: None, .. }) = &reader.op else { return None };
    let reads_once = reader.ins.iter().filter(|&&v| v == node.outs[0]).count() == 1 && reader.ins[0] == node.outs[0];
    let width = g.values[node.ins[0]].sig.width;
    if !reads_once || norm.group(width) != width {
        return None;
    }
    let ins = node.ins.iter().chain(&reader.ins[1..]).copied().collect();
    make(vec![at, i], Matmul { norm: Some(norm.eps), ..matmul.clone() }, ins, reader.outs.clone())
}

fn norm_rope(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::RmsNorm(norm @ RmsNorm { weight: true, with: With::Nothing, part: None, .. }) = &node.op else {
        return None;
    };
    let (i, reader) = only_reader(g, node)?;
    let Op::Rope(rope @ Rope { norm: None, .. }) = &reader.op else { return None };
    if norm.group(g.values[node.ins[0]].sig.width) != rope.dim {
        return None;
    }
    make(vec![at, i], Rope { norm: Some(norm.eps), ..rope.clone() }, node.ins.clone(), reader.outs.clone())
}

fn rope_cache_write(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let Op::Attention(Attention { write: None, .. }) = &g.nodes[at].op else { return None };
    let [.., ks, vs] = g.nodes[at].ins[..] else { return None };
    let single = |v: ValueId| {
        let i = g.producer(v)?;
        matches!(&g.nodes[i].op, Op::CacheWrite(CacheWrite { pair: false, .. })).then_some(i)
    };
    let (k, v) = (single(ks)?, single(vs)?);
    let x = g.nodes[k].ins[0];
    let rotated = g.producer(x).filter(|&i| matches!(g.nodes[i].op, Op::Rope(_)) && g.only_consumer(x).is_some());
    let (mut remove, mut ins, mut rope) = (vec![k, v], vec![x, g.nodes[v].ins[0]], None);
    if let Some(i) = rotated
        && let Op::Rope(r) = &g.nodes[i].op
    {
        remove.push(i);
        ins[0] = g.nodes[i].ins[0];
        ins.extend(&g.nodes[i].ins[1..]);
        rope = Some(r.clone());
    }
    ins.extend([g.nodes[k].ins[1], g.nodes[v].ins[1]]);
    make(remove, CacheWrite { pair: true, rope }, ins, vec![ks, vs])
}

fn attention_write(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { write: None, .. }) = &node.op else { return None };
    let [.., ks, vs] = node.ins[..] else { return None };
    let i = g.producer(ks)?;
    let Op::CacheWrite(write @ CacheWrite { pair: true, .. }) = &g.nodes[i].op else { return None };
    if g.nodes[i].outs != [ks, vs] || g.only_consumer(ks) != Some(at) || g.only_consumer(vs) != Some(at) {
        return None;
    }
    let ins = node.ins[..node.ins.len() - 2].iter().chain(&g.nodes[i].ins).copied().collect();
    let op = Attention { write: Some(write.clone()), ..attention.clone() };
    make(vec![i, at], op, ins, vec![node.outs[0], ks, vs])
}

fn attention_rope(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Attention(attention @ Attention { q_rope: None, .. }) = &node.op else { return None };
    let i = g.producer(node.ins[0])?;
    let Op::Rope(rope) = &g.nodes[i].op else { return None };
    g.only_consumer(node.ins[0])?;
    let ins = g.nodes[i].ins.iter().chain(&node.ins[1..]).copied().collect();
    make(vec![i, at], Attention { q_rope: Some(rope.clone()), ..attention.clone() }, ins, node.outs.clone())
}

fn elementwise_chain(g: &Graph, _: &Setting, at: usize) -> Option<Rewrite> {
    let node = &g.nodes[at];
    let Op::Elementwise(first) = &node.op else { return None };
    let (i, reader) = only_reader(g, node)?;
    let Op::Elementwise(second) = &reader.op else { return None };
    let out = node.outs[0];
    // A value that the reader repeats within its rows would be computed again for every repeat.
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
    make(vec![at, i], Elementwise { tree }, ins, reader.outs.clone())
}
