//! Processor, caches and memory of this machine.

use onetrip_ir::simd::Isa;

/// Model name of the processor.
pub fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string())
}

/// Number of logical processors that this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The machine in one line, as profiles call it.
pub fn name() -> String {
    format!("{}, {} cores, {}", cpu(), cores(), std::env::consts::OS)
}

/// Names of the instruction sets of this processor, weakest first.
pub fn isas() -> Vec<&'static str> {
    Isa::available().iter().map(|isa| isa.name()).collect()
}

/// Bytes of each data cache of the first processor, L1 first; empty if the system does not tell.
pub fn caches() -> Vec<u64> {
    let read =
        |i: usize, what: &str| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}"));
    let size = |text: &str| {
        let text = text.trim();
        let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_alphabetic()).len());
        let factor = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => 1,
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    };
    let is_data = |i: &usize| read(*i, "type").is_ok_and(|t| t.trim() != "Instruction");
    (0..8).filter(is_data).filter_map(|i| size(&read(i, "size").ok()?)).collect()
}

/// Bytes of memory: in all, and available for new allocations.
pub fn memory() -> (Option<u64>, Option<u64>) {
    (proc_kb("/proc/meminfo", "MemTotal"), proc_kb("/proc/meminfo", "MemAvailable"))
}

/// Most bytes that this process has had in physical memory so far, with mapped files.
pub fn peak_rss() -> Option<u64> {
    proc_kb("/proc/self/status", "VmHWM")
}

fn proc_kb(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
