//! The state of the CUDA device: memory, loaded kernels, the ring of outputs, and where a batch's operands lie.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use onetrip_device_common::arena::{GUARD, POISON, Slots};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{Commit, Counts, DeviceError, HostTime, RING, SubmitMode};
use onetrip_ir::kernel::Text;
use onetrip_ir::plan::{BufRef, Plan};

use crate::driver::{self, DriverError, Event, Gpu, Kernel, Kind, Memory, NoGpu, Pinned, Properties};
use crate::faults;
use crate::lt::Lt;
use crate::nvrtc::{CompileError, Compiler};
use crate::places::Places;
use crate::recording::CudaRecording;

/// Alignment of slots and operands, in bytes.
pub(crate) const ALIGN: u64 = 256;
/// Bytes of the zeroed workspace, where kernels keep split-K semaphores and other counters that begin at zero.
pub(crate) const ZEROED_WORKSPACE_BYTES: u64 = 4 << 20;
/// Outputs of a run up to this many bytes in all are copied to pinned memory behind the run; larger ones stay in their slots
/// and must be read before the next run.
pub(crate) const STAGED: u64 = 64 << 20;

/// Options with which the device is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The driver's ordinal of the GPU.
    pub ordinal: usize,
    /// No dependent launch: a kernel starts only when the one before it has ended.
    pub serial: bool,
    /// The host launches every dispatch by itself and waits for it, so that a failure is reported at its own dispatch.
    pub sync: bool,
    /// For tests: the seed of short random delays. Every warp sleeps before the dependency wait and before it lets the next
    /// kernel start.
    pub delays: Option<u32>,
    /// Matrix products run on our own kernels even where cuBLASLt is installed.
    pub own: bool,
    /// Folder for compiled kernels.
    pub cache: Option<PathBuf>,
    /// Folders that are searched for libraries besides the usual places.
    pub libraries: Vec<PathBuf>,
}

