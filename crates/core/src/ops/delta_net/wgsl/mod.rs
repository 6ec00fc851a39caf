//! The gated delta rule in WGSL: token by token, one workgroup per key head of a sequence.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

/// Threads of a workgroup.
const WG: u32 = 256;

pub(super) fn lower(op: &DeltaNet, site: &OpSite) -> Lowering {
    if op.v_dim > WG as usize || op.k_dim > 256 {
        return Lowering::Gap("heads of more than 256 elements have no kernel");
    }
    let o = op.operands();
    let float = |i: usize| site.ins[i].dtype.is_float();
    if !(0..o.conv_state).all(float) {
        return Lowering::Gap("a quantized filter or norm weight has no kernel");
    }
    let conv = match op.front {
        Front::Conv { taps, eps } => Some((taps, eps)),
        _ => None,
    };
    let form = match (conv, op.norm) {
        (Some(_), Some(_)) => "conv+norm",
        (Some(_), None) => "conv",
        (None, Some(_)) => "norm",
        (None, None) => "plain",
    };
    let mut w = Wgsl::new(KernelId::new("delta_net", "rows").variants(form), WG);
    w.number("K_HEADS", op.k_heads);
    w.number("V_HEADS", op.v_heads);
    w.number("K_DIM", op.k_dim);
    w.number("V_DIM", op.v_dim);
    w.number("HEADS_EACH", op.v_heads / op.k_heads);
    w.float("SCALE", op.scale);
    w.flag("FRONT", conv.is_some());
    w.flag("NORM", op.norm.is_some());
    w.float("NORM_EPS", op.norm.unwrap_or(0.0));
    w.float("L2_EPS", conv.map_or(0.0, |(_, eps)| eps));
    let mut w = w.reductions(&caps(site.target));
    let read = |w: &mut Wgsl, name: &str, i: usize| w.read(name, Arg::In(i), site.ins[i].dtype);
    read(&mut w, "g", o.g);
    read(&mut w, "beta", o.g + 1);
    let normed = |i: usize| op.norm.map(|_| (Arg::In(i), site.ins[i].dtype));
    w.read_or("norm", normed(o.norm), 1.0);
    w.read_or("gate", normed(o.norm + 1), 1.0);
    let states = conv.is_some() as usize;
    if let Some((taps, _)) = conv {
        read(&mut w, "x", 0);
        read(&mut w, "w", 1);
        w.bind("conv_state", "f32", Arg::Out(1), Access::ReadWrite);
        w.number("TAPS", taps);
        w.number("CHANNELS", 2 * op.k_width() + op.v_width());
        w.file(include_str!("front.wgsl"));
    } else {
        ["q", "k", "v"].iter().enumerate().for_each(|(i, name)| read(&mut w, name, i));
        let packed = op.front == Front::Packed;
        w.number("V_STRIDE", op.v_width() + if packed { 2 * op.k_width() } else { 0 });
        w.number("V_START", if packed { 2 * op.k_width() } else { 0 });
        w.file(include_str!("plain.wgsl"));
    }
    let in_place = site.ins[o.state].is_state();
    w.flag("IN_PLACE", in_place);
    if in_place {
        w.bind("state", "f32", Arg::Out(1 + states), Access::ReadWrite);
        w.function("state_at(i: u32) -> f32", "state[i]");
    } else {
        w.read("state_old", Arg::In(o.state), DType::F32);
        w.function("state_at(i: u32) -> f32", "state_old_at(i)");
        w.write("state", Arg::Out(1 + states));
    }
    w.line("fn put_state(i: u32, x: f32) { state[i] = x; }");
    w.write("y", Arg::Out(0));
    w.text(include_str!("recurrent.wgsl")).lowering(Expr::S * op.k_heads, op.cost(site))
}
