use std::path::PathBuf;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let c = onetrip_cuda::nvrtc::Compiler::new(a[1].parse().unwrap(), None, &[PathBuf::from("/tmp/nvrtc/site/nvidia/cu13/lib")]).unwrap();
    println!("{:?}", c);
    for f in &a[2..] {
        let t = std::time::Instant::now();
        let r = c.compile(f, &std::fs::read_to_string(f).unwrap(), &[]);
        println!("{f} {:?} {:?}", t.elapsed(), r.map(|b| b.len()).map_err(|e| println!("{e}")));
    }
}
