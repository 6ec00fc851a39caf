//! Buffers as CPU kernels see them: shared memory that several workers write at disjoint places.
//!
//! Besides the SIMD kernels, only this module and `cpu::call` need `unsafe` in this crate: the workers of a dispatch write
//! different rows or columns of the same output at the same time, and no safe Rust type expresses that without a lock. The code
//! is sound by this rule: **a kernel takes mutable ranges only of outputs and scratch slots, only for the work item that it has
//! taken, and the ranges of different work items never overlap**. The compiler of plans never gives an output the memory of
//! another operand of the same dispatch.

use std::sync::{Mutex, PoisonError};

/// Alignment of every buffer in bytes: that of a cache line, and of the widest vector.
pub const ALIGN: usize = 64;

/// Zeroed bytes that start on a cache line. The memory is allocated with the alignment of a word only, and the first bytes up
/// to a cache line stay unused: so the system can provide zeroed pages when they are first touched, whereas an allocator that
/// must align further writes the zeros itself.
#[derive(Default)]
pub struct AlignedBytes {
    words: Vec<u64>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes; none if the system does not have so much memory.
    #[inline]
    pub fn try_zeroed(len: usize) -> Option<AlignedBytes> {
        let words = len.checked_add(ALIGN)?.div_ceil(size_of::<u64>());
        let words = bytemuck::allocation::try_zeroed_vec::<u64>(words).ok()?;
        let start = words.as_ptr().align_offset(ALIGN) * size_of::<u64>();
        Some(AlignedBytes { words, start, len })
    }

    /// `len` zero bytes. Panics if the system does not have so much memory, so it is only for sizes that no input decides.
    #[inline]
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes::try_zeroed(len).unwrap_or_else(|| panic!("no memory for {len} bytes"))
    }

    /// A copy.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> AlignedBytes {
        let mut new = AlignedBytes::zeroed(bytes.len());
        new.as_mut().copy_from_slice(bytes);
        new
    }

    /// Address and length, as an operand of a dispatch.
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

    /// The range of `len` bytes from byte `start` of this buffer on. Panics if the range does not lie inside the buffer.
    #[inline]
    pub fn slice(self, start: usize, len: usize) -> RawBuf {
        assert!(start <= self.len && len <= self.len - start, "a slot lies outside the arena");
        // SAFETY: checked to lie inside the allocation.
        RawBuf { ptr: unsafe { self.ptr.add(start) }, len }
    }

    /// Bytes of the buffer.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// True if the buffer has no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The ranges that workers wrote in a dispatch, with which tests check the rule at the top of this module.
#[derive(Default)]
pub struct Claims(Mutex<Vec<(usize, usize, usize)>>);

impl Claims {
    #[inline]
    pub(super) fn add(&self, worker: usize, buf: RawBuf) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push((buf.ptr as usize, buf.ptr as usize + buf.len, worker));
    }

    /// Removes all ranges; false if two workers took mutable ranges that overlap.
    #[inline]
    pub fn disjoint(&self) -> bool {
        let mut claims = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        claims.sort_unstable();
        // In the order of their starts, a range overlaps an earlier one if it starts below the furthest end of another worker.
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
