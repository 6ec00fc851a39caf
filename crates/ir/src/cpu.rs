//! How CPU kernels see a dispatch: their operands, their work items, and their scratch memory.
//!
//! Kernels in other crates call these functions once for each work item or row. The functions are marked `inline`, because a
//! release build inlines only such functions across crates.

pub mod call;
pub mod items;
pub mod memory;
pub mod scratch;
