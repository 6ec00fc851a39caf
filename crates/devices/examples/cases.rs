//! Runs the cases of the ops named on the command line (all without a name) on the device that is named first: a short loop
//! while kernels are written. `onetrip selftest` is the whole table.

use std::time::Instant;

use onetrip_core::ops::Op;
use onetrip_devices::selftest::{Verdict, run_case};
use onetrip_devices::{DeviceSpec, Settings};

fn main() {
    let mut words = std::env::args().skip(1);
    let spec: Result<DeviceSpec, _> = words.next().unwrap_or_default().parse();
    let wanted: Vec<String> = words.collect();
    let opened = spec.map_err(|e| e.to_string()).and_then(|s| s.open(&Settings::default()).map_err(|e| e.to_string()));
    let mut device = match opened {
        Ok(opened) => opened.device,
        Err(e) => return println!("{e}"),
    };
    println!("{:?}", device.target());
    for (op, cases) in Op::all_cases() {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == op) {
            continue;
        }
        let (start, mut failed) = (Instant::now(), 0);
        for (case, seed) in cases.iter().flat_map(|c| (1..=2).map(move |seed| (c, seed))) {
            let r = run_case(&mut *device, op, case, seed);
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
