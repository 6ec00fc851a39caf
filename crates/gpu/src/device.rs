//! The device: recordings, submissions under a commit policy, outputs read behind, time stamps.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onetrip_core::batch::StepBatch;
use onetrip_core::device::{Counts, Device, DeviceError, RING, Recording, Ticket, WeightData, ZERO_WORDS};
use onetrip_core::ops::{Code, Target, WgslCaps};
use onetrip_core::plan::{BufRef, Plan};
use wgpu::{Buffer, BufferUsages, Features};

use crate::adapter::{self, OpenError};
use crate::memory::{FEED, Memory};
use crate::pipelines::{Pipeline, Pipelines};

/// How dispatches are handed over; none waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// One submission a dispatch.
    Each,
    /// One submission for so many dispatches.
    Every(usize),
    /// One submission a tick.
    Tick,
}

/// What may be chosen when a device is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Part of the adapter's name.
    pub name: Option<String>,
    /// How dispatches are handed over.
    pub commit: Commit,
    /// Where compiled kernels are kept.
    pub cache: Option<PathBuf>,
    /// Kernels for an adapter with nothing optional, whatever this one has: for tests.
    pub plain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { name: None, commit: Commit::Tick, cache: None, plain: false }
    }
}

/// What a recording does, in order.
enum Entry {
    Dispatch(usize, Arc<Pipeline>),
    Stamp,
}

/// A recording: pipelines are made, and bind groups as long as no buffer is replaced.
struct GpuRecording {
    plan: Arc<Plan>,
    entries: Vec<Entry>,
    groups: Mutex<(u64, Vec<Option<wgpu::BindGroup>>)>,
}

/// A run whose outputs can be asked for.
struct Run {
    ticket: Ticket,
    index: wgpu::SubmissionIndex,
    /// Where each output begins in the buffer.
    offsets: Vec<u64>,
    is_waited: bool,
}

/// A place of the ring: a buffer to read, and what is or was in it.
#[derive(Default)]
struct Place {
    buffer: Option<Buffer>,
    run: Option<Run>,
}

/// Clocks of one recording in work.
struct Clocks {
    set: wgpu::QuerySet,
    resolved: Buffer,
    back: Buffer,
    count: u32,
}

/// The device.
pub struct GpuDevice {
    adapter: String,
    caps: WgslCaps,
    features: Features,
    memory_bytes: Option<u64>,
    is_software: bool,
    memory: Memory,
    pipelines: Pipelines,
    commit: Commit,
    weights: Vec<Buffer>,
    states: Vec<(Buffer, u64)>,
    slots: Vec<Buffer>,
    batch: Buffer,
    feed: Buffer,
    zeros: Buffer,
    /// Rises when a buffer is replaced: bind groups of before are made anew.
    generation: u64,
    ring: [Place; RING],
    next: u64,
    recording: Option<GpuRecording>,
    clocks: Option<Clocks>,
    stamps: Vec<f64>,
    /// Bytes of each slot in the last run, when guards are on.
    guarded: Option<Vec<u64>>,
    failure: Arc<Mutex<Option<String>>>,
    counts: Counts,
}

