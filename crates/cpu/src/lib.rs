//! The CPU device: a thread pool and memory. It knows no op: it runs functions over work items, with a fork–join barrier after
//! each dispatch, and records time stamps between dispatches.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use onetrip_device_common::arena::{GUARD, POISON, Slots};
use onetrip_device_common::recording::{Entry, check_batch, kept, with_kernel};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::items::Items;
use onetrip_ir::cpu::memory::{ALIGN, AlignedBytes, Claims, RawBuf};
use onetrip_ir::device::{
    Choice, Commit, Counts, Device, DeviceError, HostTime, Recording, SubmitMode, TestDevice, Ticket, WeightData,
};
use onetrip_ir::kernel::Code;
use onetrip_ir::plan::{BufRef, Plan};
use onetrip_ir::simd::{Isa, Simd, simd};
use onetrip_ir::target::Target;

pub mod pool;

use pool::Pool;

/// The device's name.
const NAME: &str = "cpu";

/// A recording of this device: the plan and its dispatches and stamps in order. It serves every batch of the plan's bucket.
struct CpuRecording {
    plan: Arc<Plan>,
    entries: Vec<Entry>,
}

/// The CPU device: a thread pool, an arena for slots, and weights, which are not copied.
pub struct CpuDevice {
    pool: Pool,
    simd: &'static Simd,
    weights: Vec<WeightData>,
    states: Vec<AlignedBytes>,
    arena: AlignedBytes,
    /// Offset and size of each slot in the arena, for the last run.
    slots: Slots,
    guard: usize,
    overlaps: usize,
    recording: Option<CpuRecording>,
    stamps: Vec<f64>,
    /// Number of runs so far, which is also the number of the last run's ticket.
    runs: u64,
    counts: Counts,
}

impl CpuDevice {
    /// A device with `threads` workers (one for each processor if none is given) and the strongest instruction set of the
    /// processor.
    pub fn new(threads: Option<usize>) -> std::io::Result<CpuDevice> {
        CpuDevice::with_isa(threads, Isa::detect())
    }

    /// Like [`CpuDevice::new`], with a given instruction set.
    pub fn with_isa(threads: Option<usize>, isa: Isa) -> std::io::Result<CpuDevice> {
        let threads = match threads {
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        Ok(CpuDevice {
            pool: Pool::new(threads)?,
            simd: simd(isa),
            weights: vec![],
            states: vec![],
            arena: AlignedBytes::default(),
            slots: Slots::default(),
            guard: 0,
            overlaps: 0,
            recording: None,
            stamps: vec![],
            runs: 0,
            counts: Counts::default(),
        })
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.pool.workers()
    }

    fn error_memory(&self, asked: u64, what: &str) -> DeviceError {
        DeviceError::Memory { device: self.name().into(), asked, what: what.into() }
    }

    /// Places the plan's slots in the arena for a batch.
    fn place_slots(&mut self, plan: &Plan, batch: &StepBatch) -> Result<(), DeviceError> {
        self.slots = Slots::place(plan.slot_bytes(batch.bind()), ALIGN as u64, self.guard as u64);
        let bytes = self.slots.bytes;
        if bytes as usize > self.arena.as_ref().len() {
            let made = AlignedBytes::try_zeroed(bytes as usize);
            self.arena = made.ok_or_else(|| self.error_memory(bytes, "slots of a step"))?;
        }
        if self.guard > 0 {
            self.arena.as_mut().fill(POISON);
        }
        Ok(())
    }
}

impl Device for CpuDevice {
    fn name(&self) -> &str {
        NAME
    }

    fn target(&self) -> Target {
        Target::Cpu(self.simd.isa)
    }

    fn memory(&self) -> Option<u64> {
        None
    }

    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError> {
        self.weights = weights.collect();
        Ok(())
    }

    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        let total = bytes.iter().fold(0u64, |a, b| a.saturating_add(*b));
        let made: Option<_> = bytes.iter().map(|&b| AlignedBytes::try_zeroed(b as usize)).collect();
        self.states = made.ok_or_else(|| self.error_memory(total, "caches"))?;
        Ok(())
    }

