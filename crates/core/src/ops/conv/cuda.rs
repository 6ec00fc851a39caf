//! The convolution in CUDA: a thread per sequence and channel.

use super::*;
use crate::cuda::{CONV, Unit};

pub(super) fn lower(op: &Conv, site: &Site) -> Lowering {
    if !matches!(site.ins[1].dtype, DType::F32 | DType::F16) {
        return Lowering::Gap("filters that are neither f32 nor f16 have no CUDA kernel");
    }
    let channels = site.ins[0].width;
    let blocks = channels.div_ceil(128);
    let mut unit = Unit::new(128);
    unit.batch().read("X_IN", "float", Arg::In(0)).read("FILTER", "u8", Arg::In(1));
    unit.update("STATE", "float", Arg::In(2)).write("OUT", "float", Arg::Out(0));
    unit.set("TAPS", op.taps).set("CHANNELS", channels).set("BLOCKS", blocks);
    unit.set("HALF_FILTER", site.ins[1].dtype == DType::F16);
    unit.part(CONV).part(include_str!("kernel.cu"));
    unit.lower("conv/channels", Expr::S * blocks, op.cost(site))
}
