//! The work items of a dispatch, which the workers of the thread pool take in ranges.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The work items of a dispatch; a shared counter gives each range to one worker.
pub struct Items {
    next: AtomicUsize,
    total: usize,
    chunk: usize,
}

impl Items {
    /// `total` items for `workers` workers, in ranges of [`Items::chunk`] items.
    #[inline]
    pub fn new(total: usize, grain: usize, workers: usize) -> Items {
        Items { next: AtomicUsize::new(0), total, chunk: Items::chunk(total, grain, workers) }
    }

    /// Items in a range: at least `grain`, else so many that there are about eight ranges for each worker. If the operating
    /// system preempts a worker, the others then wait for an eighth of its share rather than for all of it.
    #[inline]
    pub fn chunk(total: usize, grain: usize, workers: usize) -> usize {
        total.div_ceil(workers.max(1) * 8).max(grain).max(1)
    }

    /// The next range; none if all items are taken.
    #[inline]
    pub fn take(&self) -> Option<Range<usize>> {
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None;
        }
        let start = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (start < self.total).then(|| start..(start + self.chunk).min(self.total))
    }

    /// Number of items.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_handed_out_once_each() {
        for (total, grain, workers) in [(0, 1, 2), (1, 1, 2), (100, 1, 3), (100, 40, 2), (7, 100, 1)] {
            let items = Items::new(total, grain, workers);
            let mut seen = vec![0; total];
            while let Some(r) = items.take() {
                r.for_each(|i| seen[i] += 1);
            }
            assert!(seen.iter().all(|&n| n == 1), "{total} {grain} {workers}");
            assert!(items.take().is_none());
        }
    }
}
