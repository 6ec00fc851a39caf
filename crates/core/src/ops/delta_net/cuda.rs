//! The gated delta rule in CUDA: a block per sequence, value head and 32 columns of its state. With more than a few rows
//! the norm over a head is a step of its own.

use super::*;
use crate::cuda::{CONV, Unit, groups};

/// Columns of a block.
const COLUMNS: usize = 32;

pub(super) fn lower(op: &DeltaNet, site: &Site) -> Lowering {
    let o = op.operands();
    let has_conv = matches!(op.front, Front::Conv { .. });
    let floats = (0..o.count).filter(|&i| !(has_conv && i == 1));
    if floats.into_iter().any(|i| site.ins[i].dtype != DType::F32) {
        return Lowering::Gap("operands of the delta rule that are not f32 have no CUDA kernel");
    }
    if op.k_dim > 256 {
        return Lowering::Gap("key heads of more than 256 numbers have no CUDA kernel");
    }
    if has_conv && !matches!(site.ins[1].dtype, DType::F32 | DType::F16) {
        return Lowering::Gap("filters that are neither f32 nor f16 have no CUDA kernel");
    }
    let finish = op.norm.is_some() && site.class.is_small();
    let tokens = if site.class.is_small() { 8 } else { 16 };
    let mut unit = Unit::new(128);
    unit.batch().set("K_HEADS", op.k_heads).set("V_HEADS", op.v_heads).set("KD", op.k_dim).set("VD", op.v_dim);
    unit.set_f32("SCALE", op.scale).set("TOKENS", tokens).set("FRONT", has_conv as u8);
    match &op.front {
        Front::Conv { taps, eps } => {
            unit.read("X_IN", "float", Arg::In(0)).read("FILTER", "u8", Arg::In(1));
            unit.update("CONV_STATE", "float", Arg::In(o.conv_state));
            unit.set("TAPS", taps).set_f32("L2_EPS", *eps);
            unit.set("HALF_FILTER", site.ins[1].dtype == DType::F16);
        }
        front => {
            ["Q_IN", "K_IN", "V_IN"].iter().enumerate().for_each(|(i, name)| {
                unit.read(name, "float", Arg::In(i));
            });
            let start = if *front == Front::Joint { 2 * op.k_width() } else { 0 };
            unit.set_f32("L2_EPS", 0.0).set("V_START", start).set("V_STRIDE", site.ins[2].width);
        }
    }
    unit.read("DECAY", "float", Arg::In(o.g)).read("BETA", "float", Arg::In(o.g + 1));
    match site.ins[o.state].is_state() {
        true => unit.set("IN_PLACE", 1).update("STATE", "float", Arg::In(o.state)).set("NEW_STATE", "STATE"),
        false => {
            let made = Arg::Out(site.outs.len() - 1);
            unit.set("IN_PLACE", 0).read("STATE", "float", Arg::In(o.state)).write("NEW_STATE", "float", made)
        }
    };
    unit.set("FINISH_NORM", finish as u8);
    if finish {
        set_norm(&mut unit, op, o.norm);
    }
    if finish || has_conv {
        unit.update("ZEROS", "u32", Arg::Zeros);
    }
    unit.update("OUT", "float", Arg::Out(0)).part(CONV).part(include_str!("kernel.cu"));
    let form = match (has_conv, op.norm) {
        (false, None) => "plain",
        (true, None) => "conv",
        (false, Some(_)) => "norm",
        (true, Some(_)) => "conv+norm",
    };
    let grid = Expr::S * (op.v_heads * op.v_dim.div_ceil(COLUMNS));
    let cost = op.cost(site);
    if op.norm.is_none() || finish {
        return unit.lower(format!("delta_net/columns.{form}"), grid, cost);
    }
    // The rule reads no norm weight and no gate; the norm reads and writes what the rule made.
    let extra = site.ins[o.norm].bytes() + site.ins[o.norm + 1].bytes() + site.outs[0].bytes();
    let norm_cost = Cost::of(extra, site.outs[0].bytes(), Expr::T * (13 * op.v_width()));
    let rest = DeltaNet { norm: None, ..op.clone() };
    let ins = site.ins[..o.norm].iter().chain(&site.ins[o.norm + 2..]).cloned().collect();
    let rest_cost = rest.cost(&Site { ins, ..site.clone() });
    let first = unit.step(format!("delta_net/columns.{form}"), grid, rest_cost);
    let mut unit = Unit::new(128);
    unit.batch().set("V_HEADS", op.v_heads).set("VD", op.v_dim);
    set_norm(&mut unit, op, o.norm);
    unit.update("OUT", "float", Arg::Out(0)).part(include_str!("norm.cu"));
    let second = unit.step("delta_net/norm", groups(&Expr::T, op.v_heads, 4), norm_cost);
    Lowering::Steps { steps: vec![first, second], scratch: vec![] }
}

fn set_norm(unit: &mut Unit, op: &DeltaNet, at: usize) {
    unit.set_f32("NORM_EPS", op.norm.unwrap_or(0.0));
    unit.read("NORM_WEIGHT", "float", Arg::In(at)).read("GATE_IN", "float", Arg::In(at + 1));
}
