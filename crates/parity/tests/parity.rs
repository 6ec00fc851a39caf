//! Runs the parity tests; see the library of this crate.

fn main() {
    let args = libtest_mimic::Arguments::from_args();
    let mut tests = onetrip_parity::ops::tests();
    tests.sort_by(|a, b| a.name().cmp(b.name()));
    libtest_mimic::run(&args, tests).exit();
}
