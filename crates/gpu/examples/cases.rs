//! Runs the cases of the ops named on the command line (all without a name) on the first adapter: a short loop while
//! kernels are written. `onetrip selftest --device gpu` is the whole table.

use std::time::Instant;

use onetrip_core::ops::Op;
use onetrip_core::selftest::{Verdict, run_case};
use onetrip_gpu::{GpuDevice, Options};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut device = match GpuDevice::open(&Options::default()) {
        Ok(device) => device,
        Err(e) => return println!("{e}"),
    };
    println!("{}: {:?}", device.adapter(), device.caps());
    for (op, cases) in Op::all_cases() {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == op) {
            continue;
        }
        let (start, mut failed) = (Instant::now(), 0);
        for (case, seed) in cases.iter().flat_map(|c| (1..=2).map(move |seed| (c, seed))) {
            let r = run_case(&mut device, op, case, seed);
            let why = match r.verdict {
                Verdict::Pass => continue,
                Verdict::Gap(why) => format!("gap: {why}"),
                Verdict::Fail(why) => why,
            };
            failed += 1;
            if failed <= 6 {
                println!("{op}: {}, seed {seed}, {:?}: {why}", case.name, r.kernels);
            }
        }
        println!("{op}: {failed} of {} wrong, {:.1} s", 2 * cases.len(), start.elapsed().as_secs_f64());
    }
}
