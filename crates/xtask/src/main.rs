//! project tasks: tidy, plans, docs, models, ci
fn main() {}
