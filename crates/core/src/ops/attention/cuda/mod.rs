//! Attention in CUDA. `select.rs` lists the kernels in order of preference, `tune.rs` has their sizes.
//!
//! - `decode_batched` (more than 8 rows, each the one token of its sequence, caches in f16): one launch that rotates, writes the
//!   KV cache and schedules splits of the visible positions over resident blocks; its output may be in MMA fragment layout.
//! - `decode_split_kv_mma` and `decode_split_kv_simt` (up to 8 rows): one launch that rotates, writes the KV cache, splits the
//!   visible positions over thread blocks (split-KV) and combines the splits.
//! - `prefill_mma` and `prefill_simt` (other rows): a fused cache write is a launch of its own in front.

use super::*;
use crate::codegen::cuda::{HALF, HEADS, TENSOR, Unit, cache_type, caps};
use crate::ops::rope::cuda::set_rope;
use crate::select::select;
use onetrip_ir::device::ZEROED_WORKSPACE_WORDS;

mod decode_batched;
mod decode_split_kv_mma;
mod decode_split_kv_simt;
mod prefill_mma;
mod prefill_simt;
pub(super) mod select;
mod tune;

/// The site of an attention op, as its kernels see it.
struct Cuda<'a> {
    op: &'a Attention,
    site: &'a OpSite,
    /// Types of the key cache and the value cache in `heads.cuh`.
    caches: [&'static str; 2],
}

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
    let site = Cuda { op, site, caches: [keys, values] };
    if site.write_launches().is_none() {
        return Lowering::Gap("the cache write of attention has no CUDA kernel");
    }
    // Only the first candidate writes MMA fragment layout.
    let all = Cuda::CANDIDATES;
    let candidates = if site.site.outs[0].is_mma_fragment() { &all[..1] } else { all };
    Lowering::selected(select(candidates, site.site.bucket, &site))
}

impl Cuda<'_> {
    /// A unit with what all kernels set: the batch, the queries, the caches, the gate, and how queries are rotated.
    fn unit(&self, threads: usize, writes: bool) -> Unit {
        let (op, [keys, values]) = (self.op, self.caches);
        let o = op.operands();
        let mut unit = Unit::new(threads as u32);
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

    /// Sets how a kernel writes the cache itself, its output and its split-KV workspace.
    fn set_write(&self, unit: &mut Unit) {
        let op = self.op;
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

    /// The steps that are fused into a decode kernel, for its name.
    fn form(&self) -> &'static str {
        match (&self.op.write, &self.op.q_rope) {
            (Some(_), _) => "rope+write",
            (None, Some(_)) => "rope",
            (None, None) => "plain",
        }
    }

    /// The cache write that was fused into the op, as a launch in front of a kernel that writes no cache: no launch if the op
    /// writes none, and none at all if the write has no kernel.
    fn write_launches(&self) -> Option<Vec<Launch>> {
        let (op, site) = (self.op, self.site);
        let Some(write) = &op.write else { return Some(vec![]) };
        let places: Vec<usize> = op.operands().of_write().collect();
        let ins = places.iter().map(|&i| site.ins[i].clone()).collect();
        let write_site = OpSite { ins, outs: site.outs[1..].to_vec(), ..site.clone() };
        let Lowering::Steps { mut launches, .. } = write.cuda(&write_site) else { return None };
        // Its operands are inputs of the whole op.
        for arg in launches.iter_mut().flat_map(|s| &mut s.args) {
            if let Arg::In(i) = arg {
                *i = places[*i];
            }
        }
        Some(launches)
    }

    /// The cost of the op without its cache write.
    fn cost_without_write(&self) -> Cost {
        let (op, site, o) = (self.op, self.site, self.op.operands());
        let rest = Attention { write: None, ..op.clone() };
        let mut ins = site.ins[..o.k].to_vec();
        ins.extend_from_slice(
            &site.ins[if op.write.is_some() { o.k + 2 + o.k_norm.is_some() as usize } else { o.k }..],
        );
        rest.cost(&OpSite { ins, outs: site.outs[..1].to_vec(), ..site.clone() })
    }
}
