//! What this machine is: for reports, and for `devices`.

use onetrip_ir::simd::Isa;
use serde_json::{Value, json};

/// Model name of the processor.
pub fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string())
}

/// Processors that this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn proc_kb(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Bytes of each cache of data of the first processor, nearest first; none where the system does not tell.
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

/// Bytes of memory: all, and what is free for new work.
pub fn memory() -> (Option<u64>, Option<u64>) {
    (proc_kb("/proc/meminfo", "MemTotal"), proc_kb("/proc/meminfo", "MemAvailable"))
}

/// Most bytes that this process had in memory so far, mapped files included.
pub fn peak_rss() -> Option<u64> {
    proc_kb("/proc/self/status", "VmHWM")
}

/// The machine in one line.
pub fn name() -> String {
    format!("{}, {} cores, {}", cpu(), cores(), std::env::consts::OS)
}

/// Names of the instruction sets of this processor, weakest first.
pub fn isas() -> Vec<&'static str> {
    Isa::available().iter().map(|isa| isa.name()).collect()
}

/// Today in UTC, `2026-04-01`.
pub fn date() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (y, m, d) = civil(seconds / 86_400);
    format!("{y:04}-{m:02}-{d:02}")
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + leap(year) as u64 {
        left -= 365 + leap(year) as u64;
        year += 1;
    }
    let lengths = [31, 28 + leap(year) as u64, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, left + 1)
}

/// The processor as a device, for JSON.
pub fn cpu_json(isa: Isa) -> Value {
    let (total, available) = memory();
    json!({
        "name": "cpu", "available": true, "processor": cpu(), "cores": cores(), "isa": isa.name(),
        "isa_available": isas(), "memory_bytes": total, "memory_available_bytes": available,
    })
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_since_1970_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }
}
