//! `cargo xtask plans` and `cargo xtask docs`: write the plan snapshots under `plans/` and the page on rules again, with
//! binaries of the crate `testing`, which also compares them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Runs the binary `bin`. `Ok(false)` where the files could not be made; the reason is printed.
pub fn run(root: &Path, bin: &str) -> Result<bool> {
    let mut command = Command::new(crate::env::cargo());
    command.args(["run", "--quiet", "-p", "onetrip-testing", "--bin", bin]).current_dir(root);
    Ok(command.status().context("cannot start cargo")?.success())
}
