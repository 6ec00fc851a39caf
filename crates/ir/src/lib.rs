//! The interface between the compiler and the devices: tensors and their signatures, quantization formats, the batch of a
//! step, the launch IR, the plan, and the [`device::Device`] trait. A device depends on this crate alone. The CPU's vector
//! kernels ([`simd`]) and the view of memory that CPU kernels have ([`cpu`]) are here too, since the launch IR holds CPU
//! kernels as functions.
//!
//! No module here knows an op.

pub mod batch;
pub mod commit;
pub mod context;
pub mod cpu;
pub mod device;
pub mod expr;
pub mod formats;
pub mod kernel;
pub mod kernel_id;
pub mod plan;
pub mod simd;
pub mod target;
pub mod tensor;
pub mod text;
pub mod tree;
