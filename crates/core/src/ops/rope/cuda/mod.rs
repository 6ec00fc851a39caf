//! Rotary position embedding in CUDA: one warp for each head.

use super::*;
use crate::codegen::cuda::{HEADS, Unit, groups};

pub(super) fn lower(op: &Rope, site: &OpSite) -> Lowering {
    if op.norm.is_some() && site.ins[1].dtype != DType::F32 {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    let mut unit = Unit::new(128);
    unit.batch().read("X_IN", "float", Arg::In(0)).set("HEADS", op.heads).set("DIM", op.dim);
    unit.view_of(&op.view, site.ins[0].width);
    set_rope(&mut unit, "", Some(op), Some(Arg::In(1)));
    unit.write("OUT", "float", Arg::Out(0)).part(HEADS).part(include_str!("rope.cu"));
    let kernel = if op.norm.is_some() { "rope/norm" } else { "rope/plain" };
    unit.lower(kernel, groups(&Expr::T, op.heads, 4), op.cost(site))
}

/// Sets the constants of a rotation (or of none) under names that begin with `prefix`, and reads the norm's weight if
/// there is a norm.
pub(crate) fn set_rope(unit: &mut Unit, prefix: &str, rope: Option<&Rope>, weight: Option<Arg>) {
    let norm = rope.and_then(|r| r.norm);
    unit.set(&format!("{prefix}PAIRS"), rope.map_or(0, |r| r.pairs));
    unit.set(&format!("{prefix}NEOX"), rope.is_some_and(|r| r.neox));
    unit.set(&format!("{prefix}TABLE"), rope.map_or(0, |r| r.table));
    unit.set_f32(&format!("{prefix}NORM_EPS"), norm.unwrap_or(0.0));
    let name = format!("{prefix}NORM_WEIGHT");
    match (norm, weight) {
        (Some(_), Some(arg)) => unit.read(&name, "float", arg),
        _ => unit.set(&name, "((const float*)0)"),
    };
}
