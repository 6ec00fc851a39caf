//! Gathered rows in WGSL.

use super::*;
use crate::codegen::wgsl::Wgsl;

pub(super) fn lower(op: &GatherRows, site: &OpSite) -> Lowering {
    let mut w = Wgsl::new("gather_rows/copy", 128);
    let mut put = String::new();
    let mut end = 0;
    for (i, sig) in site.outs.iter().enumerate() {
        let (from, width) = (end, sig.width);
        end += width;
        w.read(&format!("x{i}"), Arg::In(i), site.ins[i].dtype);
        w.write(&format!("y{i}"), Arg::Out(i));
        let otherwise = if i > 0 { "else " } else { "" };
        let value = format!("x{i}_at(batch_logit_row(r) * {width}u + c - {from}u)");
        put += &format!("    {otherwise}if c < {end}u {{ y{i}[r * {width}u + c - {from}u] = {value}; }}\n");
    }
    w.line(format!("fn put(r: u32, c: u32) {{\n{put}}}"));
    w.per_element_put(&Expr::S, end, op.cost(site))
}
