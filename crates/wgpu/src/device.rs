//! The wgpu device: recordings, submissions under a commit policy, outputs that are copied back behind each run, and time
//! stamps.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onetrip_device_common::arena::{GUARD, POISON, is_intact};
use onetrip_device_common::recording::{check_batch, kept, stamps, with_kernel};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{
    Choice, Commit, Counts, Device, DeviceError, HostTime, RING, Recording, SubmitMode, TestDevice, Ticket, WeightData,
    ZEROED_WORKSPACE_WORDS,
};
use onetrip_ir::kernel::Code;
use onetrip_ir::plan::{BufRef, Plan};
use onetrip_ir::target::{Target, WgslCaps};
use wgpu::{Buffer, BufferUsages, Features};

use crate::adapter::{self, OpenError};
use crate::clocks::{Clocks, MAX_STAMPS};
use crate::failure::Failures;
use crate::memory::{Memory, PENDING_TOKEN};
use crate::pipelines::Pipelines;
use crate::submit::{Done, Entry, Gone, Hands, Job, WgpuRecording};

/// Options with which the device is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Part of the adapter's name.
    pub name: Option<String>,
    /// Folder for compiled kernels.
    pub cache: Option<PathBuf>,
    /// For tests: kernels are chosen as for an adapter without any optional feature.
    pub plain: bool,
    /// The number, from 1, of the run that a graphics debugger captures.
    pub capture: Option<u64>,
    /// For tests: the most bytes of a weight in one buffer, below the adapter's limit.
    pub binding_bytes: Option<u64>,
    /// For tests: the bytes of memory that the device reports, in place of the adapter's.
    pub memory: Option<u64>,
    /// For tests: the number of the run before which the device is lost.
    pub lost_at: Option<u64>,
}

/// A submitted run whose outputs can still be read.
struct Run {
    ticket: Ticket,
    /// The last submission of the run; none until the encode thread has submitted it.
    index: Option<wgpu::SubmissionIndex>,
    /// The query set of the run's time stamps, and their number.
    clocks: Option<(Arc<Clocks>, u32)>,
    /// Offset in bytes of each output in the buffer of the ring entry.
    offsets: Vec<u64>,
    is_waited: bool,
}

/// One entry of the ring: the buffer to which the outputs of a run are copied for the host, and that run.
#[derive(Default)]
struct Place {
    buffer: Option<Buffer>,
    run: Option<Run>,
}

/// A GPU through wgpu: buffers, pipelines, and the recordings that it submits.
pub struct WgpuDevice {
    adapter: String,
    caps: WgslCaps,
    features: Features,
    memory_bytes: Option<u64>,
    lost_at: Option<u64>,
    is_software: bool,
    memory: Memory,
    pipelines: Pipelines,
    how: SubmitMode,
    hands: Hands,
    capture: Option<u64>,
    /// True if the adapter can write time stamps inside a compute pass.
    inside: bool,
    weights: Vec<Buffer>,
    states: Vec<(Buffer, u64)>,
    slots: Vec<Buffer>,
    batch: Buffer,
    pending_tokens: Buffer,
    workspace: Buffer,
    /// Rises whenever a buffer is replaced: bind groups of an earlier generation refer to old buffers and are made anew.
    generation: u64,
    ring: [Place; RING],
    next: u64,
    recording: Option<WgpuRecording>,
    /// A query set that no run in flight uses.
    clocks: Option<Arc<Clocks>>,
    stamps: Vec<f64>,
    /// Bytes of each slot in the last run, when guards are on.
    guarded: Option<Vec<u64>>,
    failures: Failures,
    counts: Counts,
    host: HostTime,
}

