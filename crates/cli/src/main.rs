//! the binary onetrip: one file per command
fn main() {}
