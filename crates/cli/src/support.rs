//! What several commands need: flags, loading, devices, output, errors.

pub mod again;
pub mod device;
pub mod fail;
pub mod foreign;
pub mod interrupt;
pub mod ladder;
pub mod load;
pub mod machine;
pub mod options;
pub mod output;
pub mod plans;
pub mod positional;
pub mod predict;
pub mod prompt;
pub mod remedy;
pub mod skipped;
pub mod stats;
pub mod stderr;
pub mod texts;
