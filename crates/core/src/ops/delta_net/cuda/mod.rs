//! The gated delta rule in CUDA: a block per sequence, value head and 32 columns of its state, token by token. Many rows go
//! in chunks, with a launch in front for the work that needs no state. With more than a few rows the norm over a head is a
//! launch of its own.

use super::*;
use crate::codegen::cuda::{CONV, TENSOR, Unit, caps, groups};
use crate::select::select;

pub(super) mod select;

/// Columns of the state per block.
const COLUMNS: usize = 32;
/// Tokens of a chunk.
const CHUNK: usize = 64;

pub(super) fn lower(op: &DeltaNet, site: &OpSite) -> Lowering {
    let o = op.operands();
    let has_conv = matches!(op.front, Front::Conv { .. });
    let floats = (0..o.count).filter(|&i| !(has_conv && i == 1));
    if floats.into_iter().any(|i| site.ins[i].dtype != DType::F32) {
        return Lowering::Gap("operands of the delta rule that are not f32 have no CUDA kernel");
    }
    if op.k_dim > 256 {
        return Lowering::Gap("key heads of more than 256 elements have no CUDA kernel");
    }
    if has_conv && !matches!(site.ins[1].dtype, DType::F32 | DType::F16) {
        return Lowering::Gap("filters that are neither f32 nor f16 have no CUDA kernel");
    }
    let form = match (has_conv, op.norm) {
        (false, None) => "plain",
        (true, None) => "conv",
        (false, Some(_)) => "norm",
        (true, Some(_)) => "conv+norm",
    };
    let site = Cuda { op, site, form };
    Lowering::selected(select(Cuda::CANDIDATES, site.site.bucket, &site))
}

/// A site of the op, as its kernels see it; `form` is what is fused into it, for the kernel's name.
struct Cuda<'a> {
    op: &'a DeltaNet,
    site: &'a OpSite,
    form: &'static str,
}

/// Bytes of shared memory of the two launches of `chunked`: of the second, by the chunks that are buffered.
fn chunked_shared(op: &DeltaNet) -> (usize, impl Fn(usize) -> usize) {
    let (row_stride, own, k_dim) = (op.k_dim + 4, op.v_heads / op.k_heads, op.k_dim);
    let second = move |buffers: usize| {
        4 * ((buffers + 1) * CHUNK * row_stride + 2 * CHUNK * (CHUNK + 4) + COLUMNS * (k_dim + 4 * CHUNK) + CHUNK)
    };
    (4 * (2 * CHUNK * row_stride + CHUNK * (CHUNK + 4) + 2 * own * CHUNK), second)
}

/// Token by token.
fn recurrent(Cuda { op, site, form }: &Cuda) -> Lowering {
    let (o, has_conv) = (op.operands(), matches!(op.front, Front::Conv { .. }));
    let finish = op.norm.is_some() && site.bucket.is_small();
    let tokens = if site.bucket.is_small() { 8 } else { 16 };
    let mut unit = Unit::new(128);
    set_front(&mut unit, op, site);
    unit.set("TOKENS", tokens);
    if has_conv {
        unit.update("CONV_STATE", "float", Arg::In(o.conv_state));
    }
    unit.read("DECAY", "float", Arg::In(o.g)).read("BETA", "float", Arg::In(o.g + 1));
    set_state(&mut unit, op, site);
    // The blocks of a key head form a cluster and apply the norm together where their number is a legal cluster size and
    // each can store an equal share of the convolution state in vectors of four channels. The kernel keeps the outputs of
    // all rows in shared memory, so this is for small buckets only.
    let together = op.v_heads / op.k_heads * op.v_dim.div_ceil(COLUMNS);
    let fits = matches!(together, 2 | 4 | 8)
        && op.v_dim.is_multiple_of(COLUMNS)
        && (2 * op.k_dim).is_multiple_of(4 * together);
    let cluster = if finish && has_conv && fits && caps(site).sm >= 90 { together } else { 1 };
    unit.set("FINISH_NORM", finish as u8).set("CLUSTER", cluster).cluster(cluster as u32);
    if finish {
        set_norm(&mut unit, op, o.norm);
    }
    if cluster == 1 && (finish || has_conv) {
        unit.update("SEMAPHORES", "u32", Arg::ZeroedWorkspace);
    }
    unit.update("OUT", "float", Arg::Out(0)).part(TENSOR).part(CONV).part(include_str!("recurrent.cu"));
    let grid = Expr::S * (op.v_heads * op.v_dim.div_ceil(COLUMNS));
    let cost = op.cost(site);
    if op.norm.is_none() || finish {
        return unit.lower(KernelId::new("delta_net", "columns").variants(form), grid, cost);
    }
    let (rest_cost, norm) = norm_launch(op, site);
    let first = unit.launch(KernelId::new("delta_net", "columns").variants(form), grid, rest_cost);
    Lowering::steps(vec![first, norm], vec![])
}

