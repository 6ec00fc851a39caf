//! Assembles kernel text: one assembler for each kernel language, with the text that kernels share beside it.

pub mod cuda;
pub(crate) mod wgsl;

/// The lines around the header of a file of WGSL.
pub use wgsl::template::HEADER as WGSL_HEADER;
