//! Runs the tests of parity; see the library of this crate.

fn main() -> std::process::ExitCode {
    onetrip_testing::main()
}
