//! How CPU kernels see a dispatch: their operands, their work items, and their scratch memory.

pub mod call;
pub mod items;
pub mod memory;
pub mod scratch;
