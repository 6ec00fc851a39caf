//! What reports say of this machine, and when.

pub use onetrip_devices::host::{caches, cores, name, peak_rss};

use crate::support::stderr::note;

/// Says on stderr that there are more threads than processors: they wait for each other at every step.
pub fn note_threads(threads: usize) {
    let processors = cores();
    if threads > processors {
        note(&format!(
            "note: --threads {threads} is slow on {processors} processors, as threads wait for each other at every \
             dispatch: leave it out, or give at most {processors}"
        ));
    }
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
