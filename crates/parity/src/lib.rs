//! The one integration-test binary: op × case × device, rules, plan snapshots, whole models.
//!
//! A test whose model is not there is reported by name as ignored with a reason, never as passed.

pub mod ops;
pub mod tokenizers;