/// The device's name.
const NAME: &str = "wgpu";

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WgpuDevice {
    /// Opens an adapter.
    pub fn open(options: &Options) -> Result<WgpuDevice, OpenError> {
        let open = adapter::open(options.name.as_deref())?;
        let failures = Failures::of(&open.device);
        let pipelines = Pipelines::new(&open.device, &open.info, options.cache.as_deref());
        let binding = open.limits.max_storage_buffer_binding_size.min(open.limits.max_buffer_size);
        let memory = Memory { device: open.device, queue: open.queue, name: open.name.clone(), binding };
        let refused = |e: DeviceError| OpenError::Refused { adapter: open.name.clone(), why: e.to_string() };
        let batch = memory.storage("the step batch", 4096).map_err(refused)?;
        let pending_tokens = memory.storage("the feed", 4 * PENDING_TOKEN).map_err(refused)?;
        let workspace = memory.storage("words to meet at", 4 * ZEROED_WORKSPACE_WORDS as u64).map_err(refused)?;
        let mut caps = open.caps;
        if options.plain {
            caps = WgslCaps { f16: false, subgroups: None, coop: 0, ..caps };
        }
        caps.binding_bytes = caps.binding_bytes.min(options.binding_bytes.unwrap_or(u64::MAX));
        Ok(WgpuDevice {
            adapter: open.name,
            inside: open.features.contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES) && !options.plain,
            caps,
            features: open.features,
            memory_bytes: options.memory.or(open.memory),
            lost_at: options.lost_at,
            is_software: open.info.device_type == wgpu::DeviceType::Cpu,
            hands: Hands::new(&memory.device, &memory.queue),
            memory,
            pipelines,
            how: SubmitMode::by(Commit::Tick),
            capture: options.capture,
            weights: vec![],
            states: vec![],
            slots: vec![],
            batch,
            pending_tokens,
            workspace,
            generation: 0,
            ring: Default::default(),
            next: 0,
            recording: None,
            clocks: None,
            stamps: vec![],
            guarded: None,
            failures,
            counts: Counts::default(),
            host: HostTime::default(),
        })
    }

    /// The adapter's name.
    pub fn adapter(&self) -> &str {
        &self.adapter
    }

    /// Missing features that make kernels slower on this adapter than on most, each with its consequence.
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        adapter::slower(&self.caps)
    }

    /// The features and limits by which kernels are chosen.
    pub fn caps(&self) -> WgslCaps {
        self.caps
    }

    /// True if the adapter is a software renderer on the CPU.
    pub fn is_software(&self) -> bool {
        self.is_software
    }

    fn failed(&self, at: String, why: String) -> DeviceError {
        DeviceError::Failed { device: self.adapter.clone(), at, why }
    }

    /// Returns the first failure that the driver reported since the last call.
    fn check(&self) -> Result<(), DeviceError> {
        self.failures.take(&self.adapter).map_or(Ok(()), Err)
    }

    fn encode_thread(&self, why: String) -> DeviceError {
        DeviceError::EncodeThread { device: self.adapter.clone(), why }
    }

    fn gone(&self, _: Gone) -> DeviceError {
        self.encode_thread("the thread that encodes ended".into())
    }

    fn note(&mut self, done: Done) {
        self.counts.dispatches += done.dispatches;
        self.counts.commits += done.commits;
        self.counts.waits += done.waits;
        self.host.encode += done.host.encode;
        self.host.ahead += done.host.ahead;
        let place = &mut self.ring[(done.ticket.0 % RING as u64) as usize];
        if let Some(run) = place.run.as_mut().filter(|run| run.ticket == done.ticket) {
            run.index = Some(done.index);
            if let Some((_, stamps)) = &mut run.clocks {
                *stamps = done.stamps;
            }
        }
    }

    /// Waits until the encoding thread, if there is one, has submitted all of its runs.
    fn settle(&mut self) -> Result<(), DeviceError> {
        while let Some(done) = self.hands.take(true).map_err(|e| self.gone(e))? {
            self.note(done);
        }
        Ok(())
    }

    /// Makes every slot's buffer large enough for a batch; with guards on, fills the buffers with the poison byte.
    fn place_slots(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        if self.guarded.is_some() {
            // The fill below is submitted at once. So runs that the encode thread still has must be submitted before it.
            self.settle()?;
        }
        let guard = if self.guarded.is_some() { GUARD as u64 } else { 0 };
        for (i, bytes) in bytes.iter().enumerate() {
            let wanted = (bytes + guard).max(16).next_multiple_of(16);
            if self.slots.get(i).is_some_and(|b| b.size() >= wanted) {
                continue;
            }
            let made = self.memory.storage("a slot of a step", wanted)?;
            self.generation += 1;
            match self.slots.get_mut(i) {
                Some(slot) => *slot = made,
                None => self.slots.push(made),
            }
        }
        if let Some(noted) = &mut self.guarded {
            noted.clear();
            for (slot, bytes) in self.slots.iter().zip(bytes) {
                self.memory.write(slot, 0, &vec![POISON; bytes.next_multiple_of(4) as usize + GUARD]);
                noted.push(bytes.next_multiple_of(4));
            }
        }
        Ok(())
    }

    fn buffer_of(&self, b: &BufRef) -> Option<&Buffer> {
        match *b {
            BufRef::Weight(w) => self.weights.get(w),
            BufRef::State(s) => self.states.get(s).map(|s| &s.0),
            BufRef::Slot(s) => self.slots.get(s),
            BufRef::Batch => Some(&self.batch),
            BufRef::PendingTokens => Some(&self.pending_tokens),
            BufRef::ZeroedWorkspace => Some(&self.workspace),
        }
    }

    fn bind_groups(&self, r: &WgpuRecording) -> Result<Arc<Vec<Option<wgpu::BindGroup>>>, DeviceError> {
        let mut kept = lock(&r.groups);
        if kept.0 == self.generation && kept.1.len() == r.entries.len() {
            return Ok(kept.1.clone());
        }
        let mut groups = vec![];
        for entry in &r.entries {
            let Entry::Dispatch(n, pipeline) = entry else {
                groups.push(None);
                continue;
            };
            let d = &r.plan.dispatches[*n];
            let mut entries = vec![];
            for (i, arg) in d.args.iter().enumerate() {
                let Some(buffer) = self.buffer_of(arg) else {
                    return Err(self.failed(format!(" at dispatch {n} ({})", d.name), format!("{arg:?} is missing")));
                };
                entries.push(wgpu::BindGroupEntry { binding: i as u32, resource: buffer.as_entire_binding() });
            }
            groups.push(Some(self.memory.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&d.name),
                layout: &pipeline.layout,
                entries: &entries,
            })));
        }
        *kept = (self.generation, Arc::new(groups));
        Ok(kept.1.clone())
    }

    /// A query set for the time stamps of a run; none if the run has no stamps or the device cannot write them.
    fn clocks_for(&mut self, r: &WgpuRecording) -> Result<Option<Arc<Clocks>>, DeviceError> {
        let own = r.entries.iter().filter(|e| matches!(e, Entry::Stamp)).count();
        let count = stamps(own, r.dispatches(), self.how);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count == 0 || count > MAX_STAMPS || !self.features.contains(Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        match self.clocks.take().filter(|c| c.count >= count) {
            Some(spare) => Ok(Some(spare)),
            None => Ok(Some(Arc::new(Clocks::new(&self.memory, count)?))),
        }
    }

    /// Waits for the run of a ring entry and reads its time stamps.
    fn wait_for(&mut self, place: usize) -> Result<(), DeviceError> {
        while self.ring[place].run.as_ref().is_some_and(|run| run.index.is_none()) {
            match self.hands.take(true).map_err(|e| self.gone(e))? {
                Some(done) => self.note(done),
                None => return Err(self.gone(Gone)),
            }
        }
        let Some(run) = &mut self.ring[place].run else { return Ok(()) };
        if !run.is_waited {
            run.is_waited = true;
            let wait = wgpu::PollType::Wait { submission_index: run.index.clone(), timeout: None };
            self.counts.waits += 1;
            if let Err(e) = self.memory.device.poll(wait) {
                let why = e.to_string();
                self.check()?;
                return Err(self.failed(String::new(), why));
            }
        }
        let clocks = run.clocks.take();
        self.check()?;
        if let Some((clocks, count)) = clocks.filter(|(_, count)| *count > 0) {
            let read = clocks.read(count, self.memory.queue.get_timestamp_period());
            self.stamps = read.map_err(|why| self.failed(String::new(), why))?;
            self.clocks = Some(clocks);
        }
        Ok(())
    }
}

