//! Checks whether a model and its caches fit the memory of a device, and computes which context or how many sequences would.

use onetrip_ir::formats::DType;

use crate::scheduler::PAGE_LEN;

/// Why a model cannot be loaded with the requested context and number of sequences.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The context has no positions.
    #[error("a context of no tokens")]
    NoContext,
    /// The width of a head is not a multiple of the block size of the cache's type.
    #[error("heads of {dim} are no whole blocks of a cache of {}: use f16 or f32", cache.name())]
    CacheType {
        /// Elements of a head.
        dim: usize,
        /// Requested element type of the cache.
        cache: DType,
    },
    /// Weights and caches are larger than a device's memory.
    #[error(
        "{file}: {:.2} MB of weights and {:.2} MB of caches are {:.2} MB more than the {:.2} MB that the device \
         ({device}) has",
        mb(.weights), mb(.caches), mb(&.weights.saturating_add(*.caches).saturating_sub(*.have)), mb(.have)
    )]
    Device {
        /// Name of the model's file.
        file: String,
        /// Name of the device.
        device: String,
        /// Bytes of weights.
        weights: u64,
        /// Bytes of caches and recurrent states.
        caches: u64,
        /// Bytes of memory that the device has.
        have: u64,
        /// The largest request that would fit.
        fits: Fits,
    },
    /// Caches are larger than this machine's memory.
    #[error(
        "{sequences} sequence(s) of {context} tokens need {:.1} GB of caches, this machine has {:.1} GB",
        *caches as f64 / 1e9, *have as f64 / 1e9
    )]
    Host {
        /// Requested number of sequences.
        sequences: usize,
        /// Requested positions of each sequence.
        context: usize,
        /// Bytes of the caches of all sequences.
        caches: u64,
        /// Bytes of memory of this machine.
        have: u64,
    },
    /// The operating system refused to allocate memory for the weights.
    #[error("{file}: no memory for its weights: {why}")]
    Weights {
        /// Name of the model's file.
        file: String,
        /// Error text of the allocation.
        why: String,
    },
}

fn mb(bytes: &u64) -> f64 {
    *bytes as f64 / 1e6
}

/// The largest request that would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// The requested number of sequences would fit with this many positions each.
    Context(usize),
    /// Fewer sequences would fit: their number, and the positions of each.
    Sequences(usize, usize),
    /// Not even one page of a cache fits beside the weights; the value is the device's memory in bytes.
    Weights(u64),
}

/// The memory that a model needs on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of KV caches and recurrent states.
    pub caches: u64,
    /// Bytes of recurrent states alone, which do not grow with the context.
    pub recurrent: u64,
    /// Number of pages of the KV caches.
    pub pages: u64,
    /// Number of sequences.
    pub sequences: usize,
}

impl Need {
    /// Returns an error if weights and caches are larger than the `have` bytes of a device.
    pub fn check(self, have: u64, file: &str, device: &str) -> Result<(), MemoryError> {
        let Need { weights, caches, recurrent, pages, sequences } = self;
        let needed = weights.saturating_add(caches);
        if needed <= have {
            return Ok(());
        }
        let fixed = weights.saturating_add(recurrent);
        let fits = what_fits(have, fixed, (needed - fixed) / pages.max(1), sequences);
        Err(MemoryError::Device { file: file.into(), device: device.into(), weights, caches, have, fits })
    }
}

/// The largest request that fits `have` bytes, where `fixed` bytes do not depend on the context and each page of the KV caches
/// takes `page` bytes.
fn what_fits(have: u64, fixed: u64, page: u64, sequences: usize) -> Fits {
    let pages = have.checked_sub(fixed).filter(|_| page > 0).map_or(0, |room| room / page) as usize;
    match (pages / sequences.max(1), pages) {
        (0, 0) => Fits::Weights(have),
        (0, pages) => Fits::Sequences(pages, PAGE_LEN),
        (each, _) => Fits::Context(each * PAGE_LEN),
    }
}

/// Bytes of memory that programs on this machine can still use without swapping, where the system says it.
pub(crate) fn available() -> Option<u64> {
    meminfo("MemAvailable:")
}

fn meminfo(name: &str) -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Returns an error if the caches are larger than the memory of this machine. An allocation alone would not fail: the system
/// may give out more memory than it has, and only the first writes to it fail.
pub(crate) fn check_host(caches: u64, context: usize, sequences: usize) -> Result<(), MemoryError> {
    match meminfo("MemTotal:") {
        Some(have) if caches > have => Err(MemoryError::Host { sequences, context, caches, have }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_answered_with_what_would() {
        assert_eq!(what_fits(1000, 400, 100, 2), Fits::Context(768));
        assert_eq!(what_fits(1000, 400, 100, 6), Fits::Context(256));
        assert_eq!(what_fits(1000, 400, 100, 7), Fits::Sequences(6, 256));
        assert_eq!(what_fits(3_000_000_000, 4_000_000_000, 100, 1), Fits::Weights(3_000_000_000));
        assert_eq!(what_fits(1000, 950, 100, 1), Fits::Weights(1000));
    }

    #[test]
    fn a_model_is_refused_by_as_much_as_it_is_too_large() {
        let need = Need { weights: 3_000_000, caches: 2_000_000, recurrent: 0, pages: 4, sequences: 1 };
        assert!(need.check(5_000_000, "a.gguf", "x").is_ok());
        let refused = need.check(4_000_000, "a.gguf", "x").expect_err("one byte too many").to_string();
        let words = ["a.gguf: 3.00 MB of weights", "2.00 MB of caches", "1.00 MB more than the 4.00 MB", "(x)"];
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    }
}
