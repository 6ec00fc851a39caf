//! The compiler of onetrip: from a graph of ops to a plan.
//!
//! Follow one decode step downwards: a model definition writes a [`graph`]; [`compile`] chooses layouts, applies the rules
//! of [`fuse`], lowers every node to launches and assigns their slots by graph colouring; each launch runs a kernel that
//! its op in [`ops`] chose, with text that [`codegen`] assembles; [`record`] records the dispatches on a device.
//! [`reference`] defines the result of every op.
//!
//! The types that devices depend on (tensors, formats, launch IR, plan, the device trait) are in the crate `onetrip-ir`
//! below this one. Core does no I/O, starts no thread and depends on no GPU crate.

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
pub mod select;
