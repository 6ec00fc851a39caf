//! The crate below all devices, and the only part of the compiler that devices see: signatures of tensors, quantization
//! formats, the step batch, the launch IR, the plan, and the [`device::Device`] trait. The vector kernels of the CPU ([`simd`])
//! and the operands of CPU kernels ([`cpu`]) are here too, because the launch IR holds CPU kernels as functions.
//!
//! No module of this crate knows an op.

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
