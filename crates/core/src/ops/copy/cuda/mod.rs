//! Copies in CUDA between f32 and f16: one element per thread.

use super::*;
use crate::codegen::cuda::{Unit, groups};

pub(super) fn lower(op: &Copy, site: &OpSite) -> Lowering {
    let kind = |dtype: DType| match dtype {
        DType::F32 => Some("float"),
        DType::F16 => Some("u16"),
        _ => None,
    };
    let (Some(from), Some(to)) = (kind(site.ins[0].dtype), kind(op.dtype)) else {
        return Lowering::Gap("copies between types other than f32 and f16 have no CUDA kernel");
    };
    let out = &site.outs[0];
    let mut unit = Unit::new(256);
    unit.batch().rows(&out.rows).set("WIDTH", out.width).read("IN", from, Arg::In(0)).write("OUT", to, Arg::Out(0));
    let wide = if from == "u16" { "from_f16(IN[i])" } else { "IN[i]" };
    let value = if to == "u16" { format!("to_f16({wide})") } else { wide.into() };
    unit.set("VALUE", value).part(include_str!("copy.cu"));
    unit.lower("copy/per_element", groups(&out.rows, out.width, 256), op.cost(site))
}
