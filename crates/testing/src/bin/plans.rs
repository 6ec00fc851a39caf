//! Writes the plan snapshots and the predictions of plans again: `cargo xtask plans`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let written = onetrip_testing::snapshots::write_all();
    match written.and_then(|names| Ok((names, onetrip_testing::predictions::write()?))) {
        Ok((names, predictions)) => {
            names.iter().for_each(|name| println!("plans/{name}"));
            println!("{predictions}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {}", e.message().unwrap_or("the plans could not be written"));
            ExitCode::from(2)
        }
    }
}
