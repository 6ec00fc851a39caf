//! Attention in CUDA.
//!
//! - `decode_split_kv` (up to 8 rows): one launch that rotates, writes the KV cache, splits the visible positions over thread
//!   blocks (split-KV) and combines the splits.
//! - `decode_batched` (more rows, each the one token of its sequence, caches in f16): the same work for rows that fill the device;
//!   its output may be in MMA fragment layout.
//! - other rows: a fused cache write is a launch of its own in front, then `prefill_mma` where there are tensor cores and enough
//!   shared memory, else `prefill_simt`.

use super::*;
use crate::codegen::cuda::{HALF, HEADS, TENSOR, Unit, cache_type, caps};
use crate::ops::rope::cuda::set_rope;
use onetrip_ir::device::ZEROED_WORKSPACE_WORDS;

/// Query heads of a block at most: they share keys, and each takes registers.
const HEADS_PER_BLOCK: usize = 8;
/// Queries and keys of a tile of the kernel for many rows.
const QUERIES: usize = 16;
const KEYS: usize = 32;

pub(super) fn lower(op: &Attention, site: &OpSite) -> Lowering {
    let o = op.operands();
    let types = [0, 1].map(|i| cache_type(&site.ins[o.states + i], op.dim));
    let [Some(keys), Some(values)] = types else {
        return Lowering::Gap("caches of this type and head size have no CUDA kernel");
    };
    if op.dim > 256 {
        return Lowering::Gap("heads of more than 256 elements have no CUDA kernel");
    }
    if (0..o.states).filter(|i| o.mask != Some(*i)).any(|i| site.ins[i].dtype != DType::F32) {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    if !site.bucket.is_small()
        && let Some(answer) = decode_batched(op, site, [keys, values])
    {
        return answer;
    }
    if site.outs[0].is_mma_fragment() {
        return Lowering::Gap(
            "only attention of one token each of many sequences, over caches in f16, gives MMA fragment layout",
        );
    }
    if site.bucket.is_small() { decode_split_kv(op, site, keys, values) } else { prefill(op, site, keys, values) }
}

/// What both kernels set.
fn unit(op: &Attention, threads: u32, keys: &str, values: &str, writes: bool) -> Unit {
    let o = op.operands();
    let mut unit = Unit::new(threads);
    unit.batch().read("X_IN", "float", Arg::In(0));
    unit.set("HEADS", op.heads).set("KV_HEADS", op.kv_heads).set("DIM", op.dim).set("Q_STRIDE", op.q_stride());
    unit.set("KEY_TYPE", keys).set("VALUE_TYPE", values).set_f32("SCALE", op.scale);
    unit.set("WINDOW", format!("{}u", op.window.unwrap_or(u32::MAX)));
    unit.set("HAS_SOFTCAP", op.softcap.is_some() as u8).set_f32("SOFTCAP", op.softcap.unwrap_or(1.0));
    match o.gate {
        Some(0) => unit.set("GATE", 1).set("GATE_IN", "X_IN"),
        Some(i) => unit.set("GATE", 1).read("GATE_IN", "float", Arg::In(i)),
        None => unit.set("GATE", 0).set("GATE_IN", "X_IN"),
    };
    unit.set("ROTATE_Q", op.q_rope.is_some() as u8);
    set_rope(&mut unit, "Q_", op.q_rope.as_ref(), o.q_norm.map(Arg::In));
    let states = [("KEYS", o.states), ("VALUES", o.states + 1)];
    for (name, i) in states {
        match writes {
            true => unit.update(name, "u8", Arg::In(i)),
            false => unit.read(name, "u8", Arg::In(i)),
        };
    }
    unit
}

/// How `decode_split_kv` shares its work.
struct Shares {
    /// Query heads of a block.
    together: usize,
    /// Parts of the visible positions, at most.
    splits: usize,
}

/// Query heads of a block, which have one key head: at most `most`.
fn together(op: &Attention, most: usize) -> usize {
    let group = op.heads / op.kv_heads;
    (1..=group.min(most)).rev().find(|n| group.is_multiple_of(*n)).unwrap_or(1)
}

/// Of blocks of at most `most` heads, `filled` should be on two SMs.
fn shares(op: &Attention, site: &OpSite, most: usize, filled: usize) -> Shares {
    let together = together(op, most);
    // One token fills the device; more tokens need fewer parts.
    let tokens = if site.bucket == RowBucket::R1 { 1 } else { 8 };
    let blocks = filled * caps(site).sms as usize / 2;
    Shares { together, splits: blocks.div_ceil(op.heads / together * tokens).clamp(1, 128) }
}

/// What the kernels that write the cache themselves set about it.
fn set_write(unit: &mut Unit, op: &Attention) {
    let o = op.operands();
    unit.set("WRITE", op.write.is_some() as u8);
    let rope = op.write.as_ref().and_then(|w| w.rope.as_ref());
    unit.set("ROTATE_K", rope.is_some() as u8);
    set_rope(unit, "K_", rope, o.k_norm.map(Arg::In));
    if op.write.is_some() {
        unit.read("K_IN", "float", Arg::In(o.k)).read("V_IN", "float", Arg::In(o.k + 1));
    } else {
        unit.set("K_IN", "((const float*)0)").set("V_IN", "((const float*)0)");
    }
    unit.write("OUT", "float", Arg::Out(0));
    unit.update("KV_PARTIALS", "float", Arg::Scratch(0)).update("SEMAPHORES", "u32", Arg::ZeroedWorkspace);
}

fn form(op: &Attention) -> &'static str {
    match (&op.write, &op.q_rope) {
        (Some(_), _) => "rope+write",
        (None, Some(_)) => "rope",
        (None, None) => "plain",
    }
}

