//! The causal convolution in WGSL.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

pub(super) fn lower(op: &Conv, site: &OpSite) -> Lowering {
    if !site.ins[1].dtype.is_float() {
        return Lowering::Gap("a quantized filter has no kernel");
    }
    const WG: u32 = 128;
    if op.heads.as_ref().is_some_and(|h| h.dim > WG as usize) {
        return Lowering::Gap("heads of more than 128 elements have no kernel");
    }
    let channels = site.ins[0].width;
    let (in_place, heads) = (site.ins.len() == 3, op.heads.as_ref());
    let mut w = Wgsl::new(if heads.is_some() { "conv/heads" } else { "conv/channels" }, WG);
    w.number("TAPS", op.taps);
    w.number("CHANNELS", channels);
    w.flag("IN_PLACE", in_place);
    w.flag("HEADS", heads.is_some());
    let keys = heads.map_or(0, |h| h.keys);
    w.number("KEYS", keys);
    w.number("DIM", heads.map_or(1, |h| h.dim));
    w.float("EPS", heads.map_or(0.0, |h| h.eps));
    w.read("x", Arg::In(0), site.ins[0].dtype);
    w.read("w", Arg::In(1), site.ins[1].dtype);
    for i in 0..if heads.is_some() { 3 } else { 1 } {
        w.write(&format!("y{i}"), Arg::Out(i));
    }
    let values = channels - 2 * keys;
    if heads.is_some() {
        w.line("fn put(row: u32, c: u32, y: f32) {");
        w.line("    if c < KEYS { y0[row * KEYS + c] = y; }");
        w.line("    else if c < 2u * KEYS { y1[row * KEYS + c - KEYS] = y; }");
        w.line(format!("    else {{ y2[row * {values}u + c - 2u * KEYS] = y; }}\n}}"));
    } else {
        w.line("fn put(row: u32, c: u32, y: f32) { y0[row * CHANNELS + c] = y; }");
    }
    match in_place {
        true => {
            w.bind("state", "f32", Arg::Out(site.outs.len() - 1), Access::ReadWrite);
            w.function("state_at(i: u32) -> f32", "state[i]");
            w.line("fn put_state(i: u32, x: f32) { state[i] = x; }");
        }
        false => {
            w.function("state_at(i: u32) -> f32", "0.0");
            w.line("fn put_state(i: u32, x: f32) {}");
        }
    }
    let blocks = heads.map_or(0, |h| 2 * h.keys / h.dim) + values.div_ceil(WG as usize);
    w.number("BLOCKS", blocks);
    let w = w.reductions(&caps(site.target)).text(include_str!("conv.wgsl"));
    w.lowering(Expr::S * blocks, op.cost(site))
}
