//! Writes `docs/rules.md` again: `cargo xtask docs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match onetrip_parity::docs::write() {
        Ok(()) => {
            println!("docs/rules.md");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {}", e.message().unwrap_or("docs/rules.md could not be written"));
            ExitCode::from(2)
        }
    }
}
