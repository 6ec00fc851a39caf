//! A convolution's window in CUDA: a block per row of the window.

use super::*;
use crate::codegen::cuda::Unit;

pub(super) fn lower(op: &Window, site: &OpSite) -> Lowering {
    let mut unit = Unit::new(256);
    unit.batch().set("WIDTH", site.ins[1].width).set("KEPT", op.rows);
    unit.set("IN_PLACE", site.ins[0].is_state() as u8).read("OLD", "float", Arg::In(0));
    unit.read("X_IN", "float", Arg::In(1)).write("OUT", "float", Arg::Out(0)).part(include_str!("window.cu"));
    unit.lower("window/copy", op.all_rows(), op.cost(site))
}
