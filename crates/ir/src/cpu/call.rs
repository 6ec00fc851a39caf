//! The argument of a CPU kernel: operands, batch and work items.
//!
//! The `unsafe` code here is sound by the rule at the top of [`crate::cpu::memory`].

use std::ops::Range;

use crate::batch::StepBatch;
use crate::cpu::items::Items;
use crate::cpu::memory::{Claims, RawBuf};
use crate::expr::Bind;
use crate::simd::Simd;

/// The argument with which each worker of a dispatch calls the kernel.
pub struct CpuCall<'a> {
    /// Operands, in the order of `Launch::args`.
    pub args: &'a [RawBuf],
    /// The step batch.
    pub batch: &'a StepBatch,
    /// Values of the symbols.
    pub bind: Bind,
    /// The work items that no worker has taken yet.
    pub items: &'a Items,
    /// Vector kernels of this processor.
    pub simd: &'static Simd,
    /// Number of this worker in the thread pool.
    pub worker: usize,
    /// In tests, the list in which the ranges that workers write are noted.
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

    /// A range of the bytes of an operand. States are read in this way, since other workers may write other ranges of them.
    #[inline]
    pub fn bytes_at(&self, arg: usize, range: Range<usize>) -> &[u8] {
        let b = self.args[arg].slice(range.start, range.end.saturating_sub(range.start));
        // SAFETY: inside the buffer (checked by `slice`); not written by another item (rule of `cpu::memory`).
        unsafe { std::slice::from_raw_parts(b.ptr, b.len) }
    }

    /// A range of the bytes of an output, to write: it must belong to the caller's work item.
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

    /// A range of the elements of an f32 output, to write: it must belong to the caller's work item.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn write(&self, arg: usize, range: Range<usize>) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.write_bytes(arg, range.start * 4..range.end * 4))
    }
}
