//! Gathering rows in CUDA: one block per row.

use super::*;
use crate::codegen::cuda::Unit;

pub(super) fn lower(op: &GatherRows, site: &OpSite) -> Lowering {
    let mut unit = Unit::new(256);
    unit.batch();
    let mut copies = String::new();
    for (i, out) in site.outs.iter().enumerate() {
        unit.read(&format!("IN{i}"), "float", Arg::In(i)).write(&format!("OUT{i}"), "float", Arg::Out(i));
        let width = out.width;
        copies += &format!(
            "for (u32 i = threadIdx.x; i < {width}u; i += THREADS) OUT{i}[(size_t)row * {width}u + i] = IN{i}[from * {width}u + i];\n"
        );
    }
    unit.code("ROW_COPIES", &copies).part(include_str!("gather_rows.cu"));
    unit.lower("gather_rows/copy", Expr::S, op.cost(site))
}
