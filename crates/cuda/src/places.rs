//! Places of ticks' own, where several go in one submission.

use std::cell::Cell;

use crate::driver::Memory;

/// Where the ticks of a submission have places of their own; of a run alone nothing.
#[derive(Default)]
pub(crate) struct Places {
    /// The tick that is being launched.
    pub(crate) tick: Cell<u64>,
    /// From the batch of one tick to that of the next, in bytes.
    pub(crate) batch: u64,
    /// From the outputs of one tick to those of the next, in bytes.
    pub(crate) part: u64,
    /// Slots of outputs, and where each begins in a part.
    pub(crate) slots: Vec<(usize, u64)>,
    pub(crate) outputs: Option<Memory>,
}

impl Places {
    /// From now on there is one tick.
    pub(crate) fn alone(&mut self) {
        self.tick.set(0);
        self.batch = 0;
        self.slots.clear();
    }

    /// Where the tick's batch is, from the first one's.
    pub(crate) fn batch(&self) -> u64 {
        self.tick.get() * self.batch
    }

    /// Where the tick has a slot of its own.
    pub(crate) fn slot(&self, slot: usize) -> Option<u64> {
        let (_, at) = self.slots.iter().find(|(s, _)| *s == slot)?;
        Some(self.outputs.as_ref()?.at + self.tick.get() * self.part + at)
    }
}
