//! Embedding rows in CUDA: one thread block for each token.

use super::*;
use crate::codegen::cuda::{Unit, WEIGHTS};

pub(super) fn lower(op: &Embed, site: &OpSite) -> Lowering {
    let table = &site.ins[0];
    let mut unit = Unit::new(512);
    unit.batch().read("PENDING_TOKENS", "u32", Arg::PendingTokens).set("K", table.width).set_f32("SCALE", op.scale);
    unit.set("VOCABULARY", table.rows.constant().unwrap_or(0));
    if !unit.weight("TABLE_WEIGHT", Arg::In(0), table, false) {
        return Lowering::Gap("a table of this type and layout has no CUDA kernel");
    }
    unit.write("OUT", "float", Arg::Out(0)).part(WEIGHTS).part(include_str!("embed.cu"));
    unit.lower("embed/rows", Expr::T, op.cost(site))
}