/// Fills slots and guards in tests: four of it are a NaN.
const POISON: u8 = 0xff;
/// Guard bytes behind each slot in tests.
const GUARD: u64 = 256;
/// Time stamps that one query set holds.
const MAX_STAMPS: u32 = 4096;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuDevice {
    /// Opens an adapter.
    pub fn open(options: &Options) -> Result<GpuDevice, OpenError> {
        let open = adapter::open(options.name.as_deref())?;
        let failure: Arc<Mutex<Option<String>>> = Arc::default();
        let noted = failure.clone();
        open.device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            lock(&noted).get_or_insert_with(|| e.to_string());
        }));
        let noted = failure.clone();
        open.device.set_device_lost_callback(move |reason, what| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                *lock(&noted) = Some(format!("the device was lost: {what}"));
            }
        });
        let pipelines = Pipelines::new(&open.device, &open.info, options.cache.as_deref());
        let binding = open.limits.max_storage_buffer_binding_size.min(open.limits.max_buffer_size);
        let memory = Memory { device: open.device, queue: open.queue, name: open.name.clone(), binding };
        let refused = |e: DeviceError| OpenError::Refused { adapter: open.name.clone(), why: e.to_string() };
        let batch = memory.storage("the step batch", 4096).map_err(refused)?;
        let feed = memory.storage("the feed", 4 * FEED).map_err(refused)?;
        let zeros = memory.storage("words to meet at", 4 * ZERO_WORDS as u64).map_err(refused)?;
        Ok(GpuDevice {
            adapter: open.name,
            caps: if options.plain {
                WgslCaps { f16: false, subgroups: None, coop: 0, ..open.caps }
            } else {
                open.caps
            },
            features: open.features,
            memory_bytes: open.memory,
            is_software: open.info.device_type == wgpu::DeviceType::Cpu,
            memory,
            pipelines,
            commit: options.commit,
            weights: vec![],
            states: vec![],
            slots: vec![],
            batch,
            feed,
            zeros,
            generation: 0,
            ring: Default::default(),
            next: 0,
            recording: None,
            clocks: None,
            stamps: vec![],
            guarded: None,
            failure,
            counts: Counts::default(),
        })
    }

    /// The adapter's name.
    pub fn adapter(&self) -> &str {
        &self.adapter
    }

    /// What kernels may use.
    pub fn caps(&self) -> WgslCaps {
        self.caps
    }

    /// Bytes of the adapter's memory, where the backend tells.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    /// A processor plays the GPU.
    pub fn is_software(&self) -> bool {
        self.is_software
    }

    /// Changes how dispatches are handed over.
    pub fn set_commit(&mut self, commit: Commit) {
        self.commit = commit;
    }

    fn failed(&self, at: String, why: String) -> DeviceError {
        DeviceError::Failed { device: self.adapter.clone(), at, why }
    }

    /// What the driver complained about since the last time.
    fn check(&self) -> Result<(), DeviceError> {
        match lock(&self.failure).take() {
            None => Ok(()),
            Some(why) => Err(self.failed(String::new(), why)),
        }
    }

    /// Slots large enough for a batch.
    fn place_slots(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        let guard = if self.guarded.is_some() { GUARD } else { 0 };
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
                self.memory.write(slot, 0, &vec![POISON; (bytes.next_multiple_of(4) + GUARD) as usize]);
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
            BufRef::Feed => Some(&self.feed),
            BufRef::Zeros => Some(&self.zeros),
        }
    }

    fn bind_groups(&self, r: &GpuRecording) -> Result<(), DeviceError> {
        let mut groups = lock(&r.groups);
        if groups.0 == self.generation && groups.1.len() == r.entries.len() {
            return Ok(());
        }
        groups.1.clear();
        for entry in &r.entries {
            let Entry::Dispatch(n, pipeline) = entry else {
                groups.1.push(None);
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
            groups.1.push(Some(self.memory.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&d.name),
                layout: &pipeline.layout,
                entries: &entries,
            })));
        }
        groups.0 = self.generation;
        Ok(())
    }

    /// Makes query sets for so many stamps, where the device has clocks.
    fn make_clocks(&mut self, count: u32) -> Result<(), DeviceError> {
        let has = Features::TIMESTAMP_QUERY_INSIDE_PASSES | Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
        if count == 0 || count > MAX_STAMPS || !self.features.intersects(has) {
            self.clocks = None;
            return Ok(());
        }
        if self.clocks.as_ref().is_some_and(|c| c.count == count) {
            return Ok(());
        }
        let bytes = 8 * u64::from(count);
        let set = self.memory.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let resolved =
            self.memory.buffer("time stamps", bytes, BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC)?;
        let back = self.memory.buffer("time stamps", bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
        self.clocks = Some(Clocks { set, resolved, back, count });
        Ok(())
    }

    /// Encodes and submits all entries.
    fn hand_over(&mut self, r: &GpuRecording, batch: &StepBatch) -> (Option<wgpu::CommandEncoder>, u64) {
        let per = match self.commit {
            Commit::Each => 1,
            Commit::Every(k) => k.max(1),
            Commit::Tick => usize::MAX,
        };
        let bind = batch.bind();
        let groups = lock(&r.groups);
        let inside = self.features.contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES);
        let device = &self.memory.device;
        let (mut stamp, mut commits, mut since) = (0, 0, 0);
        let mut encoder = device.create_command_encoder(&Default::default());
        let mut entries = r.entries.iter().zip(&groups.1).peekable();
        while entries.peek().is_some() {
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                while let Some((entry, group)) = entries.peek() {
                    match entry {
                        Entry::Stamp => match &self.clocks {
                            Some(clocks) if inside => {
                                pass.write_timestamp(&clocks.set, stamp);
                                stamp += 1;
                            }
                            Some(_) => break,
                            None => {}
                        },
                        Entry::Dispatch(n, pipeline) => {
                            if since == per {
                                break;
                            }
                            let d = &r.plan.dispatches[*n];
                            let grid = d.grid.eval(bind).max(1);
                            let x = grid.min(65_535);
                            pass.set_pipeline(&pipeline.pipeline);
                            pass.set_bind_group(0, group.as_ref(), &[]);
                            pass.dispatch_workgroups(x as u32, grid.div_ceil(x) as u32, 1);
                            self.counts.dispatches += 1;
                            since += 1;
                        }
                    }
                    entries.next();
                }
            }
            // A pass ends where a stamp needs an end of a pass, or where so many dispatches are handed over.
            if let (Some((Entry::Stamp, _)), Some(clocks)) = (entries.peek(), &self.clocks) {
                encoder.write_timestamp(&clocks.set, stamp);
                stamp += 1;
                entries.next();
            } else if since == per && entries.peek().is_some() {
                self.memory.queue.submit([encoder.finish()]);
                commits += 1;
                since = 0;
                encoder = device.create_command_encoder(&Default::default());
            }
        }
        if let Some(clocks) = &self.clocks {
            encoder.resolve_query_set(&clocks.set, 0..clocks.count, &clocks.resolved, 0);
            encoder.copy_buffer_to_buffer(&clocks.resolved, 0, &clocks.back, 0, 8 * u64::from(clocks.count));
        }
        (Some(encoder), commits)
    }

    /// Waits for a run and reads its clocks.
    fn wait_for(&mut self, place: usize) -> Result<(), DeviceError> {
        let Some(run) = &mut self.ring[place].run else { return Ok(()) };
        if !run.is_waited {
            run.is_waited = true;
            let wait = wgpu::PollType::Wait { submission_index: Some(run.index.clone()), timeout: None };
            self.counts.waits += 1;
            if let Err(e) = self.memory.device.poll(wait) {
                let why = e.to_string();
                self.check()?;
                return Err(self.failed(String::new(), why));
            }
        }
        self.check()?;
        self.read_clocks()
    }

    fn read_clocks(&mut self) -> Result<(), DeviceError> {
        let Some(clocks) = &self.clocks else { return Ok(()) };
        clocks.back.map_async(wgpu::MapMode::Read, .., |_| {});
        let _ = self.memory.device.poll(wgpu::PollType::wait_indefinitely());
        let ticks: Vec<u64> = match clocks.back.get_mapped_range(..) {
            Ok(view) => bytemuck::pod_collect_to_vec(&view),
            Err(e) => return Err(self.failed(String::new(), e.to_string())),
        };
        clocks.back.unmap();
        let period = f64::from(self.memory.queue.get_timestamp_period()) * 1e-9;
        let first = ticks.first().copied().unwrap_or(0);
        // A driver that gives zeros has no clock: that is not a time.
        let is_offered = ticks.iter().all(|&t| t > 0);
        self.stamps.clear();
        if is_offered {
            self.stamps.extend(ticks.iter().map(|&t| t.saturating_sub(first) as f64 * period));
        }
        self.clocks = None;
        Ok(())
    }
}

