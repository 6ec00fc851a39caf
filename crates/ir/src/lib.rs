//! What every device depends on, and all that a device can see: tensors and their signatures, quantization formats, the
//! batch of a step, the launch IR, the plan, and the [`device::Device`] trait. Vector kernels of the CPU ([`simd`]) and the
//! view that CPU kernels have of memory ([`cpu`]) are here too, since the launch IR holds CPU kernels as functions.
//!
//! Nothing here knows an op.

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
