//! Columns of rows in WGSL.

use super::*;
use crate::codegen::wgsl::Wgsl;

pub(super) fn lower(op: &Slice, site: &OpSite) -> Lowering {
    let Slice { group, start, len } = *op;
    let mut w = Wgsl::new("slice/copy", 128);
    w.read("x", Arg::In(0), site.ins[0].dtype);
    let at = format!("x_at(r * {}u + c / {len}u * {group}u + {start}u + c % {len}u)", site.ins[0].width);
    w.function("value(r: u32, c: u32) -> f32", &at);
    w.per_element(site, op.cost(site))
}
