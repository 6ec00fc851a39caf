//! Elementwise ops in CUDA: the tree is one C++ expression, and each thread computes one element.

use super::*;
use crate::codegen::cuda::{Unit, groups, tree};
use onetrip_ir::formats::DType;

pub(super) fn lower(op: &Elementwise, site: &OpSite) -> Lowering {
    if site.ins.iter().any(|s| s.dtype != DType::F32) {
        return Lowering::Gap("elementwise operands that are not f32 have no CUDA kernel");
    }
    let out = &site.outs[0];
    let mut unit = Unit::new(256);
    unit.batch().rows(&out.rows).set("WIDTH", out.width);
    for i in 0..site.ins.len() {
        unit.read(&format!("IN{i}"), "float", Arg::In(i));
    }
    let leaf = |i: usize| {
        let sig = &site.ins[i];
        let column = if sig.width == out.width { "c".to_string() } else { format!("c % {}u", sig.width) };
        match sig.rows.constant() {
            Some(1) => format!("IN{i}[{column}]"),
            _ => format!("IN{i}[(size_t)r * {}u + {column}]", sig.width),
        }
    };
    unit.set("TREE", tree(&op.tree, &leaf)).write("OUT", "float", Arg::Out(0)).part(include_str!("elementwise.cu"));
    unit.lower("elementwise/per_element", groups(&out.rows, out.width, 256), op.cost(site))
}
