//! Attention in WGSL.
//!
//! `rows`: one workgroup a query head of a token. A fused write is done in the same launch for up to 8 rows, where the
//! step's own keys and values fit workgroup memory; else it is a step of its own before.

use super::*;
use crate::ops::cache_write::wgsl::{cache, gap, own};
use crate::ops::rope::wgsl::head;
use crate::wgsl::{Wgsl, caps};

/// Threads of a workgroup.
const WG: u32 = 128;

pub(super) fn lower(op: &Attention, site: &Site) -> Lowering {
    let o = op.operands();
    if let Some(why) = site.ins[o.states..].iter().find_map(gap) {
        return Lowering::Gap(why);
    }
    if op.dim > 4 * WG as usize {
        return Lowering::Gap("heads of more than 512 numbers have no kernel");
    }
    let caps = caps(site.target);
    let rows = if site.class == RowClass::One { 1 } else { 8 };
    let bytes = |s: &Sig| s.dtype.row_bytes(op.dim).unwrap_or(0).next_multiple_of(4);
    let own_bytes = rows * (bytes(&site.ins[o.states]) + bytes(&site.ins[o.states + 1]));
    let other_bytes = 4 * (4 * op.dim + 6 * WG as usize + 64);
    let fits = own_bytes + other_bytes <= caps.workgroup_bytes as usize;
    let Some(write) = &op.write else { return one(op, site, 0).into_lowering() };
    if site.class.is_small() && fits {
        return one(op, site, rows).into_lowering();
    }
    // Two launches: the write, then attention that reads what was written.
    let of_write: Vec<usize> = o.of_write().collect();
    let pick = |of: &[usize]| of.iter().map(|&i| site.ins[i].clone()).collect::<Vec<Sig>>();
    let write_site = Site { ins: pick(&of_write), outs: site.outs[1..].to_vec(), ..site.clone() };
    let Lowering::Steps { mut steps, scratch } = write.wgsl(&write_site) else {
        return Lowering::Gap("the cache write in front of attention has no kernel");
    };
    let renamed = |args: &mut [Arg], ins: &[usize], outs: usize| {
        args.iter_mut().for_each(|a| match a {
            Arg::In(i) => *i = ins[*i],
            Arg::Out(i) => *i += outs,
            _ => {}
        })
    };
    steps.iter_mut().for_each(|step| renamed(&mut step.args, &of_write, 1));
    let rest = Attention { write: None, ..op.clone() };
    let apart = o.gate.filter(|_| op.gate == Gate::Apart);
    let of_rest: Vec<usize> =
        [0].into_iter().chain(o.q_norm).chain(apart).chain(o.mask).chain([o.states, o.states + 1]).collect();
    let rest_site = Site { ins: pick(&of_rest), outs: site.outs[..1].to_vec(), ..site.clone() };
    let mut step = one(&rest, &rest_site, 0).0;
    renamed(&mut step.args, &of_rest, 0);
    steps.push(step);
    Lowering::Steps { steps, scratch }
}

/// A step that is a lowering by itself.
struct One(Step);

impl One {
    fn into_lowering(self) -> Lowering {
        Lowering::Steps { steps: vec![self.0], scratch: vec![] }
    }
}

/// The launch; `rows` is how many rows of a sequence it writes at most (0: it does not write).
fn one(op: &Attention, site: &Site, rows: usize) -> One {
    let o = op.operands();
    let form = if rows > 0 {
        "rope+write"
    } else if op.q_rope.is_some() {
        "rope"
    } else {
        "plain"
    };
    let mut w = Wgsl::new(format!("attention/rows.{form}"), WG);
    w.number("HEADS", op.heads);
    w.number("GROUP", op.heads / op.kv_heads);
    w.number("Q_STRIDE", op.q_stride());
    w.number("WINDOW", op.window.unwrap_or(0) as usize);
    w.number("OWN", rows);
    w.float("SCALE", op.scale);
    w.float("SOFTCAP", op.softcap.unwrap_or(0.0));
    w.flag("GATE", op.gate != Gate::None);
    let mut w = w.reductions(&caps(site.target));
    let weight = |i: Option<usize>| i.map(|i| (Arg::In(i), site.ins[i].dtype));
    head(&mut w, "q", op.dim, Arg::In(0), op.q_rope.as_ref(), weight(o.q_norm));
    match op.gate {
        Gate::Apart => w.read("joint", Arg::In(o.gate.unwrap_or(0)), DType::F32),
        _ => w.function("joint_at(i: u32) -> f32", "q_x_at(i)"),
    }
    for (i, name) in ["kc", "vc"].into_iter().enumerate() {
        let arg = if rows > 0 { Arg::Out(1 + i) } else { Arg::In(o.states + i) };
        cache(&mut w, name, arg, &site.ins[o.states + i], rows > 0);
    }
    match &op.write {
        Some(write) if rows > 0 => {
            head(&mut w, "k", op.dim, Arg::In(o.k), write.rope.as_ref(), weight(o.k_norm));
            w.read("v", Arg::In(o.k + 1), DType::F32);
            own(&mut w, "own_k", "kc", rows);
            own(&mut w, "own_v", "vc", rows);
            w.line(include_str!("own.wgsl"));
        }
        _ => {
            w.line("fn own(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {}");
            w.function("own_key(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
            w.function("own_value(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
        }
    }
    w.write("y", Arg::Out(0));
    let w = w.text(include_str!("rows.wgsl"));
    One(w.step(Expr::T * op.heads, op.cost(site)))
}
