//! Where each tick of a submission of several ticks has its batch and its outputs.

use std::cell::Cell;

use crate::driver::Memory;

/// Strides between the ticks of a submission, for the operands that each tick has of its own. A run alone has none.
#[derive(Default)]
pub(crate) struct Places {
    /// The tick that is being launched.
    pub(crate) tick: Cell<u64>,
    /// Stride from the batch of one tick to that of the next, in bytes.
    pub(crate) batch: u64,
    /// Stride from the outputs of one tick to those of the next, in bytes.
    pub(crate) part: u64,
    /// Slots of outputs, and the offset of each within a tick's outputs.
    pub(crate) slots: Vec<(usize, u64)>,
    pub(crate) outputs: Option<Memory>,
}

impl Places {
    /// Resets to a single tick, without operands of its own.
    pub(crate) fn alone(&mut self) {
        self.tick.set(0);
        self.batch = 0;
        self.slots.clear();
    }

    /// Offset of the current tick's batch from that of the first tick, in bytes.
    pub(crate) fn batch(&self) -> u64 {
        self.tick.get() * self.batch
    }

    /// Device address of the slot, if the current tick has it of its own.
    pub(crate) fn slot(&self, slot: usize) -> Option<u64> {
        let (_, at) = self.slots.iter().find(|(s, _)| *s == slot)?;
        Some(self.outputs.as_ref()?.at + self.tick.get() * self.part + at)
    }
}
