//! Project tasks, as functions: [`tidy`] holds the promises that the compiler cannot hold, [`models`] fetches the real
//! models that tests and benches use, [`plans`] writes the plan snapshots, [`listing`] the shipped node listing,
//! [`ci`] runs the slower checks. `main.rs` only parses arguments.

pub mod ci;
pub mod cycles;
pub mod env;
pub mod listing;
pub mod models;
pub mod plans;
pub mod tidy;
