//! The convolution in CUDA: a thread per sequence and channel; what follows in the fused form is a step of its own.

use super::*;
use crate::cuda::{CONV, Unit, groups};

pub(super) fn lower(op: &Conv, site: &Site) -> Lowering {
    if !matches!(site.ins[1].dtype, DType::F32 | DType::F16) {
        return Lowering::Gap("filters that are neither f32 nor f16 have no CUDA kernel");
    }
    let channels = site.ins[0].width;
    let blocks = channels.div_ceil(128);
    let mut unit = Unit::new(128);
    unit.batch().read("X_IN", "float", Arg::In(0)).read("FILTER", "u8", Arg::In(1));
    let is_window = site.ins.len() == 2;
    unit.set("WINDOW", is_window as u8).set("SILU", op.heads.is_some() as u8);
    if !is_window {
        unit.update("STATE", "float", Arg::In(2));
    }
    let made = if op.heads.is_some() { Arg::Scratch(0) } else { Arg::Out(0) };
    unit.write("OUT", "float", made);
    unit.set("TAPS", op.taps).set("CHANNELS", channels).set("BLOCKS", blocks);
    unit.set("HALF_FILTER", site.ins[1].dtype == DType::F16);
    unit.part(CONV).part(include_str!("kernel.cu"));
    let grid = Expr::S * blocks;
    let Some(heads) = &op.heads else { return unit.lower("conv/channels", grid, op.cost(site)) };
    let joint = Expr::T * (4 * channels);
    let mut cost = op.cost(site);
    cost.written = cost.written + joint.clone();
    let first = unit.step("conv/silu", grid, cost);
    let mut unit = Unit::new(128);
    unit.batch().read("JOINT", "float", Arg::Scratch(0));
    unit.set("KEYS", heads.keys).set("VALUES", heads.values).set("DIM", heads.dim).set_f32("EPS", heads.eps);
    for (i, name) in ["Q_OUT", "K_OUT", "V_OUT"].iter().enumerate() {
        unit.write(name, "float", Arg::Out(i));
    }
    unit.part(include_str!("heads.cu"));
    let items = 2 * heads.keys / heads.dim + heads.values.div_ceil(32);
    let cost = Cost::of(joint.clone(), joint.clone(), Expr::T * (6 * heads.keys));
    let second = unit.step("conv/heads", groups(&Expr::T, items, 4), cost);
    Lowering::Steps { steps: vec![first, second], scratch: vec![joint] }
}
