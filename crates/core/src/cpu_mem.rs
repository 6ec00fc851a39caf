//! The view that CPU kernels have of memory: shared buffers that several workers write at disjoint places.
//!
//! This is the one module of core, besides the SIMD kernels, that needs `unsafe`: a dispatch's workers write
//! different rows or columns of the same output at the same time, which no safe Rust type expresses without a lock.
//! The rule that makes it sound: **a kernel takes mutable ranges only of outputs and scratch slots, only for the
//! work item it was handed, and the ranges of different work items never overlap**; the planner never gives an
//! output the memory of another operand of the same dispatch.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::batch::StepBatch;
use crate::expr::Bind;
use crate::simd::Simd;

/// Alignment of every buffer: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// Zeroed bytes that start on a cache line. Pages are committed by the system when they are first touched: the memory
/// is asked for with the alignment of a word (an allocator that must align more fills it with zeros itself) and the
/// first bytes up to a cache line are left unused.
#[derive(Default)]
pub struct AlignedBytes {
    words: Vec<u64>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes; none if the system has not so much.
    pub fn try_zeroed(len: usize) -> Option<AlignedBytes> {
        let words = len.checked_add(ALIGN)?.div_ceil(size_of::<u64>());
        let words = bytemuck::allocation::try_zeroed_vec::<u64>(words).ok()?;
        let start = words.as_ptr().align_offset(ALIGN) * size_of::<u64>();
        Some(AlignedBytes { words, start, len })
    }

    /// `len` zero bytes. Panics if the system has not so much: for sizes that do not come from outside.
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes::try_zeroed(len).unwrap_or_else(|| panic!("no memory for {len} bytes"))
    }

    /// A copy.
    pub fn copy_of(bytes: &[u8]) -> AlignedBytes {
        let mut new = AlignedBytes::zeroed(bytes.len());
        new.as_mut().copy_from_slice(bytes);
        new
    }

    /// Address and length, for a dispatch.
    pub fn raw(&mut self) -> RawBuf {
        let bytes = self.as_mut();
        RawBuf { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.start..self.start + self.len]
    }
}

/// Address and length of a buffer that outlives the dispatch it is used in.
#[derive(Clone, Copy)]
pub struct RawBuf {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a RawBuf is only dereferenced through CpuCall, during a dispatch whose buffers are alive, under the rule
// at the top of this module.
unsafe impl Send for RawBuf {}
// SAFETY: as above.
unsafe impl Sync for RawBuf {}

impl RawBuf {
    /// A read-only buffer (a weight). Kernels never take mutable ranges of inputs.
    pub fn read_only(bytes: &[u8]) -> RawBuf {
        RawBuf { ptr: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    /// Part of this buffer. Panics when it does not lie inside.
    pub fn slice(self, start: usize, len: usize) -> RawBuf {
        assert!(start <= self.len && len <= self.len - start, "a slot lies outside the arena");
        // SAFETY: checked to lie inside the allocation.
        RawBuf { ptr: unsafe { self.ptr.add(start) }, len }
    }

    /// Bytes of the buffer.
    pub fn len(self) -> usize {
        self.len
    }

    /// No bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Work items of a dispatch, handed out in ranges.
pub struct Items {
    next: AtomicUsize,
    total: usize,
    chunk: usize,
}

impl Items {
    /// `total` items for `workers`, at least `grain` at a time. About eight ranges a worker: a worker that the
    /// system stops for a moment then costs an eighth of its share, not all of it.
    pub fn new(total: usize, grain: usize, workers: usize) -> Items {
        let chunk = total.div_ceil(workers.max(1) * 8).max(grain).max(1);
        Items { next: AtomicUsize::new(0), total, chunk }
    }

    /// The next range, or none.
    pub fn take(&self) -> Option<Range<usize>> {
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None;
        }
        let start = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (start < self.total).then(|| start..(start + self.chunk).min(self.total))
    }

    /// Number of items.
    pub fn total(&self) -> usize {
        self.total
    }
}

/// What workers wrote in a dispatch: tests check the rule at the top of this module with it.
#[derive(Default)]
pub struct Claims(Mutex<Vec<(usize, usize, usize)>>);

impl Claims {
    fn add(&self, worker: usize, buf: RawBuf) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push((buf.ptr as usize, buf.ptr as usize + buf.len, worker));
    }

    /// Forgets all; false if two workers took mutable ranges that overlap.
    pub fn disjoint(&self) -> bool {
        let mut claims = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        claims.sort_unstable();
        // The range that reaches furthest so far, by worker: any later start below another worker's end overlaps.
        let mut ends: Vec<usize> = vec![];
        claims.iter().filter(|(start, end, _)| start < end).all(|&(start, end, worker)| {
            if ends.len() <= worker {
                ends.resize(worker + 1, 0);
            }
            let clear = ends.iter().enumerate().all(|(w, e)| w == worker || *e <= start);
            ends[worker] = ends[worker].max(end);
            clear
        })
    }
}

/// What one worker of a dispatch is called with.
pub struct CpuCall<'a> {
    /// Operands in the order of `Step::args`.
    pub args: &'a [RawBuf],
    /// The step batch.
    pub batch: &'a StepBatch,
    /// Values of the symbols.
    pub bind: Bind,
    /// Work items left.
    pub items: &'a Items,
    /// Vector kernels of this processor.
    pub simd: &'static Simd,
    /// Which worker this is.
    pub worker: usize,
    /// Where written ranges are noted, in tests.
    pub claims: Option<&'a Claims>,
}

impl CpuCall<'_> {
    /// The bytes of an operand.
    pub fn bytes(&self, arg: usize) -> &[u8] {
        let b = self.args[arg];
        // SAFETY: the device keeps the buffer alive for the dispatch; inputs are not written in it (module rule).
        unsafe { std::slice::from_raw_parts(b.ptr, b.len) }
    }

