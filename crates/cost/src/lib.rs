//! The one cost model: what each dispatch of a plan and the whole tick should take, before anything runs.
//!
//! A [`Profile`] holds curves that `onetrip calibrate` measured on one machine: synthetic chains of single ops through
//! the real pool and kernels ([`calibrate`]), pairs of chains on a GPU ([`calibrate::pairs`]), no model plan. [`Pricer`] interpolates in them for any plan, whatever the
//! rules that made it; [`merge`] answers what one kernel in the place of two dispatches would save.

pub mod calibrate;
pub mod merge;
pub mod price;
pub mod profile;

#[cfg(test)]
mod tests;

pub use price::{Pricer, Tick};
pub use profile::{Curve, Kind, Profile, ProfileError};
