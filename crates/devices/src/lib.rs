//! The registry of devices: it knows their kinds, names and capabilities, and opens them. Only this crate depends on the crates
//! of devices; all others use a [`DeviceSpec`] and a `dyn Device`.
//!
//! [`kind`] has the kinds, their names and their defaults; [`open`] opens the device of a name; [`list`] lists the devices of
//! this machine; [`host`] describes its processor; [`selftest`] runs the cases of ops on a device.
//!
//! CUDA and wgpu are features of this crate. Without its feature, a kind can still be named, and plans can be made for it, but
//! opening a device of that kind is an error.

pub mod host;
pub mod kind;
pub mod list;
pub mod open;
pub mod selftest;

pub use kind::{DeviceKind, DeviceSpec, Selector, UnknownDevice};
pub use open::{CudaLaunch, Identity, OpenError, Opened, Settings};
