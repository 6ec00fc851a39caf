//! Norms in CUDA: a warp a group, or a block where groups are long.

use super::*;
use crate::cuda::{Unit, groups};

pub(super) fn lower(op: &RmsNorm, site: &Site) -> Lowering {
    if site.ins.iter().any(|s| s.dtype != DType::F32) {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    let mut unit = norm_unit(site, op.group(site.outs[0].width), op.eps, false);
    unit.set("HAS_WEIGHT", op.weight as u8).set("HAS_RESIDUAL", op.residual as u8);
    let none = "((const float*)0)";
    match op.weight {
        true => unit.read("WEIGHT", "float", Arg::In(1)),
        false => unit.set("WEIGHT", none),
    };
    match op.residual {
        true => unit.read("RESIDUAL", "float", Arg::In(1 + op.weight as usize)),
        false => unit.set("RESIDUAL", none),
    };
    finish(unit, "rms_norm", site, op.group(site.outs[0].width), op.cost(site))
}

/// A unit of the norm kernel with what both norms set: x is read, groups of `dim` numbers.
pub(crate) fn norm_unit(site: &Site, dim: usize, eps: f32, l2: bool) -> Unit {
    let mut unit = Unit::new(256);
    unit.batch().rows(&site.outs[0].rows).set("DIM", dim).set("PER_ROW", site.outs[0].width / dim);
    unit.set("TEAM", team(dim)).set_f32("EPS", eps).set("L2_NORM", l2 as u8).read("X_IN", "float", Arg::In(0));
    unit
}

fn team(dim: usize) -> usize {
    if dim > 512 { 256 } else { 32 }
}

/// The rest of it.
pub(crate) fn finish(mut unit: Unit, name: &str, site: &Site, dim: usize, cost: Cost) -> Lowering {
    let form = if team(dim) == 32 { "warps" } else { "blocks" };
    unit.write("OUT", "float", Arg::Out(0)).part(include_str!("kernel.cu"));
    let out = &site.outs[0];
    unit.lower(format!("{name}/{form}"), groups(&out.rows, out.width / dim, 256 / team(dim)), cost)
}
