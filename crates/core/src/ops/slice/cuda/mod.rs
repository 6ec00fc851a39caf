//! Slices in CUDA: one element per thread.

use super::*;
use crate::codegen::cuda::{Unit, groups};

pub(super) fn lower(op: &Slice, site: &OpSite) -> Lowering {
    let out = &site.outs[0];
    let mut unit = Unit::new(256);
    unit.batch().rows(&out.rows).set("WIDTH", out.width).read("X_IN", "float", Arg::In(0));
    unit.set("GROUP", op.group).set("START", op.start).set("LEN", op.len);
    unit.write("OUT", "float", Arg::Out(0)).part(include_str!("slice.cu"));
    unit.lower("slice/copy", groups(&out.rows, out.width, 256), op.cost(site))
}
