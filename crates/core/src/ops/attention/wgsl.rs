//! Attention in WGSL.
//!
//! `spans`: one workgroup a query head of a token; a few lanes share a key, and sums go through shuffles. `rows`, for
//! adapters without subgroups and heads that do not divide in eights: a thread a key, through workgroup memory. With few
//! rows a long cache is shared among workgroups, whose parts the last of them adds up in the same launch. A fused write is done in the same launch for up to 8 rows, where the
//! step's own keys and values fit workgroup memory; else it is a step of its own before.

use super::*;
use crate::device::ZERO_WORDS;
use crate::ops::cache_write::wgsl::{cache, gap, own};
use crate::ops::rope::wgsl::head;
use crate::wgsl::{Wgsl, caps, lanes};

mod tiles;

/// Threads of a workgroup of `rows`.
const WG: u32 = 128;

/// The kernel and its workgroup.
#[derive(Clone, Copy)]
enum Form {
    Rows,
    Spans { workgroup: u32, span: u32, splits: usize },
    Tiles(tiles::Cut),
}

/// Workgroups that share a head's cache at most.
const SPLITS: usize = 16;

impl Form {
    /// The form for a site beside `others` bytes of workgroup memory; none where nothing fits.
    fn new(op: &Attention, site: &Site, others: usize) -> Option<Form> {
        let (dim, caps) = (op.dim, &caps(site.target));
        if let Some(cut) = tiles::Cut::new(op, site) {
            return Some(Form::Tiles(cut));
        }
        let fits = |bytes: usize| others + bytes + 4 * (2 * dim + 64) <= caps.workgroup_bytes as usize;
        // With more rows there are workgroups enough.
        let rows = if site.class == RowClass::One { 1 } else { 8 };
        let splits =
            if !site.class.is_small() || rows * op.heads * (1 + SPLITS * (dim + 2)) > ZERO_WORDS { 1 } else { SPLITS };
        let met = if splits > 1 { 4 * splits * (dim + 2) } else { 0 };
        if let Some(lanes) = lanes(caps).filter(|_| dim.is_multiple_of(8)) {
            // The most lanes that divide a key's eights evenly.
            let span = (1 << (dim / 8).trailing_zeros()).min(lanes);
            let parts = |workgroup: u32, more: usize| fits((workgroup / lanes) as usize * (4 * dim + 12) + more);
            let sizes = || [256, 128, 64].into_iter().filter(|w| *w <= caps.invocations);
            if let Some(workgroup) = sizes().find(|&w| parts(w, met)) {
                return Some(Form::Spans { workgroup, span, splits });
            }
            return sizes().find(|&w| parts(w, 0)).map(|workgroup| Form::Spans { workgroup, span, splits: 1 });
        }
        fits(4 * (6 * WG as usize)).then_some(Form::Rows)
    }
}

pub(super) fn lower(op: &Attention, site: &Site) -> Lowering {
    let o = op.operands();
    if let Some(why) = site.ins[o.states..].iter().find_map(gap) {
        return Lowering::Gap(why);
    }
    if op.dim > 4 * WG as usize {
        return Lowering::Gap("heads of more than 512 numbers have no kernel");
    }
    let rows = if site.class == RowClass::One { 1 } else { 8 };
    let bytes = |s: &Sig| s.dtype.row_bytes(op.dim).unwrap_or(0).next_multiple_of(4);
    // The step's own keys and values, and two vectors to encode.
    let own_bytes = rows * (bytes(&site.ins[o.states]) + bytes(&site.ins[o.states + 1])) + 4 * (3 * op.dim);
    let Some(form) = Form::new(op, site, 0) else {
        return Lowering::Gap("heads of this size have no room in workgroup memory");
    };
    let Some(write) = &op.write else { return one(op, site, 0, form).into_lowering() };
    if let Some(form) = Form::new(op, site, own_bytes).filter(|_| site.class.is_small()) {
        return one(op, site, rows, form).into_lowering();
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
    let mut step = one(&rest, &rest_site, 0, form).0;
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
fn one(op: &Attention, site: &Site, rows: usize, of: Form) -> One {
    let o = op.operands();
    let form = if rows > 0 {
        "rope+write"
    } else if op.q_rope.is_some() {
        "rope"
    } else {
        "plain"
    };
    let (kernel, workgroup, text) = match of {
        Form::Rows => ("rows", WG, include_str!("rows.wgsl")),
        Form::Spans { workgroup, .. } => ("spans", workgroup, include_str!("spans.wgsl")),
        Form::Tiles(cut) => ("tiles", cut.threads() as u32, ""),
    };
    let mut w = Wgsl::new(format!("attention/{kernel}.{form}"), workgroup);
    let mut split = 1;
    if let Form::Spans { span, splits, .. } = of {
        w.number("SPAN", span as usize);
        w.number("EIGHTS", op.dim / 8 / span as usize);
        w.number("SPLITS", splits);
        split = splits;
    }
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
            w.function("own_start(row: u32, seq: u32) -> u32", "row");
            w.line("fn own_take(row: u32, kv: u32, lid: u32) {}");
            w.line("fn own(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {}");
            w.function("own_key(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
            w.function("own_value(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
            w.function("own_key_eight(i: u32, eight: u32) -> Eight", "Eight()");
            w.function("own_value_eight(i: u32, eight: u32) -> Eight", "Eight()");
        }
    }
    w.write("y", Arg::Out(0));
    if let Form::Tiles(cut) = of {
        cut.text(&mut w, op.dim);
        return One(w.step(cut.grid(op.heads), op.cost(site)));
    }
    if split > 1 {
        w.meeting();
        w.line(include_str!("splits.wgsl"));
    } else if matches!(of, Form::Spans { .. }) {
        w.function("meet(which: u32, split: u32, n: u32, lid: u32) -> bool", "true");
        w.function("met(d: u32, n: u32) -> f32", "0.0");
    }
    One(w.text(text).step(Expr::T * (op.heads * split), op.cost(site)))
}
