//! The compiler of onetrip: tensors, ops, quantization formats, graph, rules, plan, run loop, probes, cost.
//!
//! Core does no I/O, starts no thread and depends on no GPU crate.

pub mod formats;
pub mod simd;
