//! Attention in WGSL. `select.rs` lists the kernels in order of preference, `tune.rs` has their sizes.
//!
//! - `decode_split_kv`: one workgroup for the query heads of a token that read the same keys; a few lanes share a key and
//!   reduce through subgroup shuffles. With few rows a long cache is split over workgroups, and the last of them combines the
//!   splits in the same launch.
//! - `decode_no_subgroups`, for adapters without subgroups and for heads that are not a multiple of 8: one thread for each key,
//!   reductions through workgroup memory.
//! - `prefill_mma`, for many rows where there are cooperative matrices and caches are f16.
//!
//! With up to 8 rows whose K/V fit workgroup memory, the same launch writes the cache; else the write is a launch of its own in
//! front.

use super::*;
use crate::codegen::wgsl::template::each;
use crate::codegen::wgsl::{Wgsl, caps, lanes};
use crate::ops::cache_write::wgsl::{cache, gap, step_kv};
use crate::ops::rope::wgsl::head;
use crate::select::select;
use onetrip_ir::device::ZEROED_WORKSPACE_WORDS;
use onetrip_ir::plan::Rejected;

mod prefill_mma;
pub(super) mod select;
mod tune;

/// The kernel and its launch shape.
#[derive(Clone, Copy)]
enum Form {
    NoSubgroups,
    SplitKv(tune::SplitKv),
    PrefillMma(tune::PrefillMma),
}

/// A site of attention, beside so many bytes of workgroup memory that are not the kernel's own.
struct AttentionSite<'a> {
    op: &'a Attention,
    site: &'a OpSite,
    others: usize,
}

impl AttentionSite<'_> {
    fn fits(&self, bytes: usize) -> bool {
        self.others + bytes + 4 * (2 * self.op.dim + 64) <= caps(self.site.target).workgroup_bytes as usize
    }

    /// The kernel for the site, with the rejections of those before it.
    fn select(&self) -> Result<(Form, Vec<Rejected>), &'static str> {
        select(AttentionSite::CANDIDATES, self.site.bucket, self)
    }
}

impl Form {
    /// `decode_no_subgroups`; none if it does not fit beside what else is in workgroup memory.
    fn no_subgroups(s: &AttentionSite) -> Option<Form> {
        s.fits(4 * (6 * tune::no_subgroups(&caps(s.site.target)) as usize)).then_some(Form::NoSubgroups)
    }
}

pub(super) fn lower(op: &Attention, site: &OpSite) -> Lowering {
    let o = op.operands();
    if let Some(why) = site.ins[o.states..].iter().find_map(gap) {
        return Lowering::Gap(why);
    }
    if op.dim > 4 * tune::no_subgroups(&caps(site.target)) as usize {
        return Lowering::Gap("heads of more than 512 elements have no kernel");
    }
    let rows = if site.bucket == RowBucket::R1 { 1 } else { 8 };
    let bytes = |s: &Sig| s.dtype.row_bytes(op.dim).unwrap_or(0).next_multiple_of(4);
    // This step's K/V, and two vectors to encode.
    let step_bytes = rows * (bytes(&site.ins[o.states]) + bytes(&site.ins[o.states + 1])) + 4 * (3 * op.dim);
    let (form, rejected) = match (AttentionSite { op, site, others: 0 }).select() {
        Ok(chosen) => chosen,
        Err(why) => return Lowering::Gap(why),
    };
    let Some(write) = &op.write else { return one(op, site, 0, form).into_lowering(rejected) };
    let beside_step = AttentionSite { op, site, others: step_bytes };
    if let Some((form, rejected)) = beside_step.select().ok().filter(|_| site.bucket.is_small()) {
        return one(op, site, rows, form).into_lowering(rejected);
    }
    // Two launches: the cache write, then attention, which reads the cache.
    let of_write: Vec<usize> = o.of_write().collect();
    let pick = |of: &[usize]| of.iter().map(|&i| site.ins[i].clone()).collect::<Vec<Sig>>();
    let write_site = OpSite { ins: pick(&of_write), outs: site.outs[1..].to_vec(), ..site.clone() };
    let Lowering::Steps { mut launches, scratch, .. } = write.wgsl(&write_site) else {
        return Lowering::Gap("the cache write in front of attention has no kernel");
    };
    let renamed = |args: &mut [Arg], ins: &[usize], outs: usize| {
        args.iter_mut().for_each(|a| match a {
            Arg::In(i) => *i = ins[*i],
            Arg::Out(i) => *i += outs,
            _ => {}
        })
    };
    launches.iter_mut().for_each(|launch| renamed(&mut launch.args, &of_write, 1));
    let rest = Attention { write: None, ..op.clone() };
    let apart = o.gate.filter(|_| op.gate == Gate::Separate);
    let of_rest: Vec<usize> =
        [0].into_iter().chain(o.q_norm).chain(apart).chain(o.mask).chain([o.states, o.states + 1]).collect();
    let rest_site = OpSite { ins: pick(&of_rest), outs: site.outs[..1].to_vec(), ..site.clone() };
    let mut launch = one(&rest, &rest_site, 0, form).0;
    renamed(&mut launch.args, &of_rest, 0);
    launches.push(launch);
    Lowering::Steps { launches, scratch, rejected }
}

/// One launch that is the whole lowering.
struct One(Launch);

