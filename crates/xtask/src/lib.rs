//! Project tasks, as functions: [`tidy`] holds the promises that the compiler cannot hold, [`models`] fetches the real
//! models that tests and benches use, [`cycles`] and [`call_order`] hold what may know what and in which order one reads, [`plans`] writes the plan snapshots, [`listing`] the shipped node listing,
//! [`ci`] runs all checks, [`long`] those that take too long for it. `main.rs` only parses arguments.

pub mod call_order;
pub mod ci;
pub mod cycles;
pub mod env;
pub mod listing;
pub mod long;
pub mod models;
pub mod plans;
pub mod tidy;
