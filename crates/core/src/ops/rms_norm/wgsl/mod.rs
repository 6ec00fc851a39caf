//! The root-mean-square norm in WGSL.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

pub(super) fn lower(op: &RmsNorm, site: &OpSite) -> Lowering {
    if site.ins.iter().any(|s| !s.dtype.is_float()) {
        return Lowering::Gap("a quantized norm weight has no kernel");
    }
    let (width, rows) = (site.outs[0].width, &site.outs[0].rows);
    let dim = op.group(width);
    let kernel = match op.with {
        With::Residual => "rms_norm/residual",
        With::Gate => "rms_norm/gate",
        With::Sum => "rms_norm/sum",
        With::Nothing if op.weight => "rms_norm/weight",
        With::Nothing => "rms_norm/plain",
    };
    let mut w = Wgsl::new(kernel, if dim > 512 { 256 } else { 64 });
    w.number("DIM", dim);
    w.number("GROUPS", width / dim);
    w.float("EPS", op.eps);
    w.size("rows", rows);
    let is_sum = op.with == With::Sum;
    w.read_view(if is_sum { "a" } else { "x" }, Arg::In(0), &op.view, site.ins[0].width, width);
    w.read_or("weight", op.weight.then(|| (Arg::In(1), site.ins[1].dtype)), 1.0);
    if op.with != With::Nothing {
        let i = 1 + op.weight as usize;
        w.read("other", Arg::In(i), site.ins[i].dtype);
    }
    let finish = match op.with {
        With::Residual => "y + other_at(i)",
        With::Gate => "y * silu(other_at(i))",
        With::Sum | With::Nothing => "y",
    };
    w.function("finish(y: f32, i: u32) -> f32", finish);
    if is_sum {
        w.function("x_at(i: u32) -> f32", "a_at(i) + other_at(i)");
        w.write("sum_", Arg::Out(0));
    }
    w.line(format!("fn put_sum(i: u32, x: f32) {{ {} }}", if is_sum { "sum_[i] = x;" } else { "" }));
    w.write("y", Arg::Out(is_sum as usize));
    let w = w.reductions(&caps(site.target)).text(include_str!("rms_norm.wgsl"));
    w.lowering(rows.clone() * (width / dim), op.cost(site))
}
