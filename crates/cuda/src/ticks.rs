//! Several ticks in one submission: one graph of all their kernels, one copy of all their batches in front of it, and a copy
//! of each output's rows behind it.
//!
//! Ticks share slots, states and the last sampled ids; each tick has memory of its own for its batch and its outputs. The first
//! kernel of a tick does not use dependent launch: it starts when the tick before is done. So all data that kernels may read
//! before the dependency wait (weights, the batch, cache rows of earlier ticks) is as complete as in a submission of its own.

use onetrip_device_common::recording::{Entry, check_batch, kept};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{Device, DeviceError, Recording, Ticket};
use onetrip_ir::plan::{BufRef, Plan};

use crate::device::{ALIGN, CudaDevice};
use crate::driver::DriverError;
use crate::recording::{CudaRecording, GRAPHS};

/// Ticks that one submission may have.
pub(crate) const MOST_TICKS: usize = 32;

/// The words of all batches, each padded to the length of the longest, and that stride in bytes.
fn joined(batches: &[StepBatch]) -> (Vec<u32>, u64) {
    let all: Vec<Vec<u32>> = batches.iter().map(StepBatch::words).collect();
    let stride = all.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(ALIGN as usize / 4);
    let mut words = vec![0; stride * all.len()];
    for (to, from) in words.chunks_exact_mut(stride.max(1)).zip(&all) {
        to[..from.len()].copy_from_slice(from);
    }
    (words, 4 * stride as u64)
}

impl CudaDevice {
    /// Gives every tick memory of its own for the outputs; `bytes` are the sizes of the slots.
    fn place_outputs(&mut self, plan: &Plan, bytes: &[u64]) -> Result<(), DeviceError> {
        self.places.alone();
        let mut end = 0;
        let mut slots: Vec<usize> = plan.outputs.iter().map(|(slot, _)| *slot).collect();
        slots.dedup();
        for slot in slots {
            self.places.slots.push((slot, end));
            end += bytes[slot].next_multiple_of(ALIGN);
        }
        if self.places.outputs.as_ref().is_none_or(|m| m.bytes < MOST_TICKS as u64 * end) {
            self.gpu.wait().map_err(|e| self.failed(e))?;
            self.places.outputs = None;
            self.places.outputs = Some(self.allocate(MOST_TICKS as u64 * end, "outputs of several ticks")?);
            self.generation += 1;
        }
        self.places.part = end;
        Ok(())
    }

    /// Launches every tick and returns the number of dispatches; `places` is left at the last tick.
    fn launch_ticks(&self, r: &CudaRecording, batches: &[StepBatch]) -> Result<u64, (Option<usize>, DriverError)> {
        let mut launched = 0;
        for (tick, batch) in batches.iter().enumerate() {
            self.places.tick.set(tick as u64);
            launched += self.launch(r, &r.entries, batch, None)?;
        }
        Ok(launched)
    }

