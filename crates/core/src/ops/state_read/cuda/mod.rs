//! Reading a recurrent state in CUDA: one block per sequence.

use super::*;
use crate::codegen::cuda::Unit;

pub(super) fn lower(op: &StateRead, site: &OpSite) -> Lowering {
    let mut unit = Unit::new(256);
    unit.batch().rows(&op.rows).set("WIDTH", site.outs[0].width);
    unit.read("STATE", "float", Arg::In(0)).write("OUT", "float", Arg::Out(0)).part(include_str!("state_read.cu"));
    unit.lower("state_read/copy", op.rows.clone(), op.cost(site))
}
