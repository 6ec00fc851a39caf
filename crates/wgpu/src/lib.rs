//! The wgpu device: Vulkan, Metal and DX12. It knows no op: it compiles WGSL, owns memory, launches, and reads clocks.
//!
//! [`adapter`] lists adapters and opens one; [`pipelines`] compiles text; [`memory`] owns buffers; [`submit`] encodes and
//! submits; [`clocks`] reads time stamps; [`failure`] hears what a driver says; [`device`] is the device itself.

pub mod adapter;
mod clocks;
pub mod device;
mod failure;
mod memory;
mod pipelines;
mod submit;

pub use adapter::{Adapter, OpenError, adapters};
pub use device::{Options, WgpuDevice};