    /// [`Device::submit_many`] for more than one batch.
    pub(crate) fn submit_ticks(
        &mut self,
        recording: &Recording,
        batches: &[StepBatch],
    ) -> Result<Vec<Ticket>, DeviceError> {
        let r: &CudaRecording = kept(recording, "CUDA")?;
        let ticks = batches.len();
        let has_stamps = r.entries.iter().any(|e| matches!(e, Entry::Stamp));
        if ticks > self.most_ticks() || has_stamps || self.guard {
            return Err(DeviceError::Batch(format!("{ticks} ticks in one submission, which is for plain replays")));
        }
        batches.iter().try_for_each(|batch| check_batch(&r.plan, batch))?;
        self.gpu.enter().map_err(|e| self.failed(e))?;
        let slot = self.free_place()?;
        let sizes: Vec<Vec<u64>> = batches.iter().map(|b| r.plan.slot_bytes(b.bind())).collect();
        let bytes: Vec<u64> = (0..r.plan.slots.len()).map(|i| sizes.iter().map(|s| s[i]).max().unwrap_or(0)).collect();
        self.place_slots(&bytes)?;
        self.place_outputs(&r.plan, &bytes)?;
        let (words, stride) = joined(batches);
        self.places.batch = stride;
        self.send_words(&words, slot)?;
        let grids = batches.iter().flat_map(|b| r.plan.dispatches.iter().map(|d| d.grid.eval(b.bind())));
        let shape: Vec<u64> = [stride].into_iter().chain(bytes.iter().copied()).chain(grids).collect();
        let dispatches = self.replay_ticks(r, batches, shape)?;

        // One strided copy for each output takes its rows of all ticks to the pinned memory that `output` reads.
        self.places.tick.set(0);
        let rows = batches.iter().map(|b| b.bind().t).max().unwrap_or(0);
        let wanted = |&(slot, width): &(usize, usize)| bytes[slot].min(rows * width as u64 * 4);
        let each: Vec<u64> = r.plan.outputs.iter().map(|o| wanted(o).next_multiple_of(ALIGN)).collect();
        let all = each.iter().sum::<u64>() as usize * ticks;
        if all > self.ring[slot].outputs.bytes().len() {
            self.ring[slot].outputs = self.gpu.pinned(all.next_power_of_two()).map_err(|e| self.failed(e))?;
        }
        let (mut to, mut starts) = (0, vec![]);
        for (&(s, width), size) in r.plan.outputs.iter().zip(&each) {
            let rows = (self.address(&BufRef::Slot(s)), self.places.part, wanted(&(s, width)), ticks);
            self.gpu.read_rows(rows, &self.ring[slot].outputs, to, *size).map_err(|e| self.failed(e))?;
            starts.push(to);
            to += *size as usize * ticks;
        }
        self.gpu.mark(&self.ring[slot].done).map_err(|e| self.failed(e))?;
        let place = |tick: usize, i: usize| (starts[i] as u64 + tick as u64 * each[i], wanted(&r.plan.outputs[i]));
        let at = (0..ticks).flat_map(|tick| (0..starts.len()).map(move |i| (tick, i))).map(|(tick, i)| place(tick, i));
        self.ring[slot].at = at.collect();
        let first = self.runs + 1;
        self.runs += ticks as u64;
        self.launches += 1;
        (self.ring[slot].run, self.ring[slot].ticks) = (first, ticks as u64);
        self.counts.dispatches += dispatches;
        self.counts.commits += 1;
        Ok((first..=self.runs).map(Ticket).collect())
    }

    /// Replays the graph of these ticks, captured on first use, and returns its number of dispatches.
    fn replay_ticks(&mut self, r: &CudaRecording, batches: &[StepBatch], shape: Vec<u64>) -> Result<u64, DeviceError> {
        let mut graphs = r.graphs.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(Some((generation, graph))) = graphs.get(&shape)
            && *generation == self.generation
        {
            return self.gpu.replay(graph).map(|()| graph.launches).map_err(|e| self.failed(e));
        }
        let mut at = String::new();
        let made = self.gpu.record(|| {
            self.launch_ticks(r, batches).map_err(|(n, e)| {
                at = n.map_or(String::new(), |n| {
                    format!(" at dispatch {n} ({}) of several ticks", r.plan.dispatches[n].name)
                });
                e
            })
        });
        let graph = made.map_err(|e| self.failed(e).at(at))?;
        self.gpu.replay(&graph).map_err(|e| self.failed(e))?;
        if graphs.len() >= GRAPHS {
            self.gpu.wait().map_err(|e| self.failed(e))?;
            graphs.clear();
        }
        let launches = graph.launches;
        graphs.insert(shape, Some((self.generation, graph)));
        Ok(launches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetrip_ir::batch::SeqSpan;

    #[test]
    fn the_words_of_each_tick_begin_at_a_place_that_one_number_gives() {
        let batch = |pages: u32| {
            let mut batch = StepBatch { page_len: 4, ..Default::default() };
            let span = SeqSpan { pages: (0..pages).collect(), ..Default::default() };
            batch.push(&[7], 4 * pages - 1, span);
            batch.logit_rows = vec![0];
            batch
        };
        // The second has one page more, so its words are longer.
        let batches = [batch(64), batch(65)];
        let (words, stride) = joined(&batches);
        assert_eq!(stride % ALIGN, 0);
        for (i, batch) in batches.iter().enumerate() {
            let own = batch.words();
            let at = i * stride as usize / 4;
            assert_eq!(words[at..at + own.len()], own[..]);
        }
        assert_eq!(words.len() as u64 * 4, 2 * stride);
    }
}
