//! How CPU kernels see a dispatch: their operands, their work items, and their scratch memory.
//!
//! Kernels of other crates call these functions once for each work item or row: they are marked `inline`, since a release build
//! inlines nothing else across crates.

pub mod call;
pub mod items;
pub mod memory;
pub mod scratch;
