//! Putting kernel text together, one assembler for each kernel language. The shared pieces of text lie beside them.

pub mod cuda;
pub(crate) mod wgsl;
