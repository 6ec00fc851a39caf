//! Writes `docs/rules.md`, `docs/ops.md` and the MSL of the hot kernels again: `cargo xtask docs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let written = onetrip_testing::docs::write();
    match written.and_then(|pages| Ok((pages, onetrip_testing::kernels::write()?))) {
        Ok((pages, files)) => {
            pages.iter().for_each(|page| println!("{page}"));
            files.iter().for_each(|file| println!("{file}"));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {}", e.message().unwrap_or("a page could not be written"));
            ExitCode::from(2)
        }
    }
}