    /// The numbers of an f32 operand.
    pub fn f32s(&self, arg: usize) -> &[f32] {
        bytemuck::cast_slice(self.bytes(arg))
    }

    /// Part of the bytes of an operand; for states, which are read at places other workers do not write.
    pub fn bytes_at(&self, arg: usize, range: Range<usize>) -> &[u8] {
        let b = self.args[arg].slice(range.start, range.end.saturating_sub(range.start));
        // SAFETY: inside the buffer (checked by `slice`); not written by another item (module rule).
        unsafe { std::slice::from_raw_parts(b.ptr, b.len) }
    }

    /// The bytes of an output that belong to the caller's work item.
    #[allow(clippy::mut_from_ref)]
    pub fn write_bytes(&self, arg: usize, range: Range<usize>) -> &mut [u8] {
        let b = self.args[arg].slice(range.start, range.end.saturating_sub(range.start));
        if let Some(claims) = self.claims {
            claims.add(self.worker, b);
        }
        // SAFETY: inside the buffer (checked by `slice`); disjoint from other items' ranges (module rule).
        unsafe { std::slice::from_raw_parts_mut(b.ptr, b.len) }
    }

    /// The numbers of an f32 output that belong to the caller's work item.
    #[allow(clippy::mut_from_ref)]
    pub fn write(&self, arg: usize, range: Range<usize>) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.write_bytes(arg, range.start * 4..range.end * 4))
    }
}

/// Memory of one worker, kept between dispatches.
#[derive(Default)]
pub struct Scratch {
    memory: AlignedBytes,
}

impl Scratch {
    /// `N` buffers of the given bytes, each aligned to a cache line, with whatever was in them.
    pub fn split<const N: usize>(&mut self, bytes: [usize; N]) -> [&mut [u8]; N] {
        let total: usize = bytes.iter().map(|b| b.next_multiple_of(ALIGN)).sum();
        if self.memory.as_ref().len() < total {
            self.memory = AlignedBytes::zeroed(total.next_power_of_two());
        }
        let mut rest = self.memory.as_mut();
        bytes.map(|b| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(b.next_multiple_of(ALIGN));
            rest = tail;
            &mut part[..b]
        })
    }

    /// `N` buffers of the given numbers of f32.
    pub fn split_f32<const N: usize>(&mut self, lens: [usize; N]) -> [&mut [f32]; N] {
        self.split(lens.map(|n| n * 4)).map(bytemuck::cast_slice_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zero_aligned_and_not_more_than_the_system_has() {
        for len in [0, 1, 63, 64, 65, 1 << 20] {
            let b = AlignedBytes::zeroed(len);
            assert!(b.as_ref().len() == len && b.as_ref().iter().all(|x| *x == 0));
            assert_eq!(b.as_ref().as_ptr() as usize % ALIGN, 0);
        }
        assert!(AlignedBytes::try_zeroed(usize::MAX - 3).is_none());
        assert!(AlignedBytes::try_zeroed(1 << 62).is_none());
    }

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

    #[test]
    fn overlapping_claims_of_two_workers_are_found() {
        let mut memory = AlignedBytes::zeroed(100);
        let mut claims = |list: &[(usize, usize, usize)]| {
            let c = Claims::default();
            list.iter().for_each(|&(w, at, len)| c.add(w, memory.raw().slice(at, len)));
            c.disjoint()
        };
        assert!(claims(&[(0, 0, 10), (1, 10, 10), (0, 5, 5), (0, 0, 3), (1, 50, 0)]));
        assert!(!claims(&[(0, 0, 50), (0, 1, 2), (1, 49, 10)]));
        assert!(!claims(&[(1, 0, 4), (0, 0, 4)]));
    }

    #[test]
    fn scratch_buffers_are_aligned_and_disjoint() {
        let mut s = Scratch::default();
        let [a, b] = s.split([3, 130]);
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|&x| x == 1) && b.len() == 130);
        assert_eq!((a.as_ptr() as usize % ALIGN, b.as_ptr() as usize % ALIGN), (0, 0));
    }

    #[test]
    #[should_panic(expected = "outside the arena")]
    fn a_range_outside_its_buffer_is_refused() {
        let mut b = AlignedBytes::zeroed(10);
        b.raw().slice(4, usize::MAX);
    }
}