impl Device for GpuDevice {
    fn name(&self) -> &str {
        "gpu"
    }

    fn target(&self) -> Target {
        Target::Wgsl(self.caps)
    }

    fn set_weights(&mut self, weights: Vec<WeightData>) -> Result<(), DeviceError> {
        self.weights.clear();
        self.generation += 1;
        let total: u64 = weights.iter().map(|w| (**w).as_ref().len() as u64).sum();
        if let Some(have) = self.memory_bytes.filter(|have| total > *have) {
            let what = format!("weights ({} MB more than the {} MB it has)", (total - have) >> 20, have >> 20);
            return Err(DeviceError::Memory { device: self.adapter.clone(), asked: total, what });
        }
        for weight in weights {
            self.weights.push(self.memory.upload("a weight", (*weight).as_ref())?);
        }
        self.memory.queue.submit([]);
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
        self.recording = Some(GpuRecording { plan: plan.clone(), entries: vec![], groups: Mutex::default() });
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(r) = &mut self.recording else { return Ok(()) };
        let d = &r.plan.dispatches[n];
        if let Some(why) = d.gap {
            return Err(DeviceError::Gap { n, name: d.name.clone(), device: "gpu".into(), why });
        }
        let Some(Code::Text(text)) = &d.code else {
            let why = "the kernel is not one in WGSL".to_string();
            return Err(DeviceError::Failed { device: self.adapter.clone(), at: format!(" at dispatch {n}"), why });
        };
        let made = self.pipelines.get(&self.memory.device, &d.kernel, text);
        let pipeline = made.map_err(|why| DeviceError::Failed {
            device: self.adapter.clone(),
            at: format!(" at dispatch {n} ({}, {})", d.name, d.kernel),
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
        Recording(Box::new(self.recording.take()))
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let Some(Some(r)) = recording.0.downcast_ref::<Option<GpuRecording>>() else {
            return Err(DeviceError::Batch("the recording is not one of the wgpu device".into()));
        };
        let plan = &*r.plan;
        if batch.rope.len() != plan.ropes.len() {
            let (have, want) = (batch.rope.len(), plan.ropes.len());
            return Err(DeviceError::Batch(format!("{have} rotary tables, the plan has {want}")));
        }
        if batch.seqs.len() as u64 > FEED {
            return Err(DeviceError::Batch(format!("{} sequences, there is room for {FEED}", batch.seqs.len())));
        }
        let bytes = plan.slot_bytes(batch.bind());
        self.place_slots(&bytes)?;
        let words = batch.words();
        if 4 * words.len() as u64 > self.batch.size() {
            self.batch = self.memory.storage("the step batch", 8 * words.len() as u64)?;
            self.generation += 1;
        }
        self.memory.queue.write_buffer(&self.batch, 0, bytemuck::cast_slice(&words));
        self.bind_groups(r)?;
        let stamps = r.entries.iter().filter(|e| matches!(e, Entry::Stamp)).count();
        self.stamps.clear();
        self.make_clocks(stamps as u32)?;

        // The place of the oldest run: its outputs are given up.
        let ticket = Ticket(self.next);
        self.next += 1;
        let place = (ticket.0 % RING as u64) as usize;
        self.wait_for(place)?;
        let sizes: Vec<u64> = plan.outputs.iter().map(|(slot, _)| bytes[*slot].next_multiple_of(16)).collect();
        let total: u64 = sizes.iter().sum::<u64>().max(16);
        match &self.ring[place].buffer {
            Some(b) if b.size() >= total => b.unmap(),
            _ => {
                let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
                self.ring[place].buffer = Some(self.memory.buffer("outputs", total, usage)?);
            }
        }
        let (encoder, commits) = self.hand_over(r, batch);
        let (Some(mut encoder), Some(back)) = (encoder, &self.ring[place].buffer) else {
            return Err(self.failed(String::new(), "there is no place for outputs".into()));
        };
        let (mut offsets, mut at) = (vec![], 0);
        for ((slot, _), size) in plan.outputs.iter().zip(&sizes) {
            let size = (*size).min(self.slots[*slot].size());
            encoder.copy_buffer_to_buffer(&self.slots[*slot], 0, back, at, size);
            offsets.push(at);
            at += size;
        }
        let index = self.memory.queue.submit([encoder.finish()]);
        back.map_async(wgpu::MapMode::Read, .., |_| {});
        self.ring[place].run = Some(Run { ticket, index, offsets, is_waited: false });
        self.counts.commits += commits + 1;
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
        match self.states.get(index) {
            Some((buffer, bytes)) => self.memory.read(buffer, 0, *bytes).unwrap_or_default(),
            None => vec![],
        }
    }

    fn write_state(&mut self, index: usize, bytes: &[u8]) {
        if let Some((buffer, _)) = self.states.get(index) {
            self.memory.write(buffer, 0, bytes);
        }
    }

    fn set_guards(&mut self, on: bool) {
        self.guarded = on.then(Vec::new);
    }

    fn guards_intact(&mut self) -> bool {
        let Some(sizes) = &self.guarded else { return true };
        let intact = |(slot, &bytes): (&Buffer, &u64)| {
            let guard = self.memory.read(slot, bytes, GUARD);
            guard.is_ok_and(|g| g.iter().all(|b| *b == POISON))
        };
        self.slots.iter().zip(sizes).all(intact)
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
