//! The compiler of onetrip: from a graph of ops to a plan.
//!
//! Follow one decode step downwards: a model definition writes a [`graph`]; [`compile`] chooses layouts, applies the rules
//! of [`fuse`], lowers every node to launches and colours their slots; each launch runs a kernel that its op in [`ops`]
//! chose, with text that [`codegen`] puts together; [`record`] records the dispatches on a device. [`reference`] says what
//! all of it means.
//!
//! What devices depend on (tensors, formats, launch IR, plan, the device trait) is the crate `onetrip-ir` below. Core does
//! no I/O, starts no thread and depends on no GPU crate.

pub mod cases;
pub mod codegen;
pub mod compile;
pub mod fuse;
pub mod graph;
pub mod lowering;
pub mod ops;
pub mod precision;
pub mod probe;
pub mod record;
pub mod reference;
