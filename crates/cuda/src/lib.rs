//! The CUDA device: it compiles text, owns memory, launches and times. It knows no op.
//!
//! A plan is recorded once for each shape of batch as a graph and replayed: one submission a step. What changes from step
//! to step lies in one buffer that is copied in front of it. Kernels are launched dependent on the one before: they may
//! start early, fetch weights, and wait by themselves.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{
    Choice, Commit, Counts, Device, DeviceError, HandOver, HostTime, RING, Recording, TestDevice, Ticket, WeightData,
};
use onetrip_ir::kernel::{Code, Text};
use onetrip_ir::plan::{BufRef, Plan};
use onetrip_ir::target::{CudaCaps, Target};

pub mod driver;
mod faults;
mod hand_over;
pub mod libs;
pub mod lt;
pub mod nvrtc;
mod ticks;

use driver::{CARVEOUT, DriverError, Event, Gpu, Kernel, Kind, Memory, NoGpu, Pinned, Properties, SMALL_SHARED};
use hand_over::{CudaRecording, Entry};
use lt::Lt;
use nvrtc::{CompileError, Compiler};

/// Slots and operands begin at multiples of this.
const ALIGN: u64 = 256;
/// Fills slots and guards in tests: four of it are a NaN.
const POISON: u8 = 0xff;
/// Guard bytes behind each slot in tests.
const GUARD: u64 = 256;
/// Bytes of zeroed words that kernels count in.
const ZEROS: u64 = 4 << 20;
/// Outputs up to this size are copied to the host with every run; larger ones are expected to be read at once.
const STAGED: u64 = 64 << 20;

/// What can be chosen when the device is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which GPU.
    pub ordinal: usize,
    /// Kernels wait for the end of the one before them.
    pub serial: bool,
    /// One launch each, and the host waits behind every one: a failure is said at its dispatch.
    pub sync: bool,
    /// For tests: kernels in which every warp waits a random short while, of this seed, before what it waits for and before
    /// it lets the next kernel begin.
    pub delays: Option<u32>,
    /// Products of matrices run on our own kernels, though cuBLASLt may be there.
    pub own: bool,
    /// Folder for compiled kernels.
    pub cache: Option<PathBuf>,
    /// Folders where libraries are looked for besides the usual places.
    pub libraries: Vec<PathBuf>,
}

