//! The op × case × device table.

use std::sync::{Arc, Mutex};

use libtest_mimic::{Failed, Trial};
use onetrip_core::ops::{Case, Op};
use onetrip_cpu::CpuDevice;
use onetrip_devices::selftest::{Verdict, run_case};
use onetrip_ir::device::TestDevice;
use onetrip_ir::simd::Isa;

/// One test per op and instruction set of this processor: all cases of the op, three seeds each.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for &isa in Isa::available() {
        let device = match CpuDevice::with_isa(Some(2), isa) {
            Ok(device) => Arc::new(Mutex::new(device)),
            Err(e) => panic!("no threads for the CPU device: {e}"),
        };
        for op in Op::NAMES {
            let device = device.clone();
            tests.push(Trial::test(format!("op/{op}/cpu-{}", isa.name()), move || {
                let mut device = device.lock().unwrap_or_else(|e| e.into_inner());
                op_cases(&mut *device, op, 3)
            }));
        }
    }
    tests
}

/// Ops that only listings of other engines have: GPUs have no kernel for them. `kernels/only ops of listings …` holds the list.
pub(crate) const LISTED: [&str; 4] = ["state_read", "window", "state_write", "copy"];

/// Ops that have kernels on GPUs.
pub(crate) fn on_gpus() -> impl Iterator<Item = &'static str> {
    Op::NAMES.iter().copied().filter(|op| !LISTED.contains(op))
}

/// All cases of an op, with some seeds each.
pub(crate) fn op_cases(device: &mut dyn TestDevice, op: &str, seeds: u64) -> Result<(), Failed> {
    some_cases(device, op, seeds, &|_, _| true)
}

/// The cases of an op that a filter selects by their index in the list.
pub(crate) fn some_cases(
    device: &mut dyn TestDevice,
    op: &str,
    seeds: u64,
    is_wanted: &dyn Fn(usize, &Case) -> bool,
) -> Result<(), Failed> {
    let mut wrong = vec![];
    for (name, cases) in Op::all_cases().into_iter().filter(|(name, _)| *name == op) {
        let cases = cases.iter().enumerate().filter(|(n, case)| is_wanted(*n, case));
        for (case, seed) in cases.flat_map(|(_, c)| (1..=seeds).map(move |seed| (c, seed))) {
            let result = run_case(device, name, case, seed);
            match result.verdict {
                Verdict::Pass => {}
                Verdict::Gap(why) => wrong.push(format!("{}: no kernel: {why}", case.name)),
                Verdict::Fail(why) => wrong.push(format!("{} (seed {seed}, {:?}): {why}", case.name, result.kernels)),
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
