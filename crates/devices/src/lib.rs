//! The registry of devices: the kinds there are, how they are named, what plans for them may use, and opening one. It is the
//! one place that names the crates of devices, so that everybody else holds a [`DeviceSpec`] and a `dyn Device`.
//!
//! [`kind`] has the kinds, their names and their defaults; [`open`] makes a device of a name; [`list`] says what this
//! machine has; [`host`] says what its processor is; [`selftest`] runs the cases of ops on a device.
//!
//! CUDA and wgpu are features of this crate. Without its feature a kind can still be named and planned for, and is refused
//! when it is opened.

pub mod host;
pub mod kind;
pub mod list;
pub mod open;
pub mod selftest;

pub use kind::{DeviceKind, DeviceSpec, Selector, UnknownDevice};
pub use open::{CudaLaunch, Identity, OpenError, Opened, Settings};
