//! Convolution in CUDA: one thread for each sequence and channel; with heads, one thread block for each sequence and head.

use super::*;
use crate::codegen::cuda::{CONV, Unit};

/// Threads of a thread block.
const THREADS: usize = 128;

pub(super) fn lower(op: &Conv, site: &OpSite) -> Lowering {
    if !matches!(site.ins[1].dtype, DType::F32 | DType::F16) {
        return Lowering::Gap("filters that are neither f32 nor f16 have no CUDA kernel");
    }
    let channels = site.ins[0].width;
    let mut unit = Unit::new(THREADS as u32);
    unit.batch().read("X_IN", "float", Arg::In(0)).read("FILTER", "u8", Arg::In(1));
    unit.set("TAPS", op.taps).set("CHANNELS", channels).set("HALF_FILTER", site.ins[1].dtype == DType::F16);
    let is_window = site.ins.len() == 2;
    if !is_window {
        unit.update("STATE", "float", Arg::In(2));
    }
    if let Some(heads) = &op.heads {
        let blocks = 2 * heads.keys / heads.dim + heads.values.div_ceil(THREADS);
        unit.set("KEYS", heads.keys).set("VALUES", heads.values).set("DIM", heads.dim).set_f32("EPS", heads.eps);
        for (i, name) in ["Q_OUT", "K_OUT", "V_OUT"].iter().enumerate() {
            unit.write(name, "float", Arg::Out(i));
        }
        unit.set("BLOCKS", blocks).part(CONV).part(include_str!("heads.cu"));
        return unit.lower("conv/heads", Expr::S * blocks, op.cost(site));
    }
    let blocks = channels.div_ceil(THREADS);
    unit.set("WINDOW", is_window as u8).set("BLOCKS", blocks).write("OUT", "float", Arg::Out(0));
    unit.part(CONV).part(include_str!("conv.cu"));
    unit.lower("conv/channels", Expr::S * blocks, op.cost(site))
}