impl Device for WgpuDevice {
    fn name(&self) -> &str {
        NAME
    }

    fn target(&self) -> Target {
        Target::Wgsl(self.caps)
    }

    fn memory(&self) -> Option<u64> {
        self.memory_bytes
    }

    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError> {
        self.weights.clear();
        self.generation += 1;
        self.weights = self.memory.upload(weights)?;
        self.check()
    }

    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        self.generation += 1;
        self.states.clear();
        for &bytes in bytes {
            self.states.push((self.memory.storage("a cache", bytes)?, bytes));
        }
        self.check()
    }

    fn begin(&mut self, plan: &Arc<Plan>) {
        self.recording = Some(WgpuRecording { plan: plan.clone(), entries: vec![], groups: Default::default() });
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(r) = &mut self.recording else { return Ok(()) };
        let d = with_kernel(&r.plan, n, NAME)?;
        let Some(Code::Text(text)) = &d.code else {
            let why = "the kernel is not one in WGSL".to_string();
            return Err(DeviceError::Failed { device: self.adapter.clone(), at: format!(" at dispatch {n}"), why });
        };
        let made = self.pipelines.get(&self.memory.device, &d.kernel_name(), text);
        let pipeline = made.map_err(|why| DeviceError::Failed {
            device: self.adapter.clone(),
            at: format!(" at dispatch {n} ({}, {})", d.name, d.kernel_name()),
            why,
        })?;
        r.entries.push(Entry::Dispatch(n, pipeline));
        Ok(())
    }

    fn stamp(&mut self) {
        if let Some(r) = &mut self.recording {
            r.entries.push(Entry::Stamp);
        }
    }

    fn finish(&mut self) -> Recording {
        self.pipelines.save();
        Recording(Box::new(self.recording.take().map(Arc::new)))
    }

    fn set_submit_mode(&mut self, how: SubmitMode) -> Result<(), DeviceError> {
        if how.commit == Commit::Replay {
            let why = "wgpu keeps no recording of a tick, each is encoded afresh";
            return Err(DeviceError::Choice { what: Choice::Replay, why });
        }
        self.settle()?;
        let started = self.hands.set_thread(how.encode_thread);
        started.map_err(|e| self.encode_thread(format!("no thread to encode on: {e}")))?;
        self.how = how;
        Ok(())
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        self.check()?;
        let r: &Arc<WgpuRecording> = kept(recording, "wgpu")?;
        let plan = &*r.plan;
        check_batch(plan, batch)?;
        if batch.seqs.len() as u64 > PENDING_TOKEN {
            return Err(DeviceError::Batch(format!(
                "{} sequences, there is room for {PENDING_TOKEN}",
                batch.seqs.len()
            )));
        }
        let bytes = plan.slot_bytes(batch.bind());
        self.place_slots(&bytes)?;
        let words = batch.words();
        if 4 * words.len() as u64 > self.batch.size() {
            self.batch = self.memory.storage("the step batch", 8 * words.len() as u64)?;
            self.generation += 1;
        }
        let groups = self.bind_groups(r)?;
        self.stamps.clear();

        // This run takes the ring entry of the oldest run, whose outputs are lost.
        let ticket = Ticket(self.next);
        self.next += 1;
        if self.lost_at == Some(ticket.0) {
            self.memory.device.destroy();
        }
        let place = (ticket.0 % RING as u64) as usize;
        self.wait_for(place)?;
        let clocks = self.clocks_for(r)?;
        let (mut outputs, mut offsets, mut total) = (vec![], vec![], 0);
        for &(slot, _) in &plan.outputs {
            let size = bytes[slot].next_multiple_of(16);
            outputs.push((self.slots[slot].clone(), total, size.min(self.slots[slot].size())));
            offsets.push(total);
            total += size;
        }
        let back = match self.ring[place].buffer.take().filter(|b| b.size() >= total) {
            Some(b) => {
                b.unmap();
                b
            }
            None => self.memory.buffer("outputs", total.max(16), BufferUsages::MAP_READ | BufferUsages::COPY_DST)?,
        };
        let run = Run { ticket, index: None, clocks: clocks.clone().map(|c| (c, 0)), offsets, is_waited: false };
        self.ring[place] = Place { buffer: Some(back.clone()), run: Some(run) };
        let job = Job {
            ticket,
            recording: r.clone(),
            groups,
            batch: (self.batch.clone(), words),
            bind: batch.bind(),
            how: self.how,
            clocks,
            inside: self.inside,
            outputs,
            back,
            is_captured: self.capture == Some(self.next),
        };
        if let Some(done) = self.hands.give(job).map_err(|e| self.gone(e))? {
            self.note(done);
        }
        while let Some(done) = self.hands.take(false).map_err(|e| self.gone(e))? {
            self.note(done);
        }
        self.check()?;
        Ok(ticket)
    }

    fn most_ticks(&self) -> usize {
        1
    }

    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError> {
        batches.iter().map(|batch| self.submit(recording, batch)).collect()
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        let Some(last) = self.next.checked_sub(1) else { return Ok(()) };
        self.wait_for((last % RING as u64) as usize)
    }

    fn in_flight(&self) -> usize {
        3
    }

    fn stamps(&self) -> &[f64] {
        &self.stamps
    }

    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError> {
        let place = (run.0 % RING as u64) as usize;
        self.wait_for(place)?;
        let gone = || DeviceError::Batch("the run's outputs are not kept any more".into());
        let Place { buffer: Some(buffer), run: Some(kept) } = &self.ring[place] else { return Err(gone()) };
        let (Some(&(_, width)), Some(&at)) = (plan.outputs.get(index), kept.offsets.get(index)) else {
            return Err(gone());
        };
        let bytes = (rows * width * 4) as u64;
        if kept.ticket != run || at + bytes > buffer.size() {
            return Err(gone());
        }
        let view = buffer.get_mapped_range(at..at + bytes.max(4));
        let view = view.map_err(|e| self.failed(String::new(), e.to_string()))?;
        Ok(bytemuck::pod_collect_to_vec(&view[..bytes as usize]))
    }

    fn read_state(&mut self, index: usize) -> Vec<u8> {
        // A failure shows in the next submission, which reports it.
        let _ = self.settle();
        match self.states.get(index) {
            Some((buffer, bytes)) => self.memory.read(buffer, 0, *bytes).unwrap_or_default(),
            None => vec![],
        }
    }

    fn write_state(&mut self, index: usize, bytes: &[u8]) {
        let _ = self.settle();
        if let Some((buffer, _)) = self.states.get(index) {
            self.memory.write(buffer, 0, bytes);
        }
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        let _ = self.settle();
        if let (Some((from, bytes)), Some((to, _))) = (self.states.get(from), self.states.get(to)) {
            self.memory.copy(from, to, *bytes);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn host_time(&self) -> HostTime {
        self.host
    }
}

impl TestDevice for WgpuDevice {
    fn set_guards(&mut self, on: bool) {
        self.guarded = on.then(Vec::new);
    }

    fn guards_intact(&mut self) -> bool {
        let Some(sizes) = &self.guarded else { return true };
        let intact = |(slot, &bytes): (&Buffer, &u64)| {
            self.memory.read(slot, bytes, GUARD as u64).is_ok_and(|guard| is_intact(&guard))
        };
        self.slots.iter().zip(sizes).all(intact)
    }
}
