//! Compiles all cases.
use onetrip_core::ops::{Code, CudaCaps, Op, Target};
use std::path::PathBuf;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let sm: u32 = a[1].parse().unwrap();
    let c = onetrip_cuda::nvrtc::Compiler::new(
        sm,
        Some(PathBuf::from("/tmp/cubins")),
        &[PathBuf::from("/tmp/nvrtc/site/nvidia/cu13/lib")],
    )
    .unwrap();
    println!("{c:?}");
    let target = Target::Cuda(CudaCaps { sm, ..Default::default() });
    let mut seen = std::collections::HashSet::new();
    let (mut n, mut bad) = (0, 0);
    let start = std::time::Instant::now();
    for (op, cases) in Op::all_cases() {
        if a.len() > 2 && a[2] != op {
            continue;
        }
        for case in cases {
            let plan = onetrip_core::selftest::case_plan(&case, target).unwrap();
            for d in &plan.dispatches {
                if let Some(why) = d.gap {
                    println!("{op} {} gap {why}", case.name);
                }
                let Some(Code::Text(t)) = &d.code else { continue };
                if !seen.insert(t.source.clone()) {
                    continue;
                }
                n += 1;
                let _ = std::fs::create_dir_all("/tmp/cu");
                std::fs::write(format!("/tmp/cu/{}.cu", t.entry), &t.source).unwrap();
                if let Err(e) = c.compile(&t.entry, &t.source, &[]) {
                    bad += 1;
                    if bad < 6 {
                        println!("{op} {} {}\n{e}", case.name, d.kernel);
                    }
                }
            }
        }
        println!("{op}: {n} texts, {bad} bad, {:?}", start.elapsed());
    }
}
