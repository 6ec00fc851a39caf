//! Choosing a token in CUDA: some blocks a row, the last one to finish chooses.

use super::*;
use crate::codegen::cuda::{Unit, caps};

/// Threads of a block.
const THREADS: usize = 512;
/// Logits that are worth a block.
const SHARE: usize = 2048;

pub(super) fn lower(op: &Sample, site: &Site) -> Lowering {
    let (vocabulary, rows) = (site.ins[0].width, &site.ins[0].rows);
    let seen = vocabulary.div_ceil(32) * 4;
    if seen + 24 * 1024 > caps(site).shared as usize {
        return Lowering::Gap("a bit a token of this vocabulary does not fit shared memory");
    }
    let parts = vocabulary.div_ceil(SHARE).clamp(1, 128);
    let mut unit = Unit::new(THREADS as u32);
    unit.batch().rows(rows).read("LOGITS", "float", Arg::In(0)).set("VOCABULARY", vocabulary);
    unit.write("FEED", "u32", Arg::Feed).set("TOP", op.top).set("PARTS", parts);
    let mut scratch = vec![];
    if parts > 1 {
        unit.update("PART_BEST", "float2", Arg::Scratch(0)).update("ZEROS", "u32", Arg::Zeros);
        scratch.push(rows.clone() * (parts * 8));
    } else {
        unit.set("PART_BEST", "((float2*)0)").set("ZEROS", "((u32*)0)");
    }
    unit.write("OUT", "float", Arg::Out(0)).shared(seen.next_multiple_of(16)).part(include_str!("kernel.cu"));
    let step = unit.step("sample/parts", rows.clone() * parts, op.cost(site));
    Lowering::Steps { steps: vec![step], scratch }
}
