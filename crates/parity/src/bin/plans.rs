//! Writes the plan snapshots again: `cargo xtask plans`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match onetrip_parity::plans::write_all() {
        Ok(names) => {
            names.iter().for_each(|name| println!("plans/{name}"));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {}", e.message().unwrap_or("the plans could not be written"));
            ExitCode::from(2)
        }
    }
}