/// Why the device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no GPU to use.
    #[error(transparent)]
    NoGpu(#[from] NoGpu),
    /// There is no compiler.
    #[error(transparent)]
    Compiler(#[from] CompileError),
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// What a run left on the host.
struct Kept {
    /// The first run of the submission, and how many it has.
    run: u64,
    ticks: u64,
    done: Event,
    /// Batch words on their way.
    words: Pinned,
    /// Outputs of the runs, in order: where each begins, and how many bytes of it are here.
    outputs: Pinned,
    at: Vec<(u64, u64)>,
}

/// The device.
pub struct CudaDevice {
    // Memory goes before the context it is in.
    weights: Vec<Memory>,
    weight_at: Vec<u64>,
    states: Vec<Memory>,
    arena: Option<Memory>,
    words: Option<Memory>,
    feed: Memory,
    zeros: Memory,
    places: ticks::Places,
    ring: Vec<Kept>,
    events: Vec<Event>,
    kernels: HashMap<Text, Kernel>,
    recording: Option<CudaRecording>,
    offsets: Vec<(u64, u64)>,
    /// Rises when memory moves: graphs made before cannot be replayed.
    generation: u64,
    guard: bool,
    stamps: Vec<f64>,
    runs: u64,
    launches: u64,
    counts: Counts,
    how: HandOver,
    host: HostTime,
    compiler: Compiler,
    options: Options,
    properties: Properties,
    name: String,
    lt: Option<Lt>,
    gpu: Gpu,
}

impl CudaDevice {
    /// Opens a GPU.
    pub fn open(options: Options) -> Result<CudaDevice, OpenError> {
        let all = driver::list(&options.libraries)?;
        let none = NoGpu::None(options.ordinal, all.len() as i32);
        let properties = all.into_iter().nth(options.ordinal).ok_or(none)?;
        let mut compiler = Compiler::new(properties.sm, options.cache.clone(), &options.libraries)?;
        compiler.defines.extend(options.delays.map(|seed| format!("-DDELAYS={seed}u")));
        let gpu = Gpu::open(options.ordinal)?;
        let lt = if options.own { None } else { Lt::open(&gpu, &options.libraries)? };
        let (feed, zeros) = (gpu.memory(1 << 16)?, gpu.memory(ZEROS)?);
        gpu.fill(feed.at, 0, feed.bytes)?;
        gpu.fill(zeros.at, 0, zeros.bytes)?;
        let mut ring = vec![];
        for _ in 0..RING {
            let (done, words, outputs) = (gpu.event(false)?, gpu.pinned(1 << 16)?, gpu.pinned(1 << 16)?);
            ring.push(Kept { run: 0, ticks: 0, done, words, outputs, at: vec![] });
        }
        let name = if options.ordinal == 0 { "cuda".into() } else { format!("cuda:{}", options.ordinal) };
        Ok(CudaDevice {
            weights: vec![],
            weight_at: vec![],
            states: vec![],
            arena: None,
            words: None,
            feed,
            zeros,
            places: Default::default(),
            ring,
            events: vec![],
            kernels: HashMap::new(),
            recording: None,
            offsets: vec![],
            generation: 0,
            guard: false,
            stamps: vec![],
            runs: 0,
            launches: 0,
            counts: Counts::default(),
            how: HandOver::by(Commit::Replay),
            host: HostTime::default(),
            compiler,
            options,
            properties,
            name,
            lt,
            gpu,
        })
    }

    /// What the GPU is.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// What the compiler is asked for, and its version.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Compiles kernels that will be wanted, on all processors.
    pub fn prepare(&mut self, texts: &[Arc<Text>]) -> Result<(), DeviceError> {
        let mut wanted: Vec<&Arc<Text>> = texts.iter().filter(|t| !self.kernels.contains_key(&***t)).collect();
        wanted.sort_by(|a, b| a.source.cmp(&b.source));
        wanted.dedup();
        let sources: Vec<(&str, &str)> = wanted.iter().map(|t| (&*t.entry, &*t.source)).collect();
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let codes = self.compiler.compile_all(&sources, threads);
        for (text, code) in wanted.into_iter().zip(codes) {
            let failed = |why: String| DeviceError::Failed { device: self.name.clone(), at: String::new(), why };
            let code = code.map_err(|e| failed(e.to_string()))?;
            let load = |code: &[u8]| self.gpu.load(code, &text.entry, text.shared);
            let kernel = match load(&code) {
                // What was kept of it may be damaged.
                Err(e) if e.kind == Kind::Other => {
                    let code = self.compiler.compile_anew(&text.entry, &text.source);
                    load(&code.map_err(|e| failed(e.to_string()))?)
                }
                loaded => loaded,
            };
            let kernel = kernel.map_err(|e| failed(e.to_string()))?;
            self.kernels.insert((**text).clone(), kernel);
        }
        Ok(())
    }

    /// Places the plan's slots in the arena for a batch.
    fn place_slots(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        self.offsets.clear();
        let (mut end, guard) = (0u64, if self.guard { GUARD } else { 0 });
        for &bytes in bytes {
            self.offsets.push((end, bytes));
            end = end.saturating_add(bytes).saturating_add(guard).saturating_add(ALIGN - 1) / ALIGN * ALIGN;
        }
        if self.arena.as_ref().is_none_or(|a| a.bytes < end) {
            self.gpu.wait().map_err(|e| self.failed(e))?;
            self.arena = None;
            self.arena = Some(self.allocate(end, "slots of a step")?);
            self.generation += 1;
        }
        if self.guard
            && let Some(arena) = &self.arena
        {
            self.gpu.fill(arena.at, POISON, arena.bytes).map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    /// Copies the batch's words to the device, in order with everything else.
    fn send_words(&mut self, words: &[u32], slot: usize) -> Result<(), DeviceError> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        if self.words.as_ref().is_none_or(|w| w.bytes < bytes.len() as u64) {
            self.gpu.wait().map_err(|e| self.failed(e))?;
            self.words = None;
            self.words =
                Some(self.allocate((bytes.len() as u64 * 2).next_power_of_two().max(1 << 16), "the step batch")?);
            self.generation += 1;
        }
        if self.ring[slot].words.bytes().len() < bytes.len() {
            let room = self.gpu.pinned(bytes.len().next_power_of_two()).map_err(|e| self.failed(e))?;
            self.ring[slot].words = room;
        }
        let kept = &mut self.ring[slot];
        kept.words.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let at = self.words.as_ref().map_or(0, |w| w.at);
        self.gpu.write_later(at, &self.ring[slot].words, bytes.len()).map_err(|e| self.failed(e))
    }

    /// The place of the ring for the next submission, when what was in it before is done.
    fn free_place(&mut self) -> Result<usize, DeviceError> {
        let slot = (self.launches % RING as u64) as usize;
        if self.ring[slot].run > 0 {
            self.ring[slot].done.wait().map_err(|e| self.failed(e))?;
        }
        Ok(slot)
    }

    fn address(&self, operand: &BufRef) -> u64 {
        let slots = self.arena.as_ref().map_or(0, |a| a.at);
        match *operand {
            BufRef::Weight(w) => self.weight_at[w],
            BufRef::State(s) => self.states[s].at,
            BufRef::Slot(s) => self.places.slot(s).unwrap_or(slots + self.offsets[s].0),
            BufRef::Batch => self.words.as_ref().map_or(0, |w| w.at) + self.places.batch(),
            BufRef::Feed => self.feed.at,
            BufRef::Zeros => self.zeros.at,
        }
    }

    /// Copies the outputs of the run to the host behind it, and marks its end.
    fn keep_outputs(&mut self, plan: &Plan, batch: &StepBatch, slot: usize) -> Result<(), DeviceError> {
        // Rows are the batch's as a rule; what an output has beyond them (a convolution's window) is read from its slot.
        let rows = batch.bind().t;
        let wanted = |slot: u64, width: usize| slot.min(rows * width as u64 * 4);
        let mut at = vec![];
        let mut end = 0u64;
        for &(s, width) in &plan.outputs {
            let bytes = wanted(self.offsets[s].1, width);
            at.push((end, bytes));
            end += bytes.next_multiple_of(ALIGN);
        }
        if end > STAGED {
            at.clear();
        } else if end > self.ring[slot].outputs.bytes().len() as u64 {
            let room = self.gpu.pinned((end as usize).next_power_of_two()).map_err(|e| self.failed(e))?;
            self.ring[slot].outputs = room;
        }
        for (&(s, _), &(to, bytes)) in plan.outputs.iter().zip(&at) {
            let (from, to) = (self.address(&BufRef::Slot(s)), to as usize);
            let copied = self.gpu.read_part(from, &self.ring[slot].outputs, to, bytes as usize);
            copied.map_err(|e| self.failed(e))?;
        }
        self.gpu.mark(&self.ring[slot].done).map_err(|e| self.failed(e))?;
        self.ring[slot].at = at;
        Ok(())
    }
}

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
        // Errors come out of `encode`, which asks for each kernel again.
        let _ = self.gpu.enter();
        let _ = self.prepare(&texts);
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(mut r) = self.recording.take() else { return Ok(()) };
        let d = &r.plan.dispatches[n];
        if let Some(why) = d.gap {
            return Err(DeviceError::Gap { n, name: d.name.clone(), device: self.name.clone(), why });
        }
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

    fn set_hand_over(&mut self, how: HandOver) -> Result<(), DeviceError> {
        if how.encode_thread {
            let why = "CUDA replays a kept graph, there is nothing to encode";
            return Err(DeviceError::Choice { what: Choice::EncodeThread, why });
        }
        self.how = how;
        Ok(())
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let r = recorded(recording)?;
        check_ropes(&r.plan, batch)?;
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
        // Everything that a recorded launch holds: places of slots and numbers of groups.
        let bind = batch.bind();
        let shape = bytes.iter().copied().chain(r.plan.dispatches.iter().map(|d| d.grid.eval(bind))).collect();
        self.hand_over_by(r, batch, shape)?;
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
        self.offsets
            .iter()
            .map(|(at, len)| (at + len) as usize)
            .all(|end| bytes[end..end + GUARD as usize].iter().all(|b| *b == POISON))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Nothing that is freed now may still be in use.
        let _ = self.gpu.enter().and_then(|()| self.gpu.wait());
    }
}

/// What this device recorded.
fn recorded(recording: &Recording) -> Result<&CudaRecording, DeviceError> {
    let found = recording.0.downcast_ref::<Option<CudaRecording>>().and_then(Option::as_ref);
    found.ok_or_else(|| DeviceError::Batch("the recording is not one of the CUDA device".into()))
}

fn check_ropes(plan: &Plan, batch: &StepBatch) -> Result<(), DeviceError> {
    let (have, want) = (batch.rope.len(), plan.ropes.len());
    match have == want {
        true => Ok(()),
        false => Err(DeviceError::Batch(format!("{have} rotary tables, the plan has {want}"))),
    }
}

fn text_of(d: &onetrip_ir::plan::Dispatch) -> Option<Arc<Text>> {
    match &d.code {
        Some(Code::Text(text)) => Some(text.clone()),
        _ => None,
    }
}
