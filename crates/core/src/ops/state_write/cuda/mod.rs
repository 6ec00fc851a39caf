//! Writing a recurrent state in CUDA: one block per sequence.

use super::*;
use crate::codegen::cuda::Unit;

pub(super) fn lower(op: &StateWrite, site: &OpSite) -> Lowering {
    let rows = if op.window.is_some() { Expr::S } else { site.ins[0].rows.clone() };
    let mut unit = Unit::new(256);
    unit.batch().rows(&rows).set("WIDTH", site.ins[1].width).set("X_WIDTH", site.ins[0].width);
    unit.set("KEPT", op.window.unwrap_or(0)).read("X_IN", "float", Arg::In(0)).update("STATE", "float", Arg::In(1));
    unit.part(include_str!("state_write.cu"));
    unit.lower("state_write/copy", rows, op.cost(site))
}