/// Why the device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No GPU can be used.
    #[error(transparent)]
    NoGpu(#[from] NoGpu),
    /// The run-time compiler (NVRTC) is missing.
    #[error(transparent)]
    Compiler(#[from] CompileError),
    /// A call of the driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// One entry of the ring: the pinned memory of a submission, for its batch words and its outputs.
pub(crate) struct Kept {
    /// The first run of the submission; `ticks` is how many runs it has.
    pub(crate) run: u64,
    pub(crate) ticks: u64,
    pub(crate) done: Event,
    /// Batch words that are being copied to the device.
    pub(crate) words: Pinned,
    /// Outputs of the runs, in order; `at` has the offset and the byte count of each.
    pub(crate) outputs: Pinned,
    pub(crate) at: Vec<(u64, u64)>,
}

/// An NVIDIA GPU: its context, memory, loaded kernels, and graphs of recordings.
pub struct CudaDevice {
    // Fields drop in order: memory must be freed before its context (`gpu`, the last field).
    pub(crate) weights: Vec<Memory>,
    pub(crate) weight_at: Vec<u64>,
    pub(crate) states: Vec<Memory>,
    pub(crate) arena: Option<Memory>,
    pub(crate) words: Option<Memory>,
    pub(crate) pending_tokens: Memory,
    pub(crate) workspace: Memory,
    pub(crate) places: Places,
    pub(crate) ring: Vec<Kept>,
    pub(crate) events: Vec<Event>,
    pub(crate) kernels: HashMap<Text, Kernel>,
    pub(crate) recording: Option<CudaRecording>,
    pub(crate) slots: Slots,
    /// Rises whenever memory is reallocated: a graph of an earlier generation holds old addresses and is not replayed.
    pub(crate) generation: u64,
    pub(crate) guard: bool,
    pub(crate) stamps: Vec<f64>,
    pub(crate) runs: u64,
    pub(crate) launches: u64,
    pub(crate) counts: Counts,
    pub(crate) how: SubmitMode,
    pub(crate) host: HostTime,
    pub(crate) compiler: Compiler,
    pub(crate) options: Options,
    pub(crate) properties: Properties,
    pub(crate) name: String,
    pub(crate) lt: Option<Lt>,
    pub(crate) gpu: Gpu,
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
        let (pending_tokens, workspace) = (gpu.memory(1 << 16)?, gpu.memory(ZEROED_WORKSPACE_BYTES)?);
        gpu.fill(pending_tokens.at, 0, pending_tokens.bytes)?;
        gpu.fill(workspace.at, 0, workspace.bytes)?;
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
            pending_tokens,
            workspace,
            places: Default::default(),
            ring,
            events: vec![],
            kernels: HashMap::new(),
            recording: None,
            slots: Slots::default(),
            generation: 0,
            guard: false,
            stamps: vec![],
            runs: 0,
            launches: 0,
            counts: Counts::default(),
            how: SubmitMode::by(Commit::Replay),
            host: HostTime::default(),
            compiler,
            options,
            properties,
            name,
            lt,
            gpu,
        })
    }

    /// The GPU's properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The compiler with its target architecture and version.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Compiles and loads the kernels that are not loaded yet, on all processors.
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
                // The file in the kernel cache may be damaged: compile again.
                Err(e) if e.kind == Kind::Other => {
                    let code = self.compiler.compile_anew(&text.entry, &text.source);
                    load(&code.map_err(|e| failed(e.to_string()))?)
                }
                loaded => loaded,
            };
            // The driver may report the fault of an earlier kernel here: then the GPU is lost, and this kernel is sound.
            let kernel = kernel.map_err(|e| self.failed(e))?;
            self.kernels.insert((**text).clone(), kernel);
        }
        Ok(())
    }

    /// Places the plan's slots in the arena for a batch.
    pub(crate) fn place_slots(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        let guard = if self.guard { GUARD as u64 } else { 0 };
        self.slots = Slots::place(bytes.iter().copied(), ALIGN, guard);
        let end = self.slots.bytes;
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

    /// Copies the batch's words to the device in stream order.
    pub(crate) fn send_words(&mut self, words: &[u32], slot: usize) -> Result<(), DeviceError> {
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

    /// The ring entry of the next submission, after the submission that used it before is done.
    pub(crate) fn free_place(&mut self) -> Result<usize, DeviceError> {
        let slot = (self.launches % RING as u64) as usize;
        if self.ring[slot].run > 0 {
            self.ring[slot].done.wait().map_err(|e| self.failed(e))?;
        }
        Ok(slot)
    }

    pub(crate) fn address(&self, operand: &BufRef) -> u64 {
        let slots = self.arena.as_ref().map_or(0, |a| a.at);
        match *operand {
            BufRef::Weight(w) => self.weight_at[w],
            BufRef::State(s) => self.states[s].at,
            BufRef::Slot(s) => self.places.slot(s).unwrap_or(slots + self.slots.at[s].0),
            BufRef::Batch => self.words.as_ref().map_or(0, |w| w.at) + self.places.batch(),
            BufRef::PendingTokens => self.pending_tokens.at,
            BufRef::ZeroedWorkspace => self.workspace.at,
        }
    }

    /// Queues the copy of the run's outputs to the host behind the run, and records the event of its end.
    pub(crate) fn keep_outputs(&mut self, plan: &Plan, batch: &StepBatch, slot: usize) -> Result<(), DeviceError> {
        // An output usually has the batch's rows. If it has more (a convolution's window), `output` reads it from its slot.
        let rows = batch.bind().t;
        let wanted = |slot: u64, width: usize| slot.min(rows * width as u64 * 4);
        let mut at = vec![];
        let mut end = 0u64;
        for &(s, width) in &plan.outputs {
            let bytes = wanted(self.slots.at[s].1, width);
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

impl CudaDevice {
    /// The device error for an error of the driver.
    pub(crate) fn failed(&self, e: DriverError) -> DeviceError {
        let hint = match e.kind {
            Kind::Memory => {
                let why = format!("{e}; {}", self.memory_in_words());
                return DeviceError::Full { device: self.name.clone(), at: String::new(), why };
            }
            // Launches are asynchronous, so the driver reports a kernel's fault at any later call.
            Kind::Fatal if !self.options.sync => {
                return DeviceError::Lost { device: self.name.clone(), why: e.to_string() };
            }
            Kind::Fatal => "; nothing on the GPU can be used any more: please report this with the command".into(),
            Kind::Other => String::new(),
        };
        DeviceError::Failed { device: self.name.clone(), at: String::new(), why: format!("{e}{hint}") }
    }

    /// Allocates device memory; `what` names its use in the error.
    pub(crate) fn allocate(&self, bytes: u64, what: &str) -> Result<Memory, DeviceError> {
        self.gpu.memory(bytes).map_err(|e| match e.kind {
            Kind::Memory => {
                let what = format!("{what} ({})", self.memory_in_words());
                DeviceError::Memory { device: self.name.clone(), asked: bytes, what }
            }
            _ => self.failed(e),
        })
    }

    pub(crate) fn memory_in_words(&self) -> String {
        faults::memory_in_words(self.gpu.free_memory(), self.properties.memory)
    }
}
