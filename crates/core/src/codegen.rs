//! Assembles kernel text: one assembler for each kernel language, with the text that kernels share beside it.

pub mod cuda;
pub(crate) mod wgsl;
