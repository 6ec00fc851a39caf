//! The wgpu device, for Vulkan, Metal and DX12. It knows no op: it compiles WGSL, owns memory, submits runs, and reads time
//! stamps.
//!
//! [`adapter`] lists adapters and opens one; [`pipelines`] compiles kernels; [`memory`] owns buffers; [`submit`] encodes and
//! submits; [`clocks`] reads time stamps; [`failure`] notes errors that the driver reports; [`device`] is the device itself.

pub mod adapter;
mod clocks;
pub mod device;
mod failure;
mod memory;
mod pipelines;
mod submit;

pub use adapter::{Adapter, OpenError, adapters};
pub use device::{Options, WgpuDevice};
