//! Norms in CUDA: one warp for each group, or one thread block where groups have more than 512 elements.

use super::*;
use crate::codegen::cuda::{Unit, groups};

pub(super) fn lower(op: &RmsNorm, site: &OpSite) -> Lowering {
    if site.ins.iter().any(|s| s.dtype != DType::F32) {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    let norm = Norm { site, dim: op.group(site.outs[0].width), eps: op.eps, l2: false, view: &op.view };
    norm.lower(op.weight, op.with, op.cost(site))
}

/// A norm over groups of `dim` elements: root mean square, or L2.
pub(crate) struct Norm<'a> {
    pub site: &'a OpSite,
    pub dim: usize,
    pub eps: f32,
    pub l2: bool,
    pub view: &'a Option<Slice>,
}

impl Norm<'_> {
    /// The lowering of the norm, with or without a weight, and with the second value that `with` names.
    pub(crate) fn lower(&self, weight: bool, with: With, cost: Cost) -> Lowering {
        let out = &self.site.outs[0];
        let row_threads = if self.dim > 512 { 256 } else { 32 };
        let mut unit = Unit::new(256);
        unit.batch()
            .rows(&out.rows)
            .set("DIM", self.dim)
            .set("PER_ROW", out.width / self.dim)
            .set("ROW_THREADS", row_threads);
        unit.set_f32("EPS", self.eps).set("L2_NORM", self.l2 as u8).read("X_IN", "float", Arg::In(0));
        unit.view_of(self.view, self.site.ins[0].width).set("HAS_WEIGHT", weight as u8);
        let none = "((const float*)0)";
        match weight {
            true => unit.read("WEIGHT", "float", Arg::In(1)),
            false => unit.set("WEIGHT", none),
        };
        match with {
            With::Nothing => unit.set("OTHER", none),
            _ => unit.read("OTHER", "float", Arg::In(1 + weight as usize)),
        };
        let (kind, form) = match with {
            With::Nothing => (0, ""),
            With::Residual => (1, "residual"),
            With::Gate => (2, "gate"),
            With::Sum => (3, "sum"),
        };
        unit.set("WITH", kind);
        match with {
            With::Sum => unit.write("SUM_OUT", "float", Arg::Out(0)).write("OUT", "float", Arg::Out(1)),
            _ => unit.set("SUM_OUT", "((float*)0)").write("OUT", "float", Arg::Out(0)),
        };
        unit.part(include_str!("rms_norm.cu"));
        let name = if self.l2 { "l2_norm" } else { "rms_norm" };
        let by = if row_threads == 32 { "warps" } else { "blocks" };
        let id = KernelId::new(name, by);
        let id = if form.is_empty() { id } else { id.variant(form) };
        unit.lower(id, groups(&out.rows, out.width / self.dim, 256 / row_threads), cost)
    }
}
