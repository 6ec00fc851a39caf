//! Elementwise expressions in WGSL: one function that is the tree.

use super::*;
use crate::codegen::wgsl;
use crate::codegen::wgsl::Wgsl;

pub(super) fn lower(op: &Elementwise, site: &OpSite) -> Lowering {
    if site.ins.iter().any(|s| !s.dtype.is_float()) {
        return Lowering::Gap("elementwise operands in blocks have no kernel");
    }
    let mut w = Wgsl::new("elementwise/per_element", 128);
    for (i, sig) in site.ins.iter().enumerate() {
        w.read(&format!("a{i}"), Arg::In(i), sig.dtype);
    }
    let operand = |i: usize| {
        let sig = &site.ins[i];
        let (row, column) = (sig.rows.constant() == Some(1), sig.width == site.outs[0].width);
        let column = if column { "c".into() } else { format!("c % {}u", sig.width) };
        if row { format!("a{i}_at({column})") } else { format!("a{i}_at(r * {}u + {column})", sig.width) }
    };
    w.function("value(r: u32, c: u32) -> f32", &wgsl::tree(&op.tree, &operand));
    w.per_element(site, op.cost(site))
}
