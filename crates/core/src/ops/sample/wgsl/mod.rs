//! Sampling in WGSL: one workgroup a sequence; the best of a large vocabulary is found by many.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

/// Vocabularies from here on are looked through in slices.
const LARGE: usize = 8192;
/// Slices of one.
const SLICES: usize = 128;
/// Threads of a workgroup.
const WG: u32 = 256;

pub(super) fn lower(op: &Sample, site: &OpSite) -> Lowering {
    let (rows, vocabulary) = (&site.ins[0].rows, site.ins[0].width);
    // With more sequences there are workgroups enough, and the words they meet at would be many.
    let slices = if vocabulary >= LARGE && site.bucket.is_small() { SLICES } else { 1 };
    let mut w = Wgsl::new(if slices > 1 { "sample/split_vocab" } else { "sample/row" }, WG);
    w.number("V", vocabulary);
    w.number("SLICES", slices);
    w.number("TOP", op.top);
    w.number("ID_STEPS", (usize::BITS - vocabulary.leading_zeros()) as usize);
    w.size("rows", rows);
    w.read("logits", Arg::In(0), site.ins[0].dtype);
    w.bind("copy", "f32", Arg::Scratch(0), Access::ReadWrite);
    w.bind("pending_tokens", "u32", Arg::PendingTokens, Access::ReadWrite);
    w.write("y", Arg::Out(0));
    let mut w = w.reductions(&caps(site.target)).text(include_str!("best.wgsl"));
    if slices > 1 {
        w.split_k_workspace();
        w.line(include_str!("split_vocab.wgsl"));
    } else {
        w.line(include_str!("alone.wgsl"));
    }
    let launch = w.text(include_str!("sample.wgsl")).launch(rows.clone() * slices, op.cost(site));
    // Logits with a penalty.
    Lowering::Steps { launches: vec![launch], scratch: vec![rows.clone() * (vocabulary * 4)] }
}
