//! The view of memory that CPU kernels have: shared buffers that several workers write at disjoint places.
//!
//! Besides the SIMD kernels, this module and `cpu::call` are the only ones of the crate that need `unsafe`: the workers of a
//! dispatch write different rows or columns of the same output at the same time, which no safe Rust type expresses without a
//! lock. The rule that makes it sound: **a kernel takes mutable ranges only of outputs and scratch slots, only for the work
//! items that it took, and the ranges of different work items never overlap**; the planner never gives an output the memory
//! of another operand of the same dispatch.

use std::sync::{Mutex, PoisonError};

/// Alignment of every buffer in bytes: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// Zeroed bytes that start on a cache line. The allocation asks only for the alignment of a word, because the allocator then
/// takes zeroed pages from the operating system, which are committed when they are first touched; for a larger alignment it
/// would fill the memory itself. The bytes before the first cache line are left unused.
#[derive(Default)]
pub struct AlignedBytes {
    words: Vec<u64>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes; none if the system does not have that much memory.
    #[inline]
    pub fn try_zeroed(len: usize) -> Option<AlignedBytes> {
        let words = len.checked_add(ALIGN)?.div_ceil(size_of::<u64>());
        let words = bytemuck::allocation::try_zeroed_vec::<u64>(words).ok()?;
        let start = words.as_ptr().align_offset(ALIGN) * size_of::<u64>();
        Some(AlignedBytes { words, start, len })
    }

    /// `len` zero bytes. Panics if the system does not have that much memory, so `len` must not come from a file or a user.
    #[inline]
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes::try_zeroed(len).unwrap_or_else(|| panic!("no memory for {len} bytes"))
    }

    /// An aligned copy of `bytes`.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> AlignedBytes {
        let mut new = AlignedBytes::zeroed(bytes.len());
        new.as_mut().copy_from_slice(bytes);
        new
    }

    /// Address and length, as operand of a dispatch.
    #[inline]
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
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
}

// SAFETY: a `RawBuf` is dereferenced only through `CpuCall`, during a dispatch whose buffers are alive, under the rule
// at the top of this module.
unsafe impl Send for RawBuf {}
// SAFETY: as above.
unsafe impl Sync for RawBuf {}

impl RawBuf {
    /// A read-only buffer (a weight). Kernels never take mutable ranges of inputs.
    #[inline]
    pub fn read_only(bytes: &[u8]) -> RawBuf {
        RawBuf { ptr: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    /// A range of this buffer. Panics if it does not lie inside.
    #[inline]
    pub fn slice(self, start: usize, len: usize) -> RawBuf {
        assert!(start <= self.len && len <= self.len - start, "a slot lies outside the arena");
        // SAFETY: checked to lie inside the allocation.
        RawBuf { ptr: unsafe { self.ptr.add(start) }, len }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// True if the length is zero.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The ranges (start, end, worker) that workers wrote in a dispatch, with which tests check the rule at the top of this
/// module.
#[derive(Default)]
pub struct Claims(Mutex<Vec<(usize, usize, usize)>>);

impl Claims {
    #[inline]
    pub(super) fn add(&self, worker: usize, buf: RawBuf) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push((buf.ptr as usize, buf.ptr as usize + buf.len, worker));
    }

    /// Clears the record. Returns false if two workers took mutable ranges that overlap.
    #[inline]
    pub fn disjoint(&self) -> bool {
        let mut claims = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        claims.sort_unstable();
        // For each worker the furthest end so far: a later range that starts below another worker's end overlaps.
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
    #[should_panic(expected = "outside the arena")]
    fn a_range_outside_its_buffer_is_refused() {
        let mut b = AlignedBytes::zeroed(10);
        b.raw().slice(4, usize::MAX);
    }
}
