//! The CUDA device: it compiles text, owns memory, launches and times. It knows no op.
//!
//! A plan becomes one CUDA graph for each shape of batch, which is replayed with one submission a step. The data that changes
//! from step to step lies in one buffer, which is copied to the device in front of the graph. Kernels use programmatic
//! dependent launch: a kernel may start early and fetch weights before it executes the dependency wait.

use std::sync::Arc;

use onetrip_device_common::arena::GUARD;
use onetrip_device_common::recording::{Entry, check_batch, kept, with_kernel};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{
    Choice, Commit, Counts, Device, DeviceError, HostTime, RING, Recording, SubmitMode, TestDevice, Ticket, WeightData,
};
use onetrip_ir::kernel::{Code, Text};
use onetrip_ir::plan::{BufRef, Dispatch, Plan};
use onetrip_ir::target::{CudaCaps, Target};

mod device;
pub mod driver;
mod faults;
pub mod libs;
pub mod lt;
pub mod nvrtc;
mod places;
mod recording;
mod submit;
mod ticks;

pub use device::{CudaDevice, OpenError, Options};

use device::{ALIGN, Kept};
use driver::{CARVEOUT, SMALL_SHARED};
use recording::CudaRecording;

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> Target {
        Target::Cuda(CudaCaps { lt: self.lt.is_some(), ..self.properties.caps() })
    }

    fn memory(&self) -> Option<u64> {
        Some(self.gpu.free_memory())
    }

    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError> {
        let weights: Vec<WeightData> = weights.collect();
        self.gpu.enter().and_then(|()| self.gpu.wait()).map_err(|e| self.failed(e))?;
        (self.weights, self.weight_at) = (vec![], vec![]);
        self.generation += 1;
        let sizes = weights.iter().map(|w| ((**w).as_ref().len() as u64).next_multiple_of(ALIGN));
        let all = self.allocate(sizes.clone().sum::<u64>() + ALIGN, "weights")?;
        let mut at = all.at;
        for (weight, size) in weights.iter().zip(sizes) {
            self.gpu.write(at, (**weight).as_ref()).map_err(|e| self.failed(e))?;
            self.weight_at.push(at);
            at += size;
        }
        self.weights.push(all);
        Ok(())
    }

    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        self.gpu.enter().and_then(|()| self.gpu.wait()).map_err(|e| self.failed(e))?;
        self.states.clear();
        self.generation += 1;
        for &b in bytes {
            let state = self.allocate(b, "caches")?;
            self.gpu.fill(state.at, 0, state.bytes).map_err(|e| self.failed(e))?;
            self.states.push(state);
        }
        Ok(())
    }

    fn begin(&mut self, plan: &Arc<Plan>) {
        let kernels = plan.dispatches.iter().map(|_| None).collect();
        let texts: Vec<Arc<Text>> = plan.dispatches.iter().filter_map(text_of).collect();
        let is_small = texts.iter().all(|t| t.shared <= SMALL_SHARED);
        let carveout = is_small.then_some(CARVEOUT);
        self.recording =
            Some(CudaRecording { plan: plan.clone(), entries: vec![], kernels, carveout, graphs: Default::default() });
        // An error is not lost: `encode` prepares each kernel again and reports it.
        let _ = self.gpu.enter();
        let _ = self.prepare(&texts);
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(mut r) = self.recording.take() else { return Ok(()) };
        let d = with_kernel(&r.plan, n, &self.name)?;
        if matches!(d.code, Some(Code::Library(_))) && self.lt.is_none() {
            let why = "the plan has a product for cuBLASLt, which is not there";
            return Err(DeviceError::Gap { n, name: d.name.clone(), device: self.name.clone(), why });
        }
        if let Some(text) = text_of(d) {
            self.prepare(std::slice::from_ref(&text)).map_err(|e| e.at(faults::place(n, d)))?;
            r.kernels[n] = self.kernels.get(&*text).map(|k| (*k, text));
        }
        r.entries.push(Entry::Dispatch(n));
        self.recording = Some(r);
        Ok(())
    }

    fn stamp(&mut self) {
        if let Some(r) = &mut self.recording {
            r.entries.push(Entry::Stamp);
        }
    }

    fn finish(&mut self) -> Recording {
        Recording(Box::new(self.recording.take()))
    }

    fn set_submit_mode(&mut self, how: SubmitMode) -> Result<(), DeviceError> {
        if how.encode_thread {
            let why = "CUDA replays a kept graph, there is nothing to encode";
            return Err(DeviceError::Choice { what: Choice::EncodeThread, why });
        }
        self.how = how;
        Ok(())
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let r: &CudaRecording = kept(recording, "CUDA")?;
        check_batch(&r.plan, batch)?;
        self.gpu.enter().map_err(|e| self.failed(e))?;
        let slot = self.free_place()?;
        self.places.alone();
        let (stamps, _) = self.stamps_of(r);
        while self.events.len() < stamps {
            let event = self.gpu.event(true).map_err(|e| self.failed(e))?;
            self.events.push(event);
        }
        let bytes = r.plan.slot_bytes(batch.bind());
        self.place_slots(&bytes)?;
        self.send_words(&batch.words(), slot)?;
        // The key of a graph: everything that is fixed in its launches, the sizes of slots and the grids.
        let bind = batch.bind();
        let shape = bytes.iter().copied().chain(r.plan.dispatches.iter().map(|d| d.grid.eval(bind))).collect();
        self.submit_by(r, batch, shape)?;
        self.keep_outputs(&r.plan, batch, slot)?;
        self.runs += 1;
        self.launches += 1;
        (self.ring[slot].run, self.ring[slot].ticks) = (self.runs, 1);
        if stamps > 0 {
            self.wait()?;
            let first = &self.events[0];
            self.stamps = self.events[..stamps].iter().map(|e| e.since(first)).collect();
        }
        Ok(Ticket(self.runs))
    }

    fn most_ticks(&self) -> usize {
        if self.how.commit == Commit::Replay && !self.options.sync { ticks::MOST_TICKS } else { 1 }
    }

    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError> {
        match batches {
            [one] => Ok(vec![self.submit(recording, one)?]),
            many => self.submit_ticks(recording, many),
        }
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        self.counts.waits += 1;
        self.gpu.enter().and_then(|()| self.gpu.wait()).map_err(|e| self.failed(e))
    }

    fn in_flight(&self) -> usize {
        RING
    }

    fn stamps(&self) -> &[f64] {
        &self.stamps
    }

    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError> {
        let holds = |k: &Kept| (k.run..k.run + k.ticks).contains(&run.0);
        let Some(slot) = self.ring.iter().position(holds) else {
            let what = format!("the outputs of run {} are gone: {} came after it", run.0, self.runs);
            return Err(DeviceError::Batch(what));
        };
        self.gpu.enter().map_err(|e| self.failed(e))?;
        self.counts.waits += 1;
        self.ring[slot].done.wait().map_err(|e| self.failed(e))?;
        let (s, width) = plan.outputs[index];
        let mut numbers = vec![0f32; rows * width];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut numbers);
        let index = (run.0 - self.ring[slot].run) as usize * plan.outputs.len() + index;
        match self.ring[slot].at.get(index).filter(|(_, kept)| *kept >= bytes.len() as u64) {
            Some(&(at, _)) => {
                let at = at as usize;
                bytes.copy_from_slice(&self.ring[slot].outputs.bytes()[at..at + bytes.len()]);
            }
            None if run.0 == self.runs => {
                self.gpu.read(self.address(&BufRef::Slot(s)), bytes).map_err(|e| self.failed(e))?;
            }
            None => return Err(DeviceError::Batch("a large output must be read before the next run".into())),
        }
        Ok(numbers)
    }

    fn read_state(&mut self, index: usize) -> Vec<u8> {
        let state = &self.states[index];
        let mut bytes = vec![0; state.bytes as usize];
        // A failure shows in the next submission, which reports it.
        let _ = self.gpu.enter().and_then(|()| self.gpu.read(state.at, &mut bytes));
        bytes
    }

    fn write_state(&mut self, index: usize, bytes: &[u8]) {
        let _ = self.gpu.enter().and_then(|()| self.gpu.write(self.states[index].at, bytes));
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        let (from, to) = (&self.states[from], &self.states[to]);
        let _ = self.gpu.enter().and_then(|()| self.gpu.copy(from.at, to.at, from.bytes.min(to.bytes)));
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn host_time(&self) -> HostTime {
        self.host
    }
}

impl TestDevice for CudaDevice {
    fn set_guards(&mut self, on: bool) {
        self.guard = on;
        self.generation += 1;
    }

    fn guards_intact(&mut self) -> bool {
        let Some(arena) = &self.arena else { return true };
        let mut bytes = vec![0; arena.bytes as usize];
        if self.gpu.enter().and_then(|()| self.gpu.read(arena.at, &mut bytes)).is_err() {
            return false;
        }
        self.slots.are_guarded(&bytes, GUARD)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // The memory that is freed next may still be in use by the GPU.
        let _ = self.gpu.enter().and_then(|()| self.gpu.wait());
    }
}

fn text_of(d: &Dispatch) -> Option<Arc<Text>> {
    match &d.code {
        Some(Code::Text(text)) => Some(text.clone()),
        _ => None,
    }
}