/// The cost of the op without its norm, and the launch of the norm. The rule then reads no norm weight and no gate; the norm
/// reads and writes the output of the rule.
fn norm_launch(op: &DeltaNet, site: &OpSite) -> (Cost, Launch) {
    let o = op.operands();
    let extra = site.ins[o.norm].bytes() + site.ins[o.norm + 1].bytes() + site.outs[0].bytes();
    let norm_cost = Cost::of(extra, site.outs[0].bytes(), Expr::T * (13 * op.v_width()));
    let rest = DeltaNet { norm: None, ..op.clone() };
    let ins = site.ins[..o.norm].iter().chain(&site.ins[o.norm + 2..]).cloned().collect();
    let rest_cost = rest.cost(&OpSite { ins, ..site.clone() });
    let mut unit = Unit::new(128);
    unit.batch().set("V_HEADS", op.v_heads).set("VD", op.v_dim);
    set_norm(&mut unit, op, o.norm);
    unit.update("OUT", "float", Arg::Out(0)).part(include_str!("norm.cu"));
    (rest_cost, unit.launch("delta_net/norm", groups(&Expr::T, op.v_heads, 4), norm_cost))
}

/// Binds q, k and v, or the convolution's input and filter, and sets the sizes.
fn set_front(unit: &mut Unit, op: &DeltaNet, site: &OpSite) {
    unit.batch().set("K_HEADS", op.k_heads).set("V_HEADS", op.v_heads).set("KD", op.k_dim).set("VD", op.v_dim);
    unit.set_f32("SCALE", op.scale).set("FRONT", matches!(op.front, Front::Conv { .. }) as u8);
    match &op.front {
        Front::Conv { taps, eps } => {
            unit.read("X_IN", "float", Arg::In(0)).read("FILTER", "u8", Arg::In(1));
            unit.set("TAPS", taps).set_f32("L2_EPS", *eps);
            unit.set("HALF_FILTER", site.ins[1].dtype == DType::F16);
        }
        front => {
            ["Q_IN", "K_IN", "V_IN"].iter().enumerate().for_each(|(i, name)| {
                unit.read(name, "float", Arg::In(i));
            });
            let start = if *front == Front::Packed { 2 * op.k_width() } else { 0 };
            unit.set_f32("L2_EPS", 0.0).set("V_START", start).set("V_STRIDE", site.ins[2].width);
        }
    }
}

fn set_state(unit: &mut Unit, op: &DeltaNet, site: &OpSite) {
    let o = op.operands();
    match site.ins[o.state].is_state() {
        true => unit.set("IN_PLACE", 1).update("STATE", "float", Arg::In(o.state)).set("NEW_STATE", "STATE"),
        false => {
            let made = Arg::Out(site.outs.len() - 1);
            unit.set("IN_PLACE", 0).read("STATE", "float", Arg::In(o.state)).write("NEW_STATE", "float", made)
        }
    };
}

