//! Gathering rows in CUDA: one block per row.

use super::*;
use crate::codegen::cuda::Unit;

/// Value number I: its width and its memory.
const VALUE: &str = "template <int I> struct Value;\n";

pub(super) fn lower(op: &GatherRows, site: &OpSite) -> Lowering {
    let mut unit = Unit::new(256);
    unit.batch();
    let mut values = format!("#define VALUES {}\n{VALUE}", site.outs.len());
    for (i, out) in site.outs.iter().enumerate() {
        unit.read(&format!("IN{i}"), "float", Arg::In(i)).write(&format!("OUT{i}"), "float", Arg::Out(i));
        values += &format!(
            "template <> struct Value<{i}> {{\nstatic constexpr u32 WIDTH = {};\n\
             DEVICE static const float* in(const Args& A) {{ return IN{i}; }}\n\
             DEVICE static float* out(const Args& A) {{ return OUT{i}; }}\n}};\n",
            out.width
        );
    }
    unit.part(&values).part(include_str!("gather_rows.cu"));
    unit.lower("gather_rows/copy", Expr::S, op.cost(site))
}
