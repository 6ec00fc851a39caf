//! The cost model: predicts the time of each dispatch of a plan, and of the whole tick, before anything runs.
//!
//! A [`Profile`] holds curves that `onetrip calibrate` measured on one machine, without running a model plan: synthetic
//! chains of single ops through the real thread pool and kernels ([`calibrate`]), and pairs of chains on a GPU
//! ([`calibrate::pairs`]). [`Pricer`] interpolates in these curves for any plan, whichever rules made it. [`merge`] predicts
//! the time saved by one kernel in the place of two dispatches.

pub mod calibrate;
pub mod merge;
pub mod price;
pub mod profile;

#[cfg(test)]
mod tests;

pub use price::{Pricer, Tick};
pub use profile::{Curve, Kind, Profile, ProfileError};