    fn begin(&mut self, plan: &Arc<Plan>) {
        self.recording = Some(CpuRecording { plan: plan.clone(), entries: vec![] });
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(r) = &mut self.recording else { return Ok(()) };
        with_kernel(&r.plan, n, NAME)?;
        r.entries.push(Entry::Dispatch(n));
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
        match how.encode_thread || how.commit != Commit::Tick {
            false => Ok(()),
            true => {
                let why = "the CPU device runs every dispatch by itself";
                Err(DeviceError::Choice { what: Choice::Submission, why })
            }
        }
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let r: &CpuRecording = kept(recording, "CPU")?;
        let plan = &*r.plan;
        check_batch(plan, batch)?;
        self.place_slots(plan, batch)?;
        let arena = self.arena.raw();
        let states: Vec<RawBuf> = self.states.iter_mut().map(|s| s.raw()).collect();
        let resolve = |b: &BufRef| match *b {
            BufRef::Weight(w) => RawBuf::read_only((*self.weights[w]).as_ref()),
            BufRef::State(s) => states[s],
            BufRef::Slot(s) => {
                let (at, bytes) = self.slots.at[s];
                arena.slice(at as usize, bytes as usize)
            }
            // Only text kernels have these: CPU kernels read the batch itself.
            BufRef::Batch | BufRef::PendingTokens | BufRef::ZeroedWorkspace => RawBuf::read_only(&[]),
        };
        let (bind, workers) = (batch.bind(), self.pool.workers());
        let (jobs, barriers) = (self.pool.jobs(), self.pool.barriers());
        let rows: Vec<Option<(Vec<RawBuf>, Items)>> = r
            .entries
            .iter()
            .map(|e| match e {
                Entry::Dispatch(n) => {
                    let d = &plan.dispatches[*n];
                    let items = Items::new(d.grid.eval(bind) as usize, d.grain, workers);
                    Some((d.args.iter().map(resolve).collect(), items))
                }
                Entry::Stamp => None,
            })
            .collect();
        let stamps = Mutex::new(std::mem::take(&mut self.stamps));
        stamps.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let panicked = Mutex::new(None);
        let simd = self.simd;
        let noted = Claims::default();
        let claims = (self.guard > 0).then_some(&noted);
        let overlap = AtomicUsize::new(0);
        let start = Instant::now();
        self.pool.run(&|worker, scratch, barrier| {
            for (entry, row) in r.entries.iter().zip(&rows) {
                let (Entry::Dispatch(n), Some((args, items))) = (entry, row) else {
                    if worker == 0 {
                        let now = start.elapsed().as_secs_f64();
                        stamps.lock().unwrap_or_else(PoisonError::into_inner).push(now);
                    }
                    continue;
                };
                if let Some(Code::Cpu(kernel)) = &plan.dispatches[*n].code {
                    let call = CpuCall { args, batch, bind, items, simd, worker, claims };
                    // A worker that panics must still reach the barrier, or the others would wait for ever.
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| kernel(&call, scratch))) {
                        *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                    }
                }
                barrier.wait();
                if let Some(claims) = claims {
                    if worker == 0 && !claims.disjoint() {
                        overlap.fetch_add(1, Ordering::Relaxed);
                    }
                    barrier.wait();
                }
            }
        });
        self.stamps = stamps.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panicked.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
        self.overlaps += overlap.into_inner();
        self.counts.dispatches += rows.iter().flatten().count() as u64;
        // These are the pool's own counts, not those of the plan: it waits for every job, and checks of guards use the barrier
        // too.
        self.counts.barriers += self.pool.barriers() - barriers;
        self.counts.commits += self.pool.jobs() - jobs;
        self.counts.waits += self.pool.jobs() - jobs;
        self.runs += 1;
        Ok(Ticket(self.runs))
    }

    fn most_ticks(&self) -> usize {
        1
    }

    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError> {
        batches.iter().map(|batch| self.submit(recording, batch)).collect()
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        1
    }

    fn stamps(&self) -> &[f64] {
        &self.stamps
    }

    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError> {
        if run.0 != self.runs {
            return Err(DeviceError::Batch("outputs of an earlier run are gone".into()));
        }
        let (slot, width) = plan.outputs[index];
        let at = self.slots.start(slot);
        Ok(bytemuck::cast_slice(&self.arena.as_ref()[at..at + rows * width * 4]).to_vec())
    }

    fn read_state(&mut self, index: usize) -> Vec<u8> {
        self.states[index].as_ref().to_vec()
    }

    fn write_state(&mut self, index: usize, bytes: &[u8]) {
        self.states[index].as_mut().copy_from_slice(bytes);
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        if let Ok([from, to]) = self.states.get_disjoint_mut([from, to]) {
            to.as_mut().copy_from_slice(from.as_ref());
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn host_time(&self) -> HostTime {
        HostTime::default()
    }
}

impl TestDevice for CpuDevice {
    fn set_guards(&mut self, on: bool) {
        self.guard = if on { GUARD } else { 0 };
        self.overlaps = 0;
    }

    fn guards_intact(&mut self) -> bool {
        self.slots.are_guarded(self.arena.as_ref(), self.guard) && self.overlaps == 0
    }
}
