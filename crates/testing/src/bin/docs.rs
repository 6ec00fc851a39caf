//! Writes `docs/rules.md`, `docs/ops.md` and the MSL of the hot kernels again: `cargo xtask docs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match onetrip_testing::docs::write().and_then(|()| onetrip_testing::kernels::write()) {
        Ok(files) => {
            println!("docs/rules.md");
            files.iter().for_each(|file| println!("{file}"));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {}", e.message().unwrap_or("a page could not be written"));
            ExitCode::from(2)
        }
    }
}