fn decode_split_kv(op: &Attention, site: &OpSite, keys: &str, values: &str) -> Lowering {
    if [keys, values] == ["CACHE_F16"; 2] && caps(site).sm >= 80 {
        return decode_split_kv_mma(op, site, keys);
    }
    let o = op.operands();
    let Shares { together, splits } =
        shares(op, site, if op.dim > 128 { HEADS_PER_BLOCK / 2 } else { HEADS_PER_BLOCK }, 4);
    let blocks = op.heads / together;
    let threads = 256;
    let lanes = (op.dim / 8).next_power_of_two();
    let unroll = (lanes / 8).max(2);
    let mut unit = unit(op, threads as u32, keys, values, op.write.is_some());
    unit.set("HPB", together).set("SPLITS", splits).set("UNROLL", unroll);
    unit.set("LPK", lanes);
    set_write(&mut unit, op);
    let row = |i: usize| site.ins[o.states + i].dtype.row_bytes(op.dim).unwrap_or(0);
    let step_bytes = if op.write.is_some() { 8 * (row(0) + row(1)) } else { 0 };
    let shared = 4 * (together * (1 + threads / 32) * op.dim + op.dim + together * splits) + step_bytes;
    if shared > caps(site).shared as usize {
        return Lowering::Gap("heads of this size do not fit shared memory");
    }
    unit.shared(shared).part(HEADS).part(include_str!("step_kv.cu")).part(include_str!("decode_split_kv_simt.cu"));
    let scratch = vec![Expr::T * (op.heads * splits * (op.dim + 4) * 4)];
    let launch =
        unit.launch(format!("attention/decode_split_kv.{}", form(op)), Expr::T * (blocks * splits), op.cost(site));
    Lowering::Steps { launches: vec![launch], scratch }
}

