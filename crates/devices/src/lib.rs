//! The registry of devices: the kinds of devices, their names, their targets for plans, and opening a device. No other crate
//! names the crates of devices; the others hold a [`DeviceSpec`] and a `dyn Device`.
//!
//! [`kind`] has the kinds, their names and their defaults; [`open`] opens a device by its name; [`list`] lists the devices of
//! this machine; [`host`] describes its processor; [`selftest`] runs the cases of ops on a device.
//!
//! CUDA and wgpu are features of this crate. A kind whose feature is off can still be named and planned for, but opening it is
//! an error.

pub mod host;
pub mod kind;
pub mod list;
pub mod open;
pub mod selftest;

pub use kind::{DeviceKind, DeviceSpec, Selector, UnknownDevice};
pub use open::{CudaLaunch, Identity, OpenError, Opened, Settings};
