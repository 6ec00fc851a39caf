//! Scratch memory of a worker.

use crate::cpu::memory::{ALIGN, AlignedBytes};

/// Scratch memory of one worker, which is kept between dispatches.
#[derive(Default)]
pub struct Scratch {
    memory: AlignedBytes,
}

impl Scratch {
    /// `N` buffers of the given sizes in bytes, each aligned to a cache line. Their contents are arbitrary.
    #[inline]
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

    /// `N` buffers of the given lengths in f32.
    #[inline]
    pub fn split_f32<const N: usize>(&mut self, lens: [usize; N]) -> [&mut [f32]; N] {
        self.split(lens.map(|n| n * 4)).map(bytemuck::cast_slice_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_buffers_are_aligned_and_disjoint() {
        let mut s = Scratch::default();
        let [a, b] = s.split([3, 130]);
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|&x| x == 1) && b.len() == 130);
        assert_eq!((a.as_ptr() as usize % ALIGN, b.as_ptr() as usize % ALIGN), (0, 0));
    }
}