impl One {
    fn into_lowering(self, rejected: Vec<Rejected>) -> Lowering {
        Lowering::Steps { launches: vec![self.0], scratch: vec![], rejected }
    }
}

/// The text of `decode_split_kv` for so many heads.
fn for_each_head(together: usize) -> String {
    let heads: Vec<usize> = (0..together).collect();
    each(include_str!("decode_split_kv.wgsl"), "h", &heads, |_, text| text)
}

/// The launch; `rows` is the most rows of a sequence whose K/V it writes to the cache (0: it does not write).
fn one(op: &Attention, site: &OpSite, rows: usize, of: Form) -> One {
    let o = op.operands();
    let form = if rows > 0 {
        "rope+write"
    } else if op.q_rope.is_some() {
        "rope"
    } else {
        "plain"
    };
    let id = |kernel: &'static str| KernelId::new("attention", kernel).variants(form);
    let (id, workgroup, text) = match of {
        Form::NoSubgroups => {
            let workgroup = tune::no_subgroups(&caps(site.target));
            let id = id("decode_no_subgroups").tuned("workgroup", workgroup);
            (id, workgroup, include_str!("decode_no_subgroups.wgsl").to_string())
        }
        Form::SplitKv(shape) => {
            let id = id("decode_split_kv").tuned("workgroup", shape.workgroup).tuned("heads", shape.together);
            let id = id.tuned("splits", shape.splits).tuned("lanes_per_key", shape.lanes_per_key);
            (id, shape.workgroup, for_each_head(shape.together))
        }
        Form::PrefillMma(shape) => {
            let id = id("prefill_mma").tuned("queries", shape.rows()).tuned("keys", shape.keys);
            (id.tuned("subgroups", shape.subgroups), shape.threads() as u32, String::new())
        }
    };
    let mut w = Wgsl::new(id, workgroup);
    let mut grid = Expr::T * op.heads;
    let mut split = 1;
    if let Form::SplitKv(tune::SplitKv { lanes_per_key, splits, together, .. }) = of {
        w.number("TOGETHER", together);
        let sets = (op.heads / op.kv_heads).div_ceil(together);
        w.number("SETS", sets);
        grid = Expr::T * (op.kv_heads * sets * splits);
        w.number("LANES_PER_KEY", lanes_per_key as usize);
        w.number("EIGHTS", op.dim / 8 / lanes_per_key as usize);
        w.number("SPLITS", splits);
        split = splits;
    }
    w.number("HEADS", op.heads);
    w.number("GROUP", op.heads / op.kv_heads);
    w.number("Q_STRIDE", op.q_stride());
    w.number("WINDOW", op.window.unwrap_or(0) as usize);
    w.number("STEP_ROWS", rows);
    w.float("SCALE", op.scale);
    w.float("SOFTCAP", op.softcap.unwrap_or(0.0));
    w.flag("GATE", op.gate != Gate::None);
    let mut w = w.reductions(&caps(site.target));
    let weight = |i: Option<usize>| i.map(|i| (Arg::In(i), site.ins[i].dtype));
    head(&mut w, "q", op.dim, Arg::In(0), op.q_rope.as_ref(), weight(o.q_norm));
    match op.gate {
        Gate::Separate => w.read("packed", Arg::In(o.gate.unwrap_or(0)), DType::F32),
        _ => w.function("packed_at(i: u32) -> f32", "q_x_at(i)"),
    }
    for (i, name) in ["kc", "vc"].into_iter().enumerate() {
        let arg = if rows > 0 { Arg::Out(1 + i) } else { Arg::In(o.states + i) };
        cache(&mut w, name, arg, &site.ins[o.states + i], rows > 0);
    }
    match &op.write {
        Some(write) if rows > 0 => {
            head(&mut w, "k", op.dim, Arg::In(o.k), write.rope.as_ref(), weight(o.k_norm));
            w.read("v", Arg::In(o.k + 1), DType::F32);
            step_kv(&mut w, "step_k", "kc", rows);
            step_kv(&mut w, "step_v", "vc", rows);
            w.file(include_str!("step_kv.wgsl"));
        }
        _ => {
            w.function("step_kv_start(row: u32, seq: u32) -> u32", "row");
            w.line("fn step_kv_take(row: u32, kv: u32, lid: u32) {}");
            w.line("fn step_kv(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {}");
            w.function("step_key(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
            w.function("step_value(i: u32, four: u32) -> vec4<f32>", "vec4<f32>(0.0)");
            w.function("step_key_eight(i: u32, eight: u32) -> Eight", "Eight()");
            w.function("step_value_eight(i: u32, eight: u32) -> Eight", "Eight()");
        }
    }
    w.write("y", Arg::Out(0));
    if let Form::PrefillMma(shape) = of {
        shape.text(&mut w, op.dim);
        return One(w.launch(shape.grid(op.heads), op.cost(site)));
    }
    if matches!(of, Form::SplitKv(_)) {
        w.file(include_str!("rotated.wgsl"));
    }
    if split > 1 {
        w.split_k_workspace();
        w.file(include_str!("combine_splits.wgsl"));
    } else if matches!(of, Form::SplitKv(_)) {
        w.function("combine_splits(which: u32, split: u32, n: u32, lid: u32) -> bool", "true");
        w.function("combined(which: u32, h: u32, d: u32, n: u32) -> f32", "0.0");
    }
    One(w.text(&text).launch(grid, op.cost(site)))
}