/// Few rows over caches in f16.
fn decode_split_kv_mma(op: &Attention, site: &OpSite, cache: &str) -> Lowering {
    // Registers limit occupancy to three blocks an SM, two with large heads; not all of those SMs can host a whole cluster.
    let Shares { together, splits } = shares(op, site, HEADS_PER_BLOCK, if op.dim > 128 { 3 } else { 5 });
    let blocks = op.heads / together;
    // Clusters of blocks came with 9.0; eight is what every such device has. Smaller ones fill a device better.
    let largest = if site.bucket == RowBucket::R1 { 8 } else { 4 };
    let cluster = if caps(site).sm >= 90 { 1 << splits.min(largest).ilog2() } else { 1 };
    let (clusters, least) = (splits / cluster, if cluster == 1 { 32 } else { 128 });
    let threads = 128;
    let mut unit = unit(op, threads as u32, cache, cache, op.write.is_some());
    unit.set("HPB", together).set("CLUSTER", cluster).set("CLUSTERS", clusters).set("LEAST", least);
    set_write(&mut unit, op);
    let pairs = op.q_rope.as_ref().map_or(0, |r| 2 * r.pairs);
    let step_bytes = if op.write.is_some() { 8 * 2 * 2 * op.dim } else { 0 };
    let queries = op.dim.div_ceil(32) * 2 * 32 * 16;
    let heads = together * (op.dim + 4 + threads / 32 * (op.dim + 2)).next_multiple_of(4);
    unit.shared(queries + 4 * (heads + pairs.next_multiple_of(4)) + step_bytes);
    unit.cluster(cluster as u32).part(TENSOR).part(HEADS).part(include_str!("step_kv.cu"));
    unit.part(include_str!("softmax.cu")).part(include_str!("decode_split_kv_mma.cu"));
    let scratch = vec![Expr::T * (op.heads * clusters * (op.dim + 4) * 4)];
    let grid = Expr::T * (blocks * clusters * cluster);
    let launch = unit.launch(format!("attention/decode_split_kv.{}", form(op)), grid, op.cost(site));
    Lowering::Steps { launches: vec![launch], scratch }
}

/// Many rows over caches in f16, each the one token of its sequence; none where the device has no such tensor cores or too
/// little shared memory.
fn decode_batched(op: &Attention, site: &OpSite, caches: [&str; 2]) -> Option<Lowering> {
    let out = &site.outs[0];
    // Padding columns of the fragment layout would have to be zeros.
    let is_whole = !out.is_mma_fragment() || out.width.is_multiple_of(128);
    if !site.one_each || caches != ["CACHE_F16"; 2] || caps(site).sm < 80 || !is_whole {
        return None;
    }
    // Two blocks on an SM, each with so many warps that few positions are left to one after the other.
    let (threads, together) = (if op.dim > 128 { 128 } else { 256 }, together(op, HEADS_PER_BLOCK));
    let groups = op.heads / together;
    let resident_blocks = 2 * caps(site).sms as usize;
    let width = op.dim.next_multiple_of(16);
    let row_stride = if width.is_multiple_of(64) { width } else { width + 8 };
    let pairs = op.q_rope.as_ref().map_or(0, |r| 2 * r.pairs);
    let step_bytes = if op.write.is_some() { 2 * 2 * op.dim } else { 0 };
    let tiles = threads / 32 * 2 * 16 * row_stride * 2;
    let shared = tiles + width * 32 + step_bytes + 4 * ((together + 1) * (op.dim + 4) + pairs.next_multiple_of(4));
    if shared > caps(site).shared as usize {
        return None;
    }
    let mut unit = unit(op, threads as u32, caches[0], caches[1], op.write.is_some());
    unit.set("HPB", together)
        .set("RESIDENT_BLOCKS", resident_blocks)
        .set("EXTRA", resident_blocks / 2)
        .set("LEAST", 128)
        .set("COUNTERS", ZEROED_WORKSPACE_WORDS);
    set_write(&mut unit, op);
    unit.set("OUT_FRAGMENT", out.is_mma_fragment() as u8).set("HALF_BF16", (out.dtype == DType::BF16) as u8);
    unit.shared(shared).resident(2).part(TENSOR).part(HEADS).part(HALF).part(include_str!("step_kv.cu"));
    unit.part(include_str!("softmax.cu")).part(include_str!("decode_batched.cu"));
    let scratch = vec![(Expr::T * groups + resident_blocks) * (together * (op.dim + 4) * 4)];
    let fragment = if out.is_mma_fragment() { format!(".{}-fragment", out.dtype.name()) } else { String::new() };
    let launch = unit.launch(
        format!("attention/decode_batched.{}{fragment}", form(op)),
        Expr::from(resident_blocks),
        op.cost(site),
    );
    Some(Lowering::Steps { launches: vec![launch], scratch })
}

