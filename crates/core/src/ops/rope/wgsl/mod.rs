//! Norm and rotary embedding of heads in WGSL, alone and inside other kernels.

use super::*;
use crate::codegen::wgsl::template::renamed;
use crate::codegen::wgsl::{Wgsl, caps};

/// Declares functions under `name` that read heads from rows of `x`, normed and rotated as `rope` says. They need the
/// workgroup reductions, which the caller declares before.
pub(crate) fn head(w: &mut Wgsl, name: &str, dim: usize, x: Arg, rope: Option<&Rope>, norm: Option<(Arg, DType)>) {
    w.read(&format!("{name}_x"), x, DType::F32);
    rotation(w, name, dim, rope, norm);
}

/// As [`head`], if the caller has declared `{name}_x_at`.
fn rotation(w: &mut Wgsl, name: &str, dim: usize, rope: Option<&Rope>, norm: Option<(Arg, DType)>) {
    let norm = norm.filter(|_| rope.is_some_and(|r| r.norm.is_some()));
    w.read_or(&format!("{name}_norm"), norm, 1.0);
    w.number(&format!("{name}_DIM"), dim);
    w.flag(&format!("{name}_NORM"), norm.is_some());
    w.float(&format!("{name}_EPS"), rope.and_then(|r| r.norm).unwrap_or(0.0));
    w.number(&format!("{name}_PAIRS"), rope.map_or(0, |r| r.pairs));
    w.flag(&format!("{name}_NEOX"), rope.is_some_and(|r| r.neox));
    w.number(&format!("{name}_TABLE"), rope.map_or(0, |r| r.table));
    w.file(&renamed(include_str!("head.wgsl"), "q", name));
}

pub(super) fn lower(op: &Rope, site: &OpSite) -> Lowering {
    let mut w = Wgsl::new(if op.norm.is_some() { "rope/norm" } else { "rope/plain" }, 64);
    w.number("HEADS", op.heads);
    w.size("rows", &site.ins[0].rows);
    let mut w = w.reductions(&caps(site.target));
    let norm = op.norm.map(|_| (Arg::In(1), site.ins[1].dtype));
    w.read_view("x_x", Arg::In(0), &op.view, site.ins[0].width, site.outs[0].width);
    rotation(&mut w, "x", op.dim, Some(op), norm);
    w.write("y", Arg::Out(0));
    w.text(include_str!("rope.wgsl")).lowering(site.ins[0].rows.clone() * op.heads, op.cost(site))
}
