//! L2 norm in WGSL.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

pub(super) fn lower(op: &L2Norm, site: &OpSite) -> Lowering {
    let (width, rows) = (site.outs[0].width, &site.outs[0].rows);
    let mut w = Wgsl::new("l2_norm/rows", 64);
    w.number("DIM", op.dim);
    w.number("GROUPS", width / op.dim);
    w.float("EPS", op.eps);
    w.size("rows", rows);
    w.read_view("x", Arg::In(0), &op.view, site.ins[0].width, width);
    w.write("y", Arg::Out(0));
    let w = w.reductions(&caps(site.target)).text(include_str!("l2_norm.wgsl"));
    w.lowering(rows.clone() * (width / op.dim), op.cost(site))
}