fn prefill(op: &Attention, site: &OpSite, keys: &str, values: &str) -> Lowering {
    let o = op.operands();
    let mut launches = vec![];
    if let Some(write) = &op.write {
        let places: Vec<usize> = o.of_write().collect();
        let ins = places.iter().map(|&i| site.ins[i].clone()).collect();
        let write_site = OpSite { ins, outs: site.outs[1..].to_vec(), ..site.clone() };
        let Lowering::Steps { launches: mut made, .. } = write.cuda(&write_site) else {
            return Lowering::Gap("the cache write in front of attention has no CUDA kernel");
        };
        // Its operands are inputs of the whole op.
        for arg in made.iter_mut().flat_map(|s| &mut s.args) {
            if let Arg::In(i) = arg {
                *i = places[*i];
            }
        }
        launches.append(&mut made);
    }
    let rest = Attention { write: None, ..op.clone() };
    let mut ins = site.ins[..o.k].to_vec();
    ins.extend_from_slice(&site.ins[if op.write.is_some() { o.k + 2 + o.k_norm.is_some() as usize } else { o.k }..]);
    let cost = rest.cost(&OpSite { ins, outs: site.outs[..1].to_vec(), ..site.clone() });
    if let Some(launch) = prefill_mma(op, site, [keys, values], &cost) {
        launches.push(launch);
        return Lowering::Steps { launches, scratch: vec![] };
    }
    let mut unit = unit(op, 8 * QUERIES as u32, keys, values, false);
    unit.set("QUERIES", QUERIES).set("KEYS_TILE", KEYS).write("OUT", "float", Arg::Out(0));
    unit.shared(4 * ((QUERIES + KEYS) * (op.dim + 4) + QUERIES * KEYS));
    unit.part(HEADS).part(include_str!("prefill_simt.cu"));
    let grid = (Expr::CeilDiv(Box::new(Expr::T), QUERIES as u64) + Expr::S) * op.heads;
    launches.push(unit.launch("attention/prefill_simt", grid, cost));
    Lowering::Steps { launches, scratch: vec![] }
}

/// The step of `prefill_mma`, which writes no cache; none where the device has no such tensor cores or too little shared memory.
fn prefill_mma(op: &Attention, site: &OpSite, caches: [&str; 2], cost: &Cost) -> Option<Launch> {
    // With few rows, warps have keys of their own instead of rows.
    let is_split = site.bucket == RowBucket::R9To64;
    let row_stride = op.dim.next_multiple_of(16) + 8;
    let parts = if caches == ["CACHE_F16"; 2] { 1 } else { 2 };
    let bytes =
        |rows: usize, warp_groups: usize, keys: usize| 2 * row_stride * (2 * rows + warp_groups * 4 * parts * keys);
    // Warps and keys of a tile, the fastest first.
    let forms: &[(usize, usize)] = match (is_split, op.dim <= 128) {
        (true, _) => &[(4, 16), (2, 16)],
        (false, true) => &[(8, 64), (4, 64), (4, 32)],
        (false, false) => &[(8, 32), (4, 32), (4, 16)],
    };
    let shared = |(warps, keys): (usize, usize)| {
        if is_split { bytes(16, warps, keys) } else { bytes(16 * warps, 1, keys) }
    };
    let shared_bytes = if caps(site).sm >= 80 { caps(site).shared as usize } else { 0 };
    let form = *forms.iter().find(|form| shared(**form) <= shared_bytes)?;
    let (warps, keys) = form;
    let rows = if is_split { 16 } else { 16 * warps };
    let together = together(op, rows);
    let queries = rows / together;
    let mut unit = unit(op, 32 * warps as u32, caches[0], caches[1], false);
    unit.set("ROWS", rows).set("HPB", together).set("QUERIES", queries).set("KEYS_TILE", keys);
    unit.set("SPLIT_KEYS", is_split as u8).set("QUERIES_STAY", (op.dim <= 128) as u8).write(
        "OUT",
        "float",
        Arg::Out(0),
    );
    unit.shared(shared(form));
    unit.part(TENSOR).part(HEADS).part(include_str!("softmax.cu")).part(include_str!("prefill_mma.cu"));
    let grid = (Expr::CeilDiv(Box::new(Expr::T), queries as u64) + Expr::S) * (op.heads / together);
    Some(unit.launch("attention/prefill_mma", grid, cost.clone()))
}
