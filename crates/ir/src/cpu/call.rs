//! The argument of a CPU kernel.
//!
//! The rule that makes its `unsafe` sound is at the top of [`crate::cpu::memory`].

use std::ops::Range;

use crate::batch::StepBatch;
use crate::cpu::items::Items;
use crate::cpu::memory::{Claims, RawBuf};
use crate::expr::Bind;
use crate::simd::Simd;

/// The argument of a CPU kernel: one for each worker of a dispatch.
pub struct CpuCall<'a> {
    /// Operands, in the order of `Launch::args`.
    pub args: &'a [RawBuf],
    /// The step batch.
    pub batch: &'a StepBatch,
    /// Values of the symbols `T`, `S` and `L` for this batch.
    pub bind: Bind,
    /// The dispatch's work items, from which workers take ranges.
    pub items: &'a Items,
    /// Vector kernels of the chosen instruction set.
    pub simd: &'static Simd,
    /// Index of this worker.
    pub worker: usize,
    /// In tests, a record of the ranges that workers write.
    pub claims: Option<&'a Claims>,
}

impl CpuCall<'_> {
    /// The bytes of an operand.
    #[inline]
    pub fn bytes(&self, arg: usize) -> &[u8] {
        let b = self.args[arg];
        // SAFETY: the device keeps the buffer alive for the dispatch; inputs are not written in it (rule of `cpu::memory`).
        unsafe { std::slice::from_raw_parts(b.ptr, b.len) }
    }

    /// The elements of an f32 operand.
    #[inline]
    pub fn f32s(&self, arg: usize) -> &[f32] {
        bytemuck::cast_slice(self.bytes(arg))
    }

    /// A range of an operand's bytes. For states, which are read where no other worker writes.
    #[inline]
    pub fn bytes_at(&self, arg: usize, range: Range<usize>) -> &[u8] {
        let b = self.args[arg].slice(range.start, range.end.saturating_sub(range.start));
        // SAFETY: inside the buffer (checked by `slice`); not written by another item (rule of `cpu::memory`).
        unsafe { std::slice::from_raw_parts(b.ptr, b.len) }
    }

    /// A mutable range of an output's bytes, which belongs to the caller's work item alone.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn write_bytes(&self, arg: usize, range: Range<usize>) -> &mut [u8] {
        let b = self.args[arg].slice(range.start, range.end.saturating_sub(range.start));
        if let Some(claims) = self.claims {
            claims.add(self.worker, b);
        }
        // SAFETY: inside the buffer (checked by `slice`); disjoint from other items' ranges (rule of `cpu::memory`).
        unsafe { std::slice::from_raw_parts_mut(b.ptr, b.len) }
    }

    /// A mutable range of an f32 output's elements, which belongs to the caller's work item alone.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn write(&self, arg: usize, range: Range<usize>) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.write_bytes(arg, range.start * 4..range.end * 4))
    }
}
