//! How CPU kernels see a dispatch: their operands, their work items, and their scratch memory.
//!
//! Kernels in other crates call these functions once for each work item or row. They are marked `inline`, since without the
//! attribute a release build would not inline them across crates.

pub mod call;
pub mod items;
pub mod memory;
pub mod scratch;