/// Many rows in chunks.
fn chunked(Cuda { op, site, form }: &Cuda) -> Lowering {
    let (o, has_conv) = (op.operands(), matches!(op.front, Front::Conv { .. }));
    let ((first_shared, shared), shared_bytes) = (chunked_shared(op), caps(site).shared as usize);
    // An upper bound of the chunks of all sequences: the last chunk of each may be partial.
    let count = Expr::CeilDiv(Box::new(Expr::T), CHUNK as u64) + Expr::S;
    let square = count.clone() * (4 * op.v_heads * CHUNK * CHUNK);
    let mut scratch = vec![square.clone(), square.clone(), count.clone() * (4 * op.v_heads * CHUNK)];
    let made = ["INVERSE", "WEIGHTS", "SUMS"];
    let rows = [("Q_OUT", op.k_width()), ("K_OUT", op.k_width()), ("V_OUT", op.v_width())];
    let mut unit = Unit::new(256);
    set_front(&mut unit, op, site);
    unit.set("PREPARE", 1).set("CHUNK", CHUNK).read("DECAY", "float", Arg::In(o.g)).read(
        "BETA",
        "float",
        Arg::In(o.g + 1),
    );
    made.iter().enumerate().for_each(|(i, name)| {
        unit.write(name, "float", Arg::Scratch(i));
    });
    let mut bytes = scratch[0].clone() + scratch[1].clone() + scratch[2].clone();
    if has_conv {
        unit.update("CONV_STATE", "float", Arg::In(o.conv_state));
        for (name, width) in rows {
            unit.write(name, "float", Arg::Scratch(scratch.len()));
            scratch.push(Expr::T * (4 * width));
            bytes = bytes + Expr::T * (4 * width);
        }
    }
    unit.resident(2).shared(first_shared).part(TENSOR).part(CONV).part(include_str!("chunked.cu"));
    let (cost, norm) = match op.norm {
        Some(_) => {
            let (cost, launch) = norm_launch(op, site);
            (cost, Some(launch))
        }
        None => (op.cost(site), None),
    };
    // The first launch reads the rows and the filter, and moves the convolution state; the second moves the delta rule's state.
    let state = Expr::S * site.ins[o.state].row_bytes();
    let output = site.outs[0].bytes();
    let read = site.ins[..o.g + 2].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
    let conv = if has_conv { Expr::S * site.ins[o.conv_state].row_bytes() } else { Expr::Const(0) };
    let products = Expr::T * (op.k_heads * 4 * CHUNK * op.k_dim + op.v_heads * CHUNK * CHUNK / 3);
    let first_cost = Cost::of(read + conv.clone(), bytes.clone() + conv, products);
    let rest_cost = Cost::of(bytes + state.clone(), output + state, cost.flops);
    let first = unit.launch("delta_net/chunks.prepare", count * op.k_heads, first_cost);

    let mut unit = Unit::new(256);
    let buffers = if shared(2) <= shared_bytes { 2 } else { 1 };
    unit.batch().set("K_HEADS", op.k_heads).set("V_HEADS", op.v_heads).set("KD", op.k_dim).set("VD", op.v_dim);
    unit.set_f32("SCALE", op.scale).set("PREPARE", 0).set("CHUNK", CHUNK).set("KEY_BUFFERS", buffers);
    unit.read("BETA", "float", Arg::In(o.g + 1));
    made.iter().enumerate().for_each(|(i, name)| {
        unit.read(name, "float", Arg::Scratch(i));
    });
    for (i, name) in ["QUERIES", "KEYS", "VALUES"].iter().enumerate() {
        unit.read(name, "float", if has_conv { Arg::Scratch(made.len() + i) } else { Arg::In(i) });
    }
    let (start, stride) = match op.front {
        Front::Packed => (2 * op.k_width(), site.ins[2].width),
        _ => (0, op.v_width()),
    };
    unit.set("V_START", start).set("V_STRIDE", stride);
    set_state(&mut unit, op, site);
    unit.write("OUT", "float", Arg::Out(0)).shared(shared(buffers));
    unit.part(TENSOR).part(CONV).part(include_str!("chunked.cu"));
    let grid = Expr::S * (op.v_heads * op.v_dim.div_ceil(COLUMNS));
    let second = unit.launch(KernelId::new("delta_net", "chunks").variants(form), grid, rest_cost);
    Lowering::steps([first, second].into_iter().chain(norm).collect(), scratch)
}

fn set_norm(unit: &mut Unit, op: &DeltaNet, at: usize) {
    unit.set_f32("NORM_EPS", op.norm.unwrap_or(0.0));
    unit.read("NORM_WEIGHT", "float", Arg::In(at)).read("GATE_IN", "float", Arg::In(at + 1));
}
