//! The compiler of onetrip: tensors, ops, quantization formats, graph, rules, plan, run loop, probes, cost.
//!
//! Follow one decode step downwards: a model page writes a [`graph`]; the rules of [`fuse`] rewrite it; [`plan`] lowers
//! every node to dispatches and colours their slots; [`run`] records them on a [`device`]; each runs a kernel that its
//! op in [`ops`] chose. [`reference`] says what all of it means.
//!
//! Core does no I/O, starts no thread and depends on no GPU crate.

pub mod batch;
pub mod cost;
pub mod cpu_mem;
pub mod cuda;
pub mod device;
pub mod expr;
pub mod formats;
pub mod fuse;
pub mod graph;
pub mod ops;
pub mod plan;
pub mod precision;
pub mod probe;
pub mod reference;
pub mod run;
pub mod selftest;
pub mod simd;
pub mod tensor;
mod wgsl;
