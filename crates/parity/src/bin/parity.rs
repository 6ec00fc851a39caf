//! Runs the parity tests; see the library of this crate.

fn main() -> std::process::ExitCode {
    onetrip_parity::main()
}
