//! Sampling in CUDA: several blocks per row search for the best logit; the last one to finish chooses the token.

use super::*;
use crate::codegen::cuda::{Unit, caps};

/// Threads of a block.
const THREADS: usize = 512;
/// Logits per block: a row of this many or fewer gets one block.
const SHARE: usize = 2048;

pub(super) fn lower(op: &Sample, site: &OpSite) -> Lowering {
    let (vocabulary, rows) = (site.ins[0].width, &site.ins[0].rows);
    let seen = vocabulary.div_ceil(32) * 4;
    if seen + 24 * 1024 > caps(site).shared as usize {
        return Lowering::Gap("a bit a token of this vocabulary does not fit shared memory");
    }
    let splits = vocabulary.div_ceil(SHARE).clamp(1, 128);
    let mut unit = Unit::new(THREADS as u32);
    unit.batch().rows(rows).read("LOGITS", "float", Arg::In(0)).set("VOCABULARY", vocabulary);
    unit.write("PENDING_TOKENS", "u32", Arg::PendingTokens).set("TOP", op.top).set("SPLITS", splits);
    let mut scratch = vec![];
    if splits > 1 {
        unit.update("SPLIT_BEST", "float2", Arg::Scratch(0)).update("SEMAPHORES", "u32", Arg::ZeroedWorkspace);
        scratch.push(rows.clone() * (splits * 8));
    } else {
        unit.set("SPLIT_BEST", "((float2*)0)").set("SEMAPHORES", "((u32*)0)");
    }
    unit.write("OUT", "float", Arg::Out(0)).shared(seen.next_multiple_of(16)).part(include_str!("sample.cu"));
    let launch = unit.launch("sample/split_vocab", rows.clone() * splits, op.cost(site));
    Lowering::steps(vec![launch], scratch)
}
