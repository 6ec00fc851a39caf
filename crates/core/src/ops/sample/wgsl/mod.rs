//! Sampling in WGSL: one workgroup per sequence; a large vocabulary is searched for its best token by many.

use super::*;
use crate::codegen::wgsl::{Wgsl, caps};

/// Vocabularies of this size and above are searched in slices.
const LARGE: usize = 8192;
/// Slices of a large vocabulary, each searched by one workgroup.
const SLICES: usize = 128;
/// Threads of a workgroup.
const WG: u32 = 256;

pub(super) fn lower(op: &Sample, site: &OpSite) -> Lowering {
    let (rows, vocabulary) = (&site.ins[0].rows, site.ins[0].width);
    // More sequences bring enough workgroups without slices, and the split-K workspace would grow with them.
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
        w.file(include_str!("split_vocab.wgsl"));
    } else {
        w.file(include_str!("alone.wgsl"));
    }
    let launch = w.text(include_str!("sample.wgsl")).launch(rows.clone() * slices, op.cost(site));
    // The scratch slot holds the logits after the repeat penalty.
    Lowering::steps(vec![launch], vec![rows.clone() * (vocabulary * 4)])
}
