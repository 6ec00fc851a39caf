//! `cargo xtask plans`: writes the plan snapshots under `plans/` again, with the binary of the parity crate that also
//! compares them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// `Ok(false)` where the snapshots could not be made; the reason is printed.
pub fn run(root: &Path) -> Result<bool> {
    let mut command = Command::new(crate::env::cargo());
    command.args(["run", "--quiet", "-p", "onetrip-parity", "--bin", "plans"]).current_dir(root);
    Ok(command.status().context("cannot start cargo")?.success())
}
