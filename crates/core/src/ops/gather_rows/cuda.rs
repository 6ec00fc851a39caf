//! Rows of logits in CUDA: a block a row.

use super::*;
use crate::cuda::Unit;

pub(super) fn lower(op: &GatherRows, site: &Site) -> Lowering {
    let mut unit = Unit::new(256);
    unit.batch().read("X_IN", "float", Arg::In(0)).set("WIDTH", site.outs[0].width);
    unit.write("OUT", "float", Arg::Out(0)).part(include_str!("kernel.cu"));
    unit.lower("gather_rows/copy", Expr::S, op.cost(site))
}
