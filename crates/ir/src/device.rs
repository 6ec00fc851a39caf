//! What a device does: it owns memory, keeps recordings of dispatches, runs them and times them. It knows no op.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

pub use crate::commit::{Commit, SubmitMode};

use crate::batch::StepBatch;
use crate::plan::Plan;
use crate::target::Target;

/// The bytes of a weight, wherever they live: mapped from the file or made at load.
pub type WeightData = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What a device could not do.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The plan has a row without a kernel.
    #[error("dispatch {n} ({name}) has no kernel on {device}: {why}")]
    Gap {
        /// Dispatch of the plan.
        n: usize,
        /// Name of the dispatch: the parts of the model that it computes.
        name: String,
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The gap's reason.
        why: &'static str,
    },
    /// Memory could not be had.
    #[error("{device} cannot hold {asked} bytes of {what}")]
    Memory {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Bytes.
        asked: u64,
        /// For what.
        what: String,
    },
    /// The device failed while it worked.
    #[error("{device} failed{at}: {why}")]
    Failed {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Where, as ` at dispatch 12 (blk.3.ffn_down)`, or nothing where that is not known.
        at: String,
        /// What it said, and what to do.
        why: String,
    },
    /// The device's memory was used up while it worked.
    #[error("{device} failed{at}: {why}")]
    Full {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Where, as in [`DeviceError::Failed`].
        at: String,
        /// What it said, and how much is free.
        why: String,
    },
    /// A buffer is larger than what kernels of the device can bind at once.
    #[error("{device} failed: {what} of {asked} bytes is larger than one binding ({most} bytes)")]
    Binding {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// For what.
        what: String,
        /// Bytes.
        asked: u64,
        /// Bytes that it binds at most.
        most: u64,
    },
    /// The driver was reset: nothing works on this device any more, but the hardware may be opened again.
    #[error("{device} failed: {why}")]
    Reset {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// What it said.
        why: String,
    },
    /// The second thread, which encodes, cannot be had or ended.
    #[error("{device} failed: {why}")]
    EncodeThread {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// What the system said.
        why: String,
    },
    /// A kernel failed on the device, some time before this was noticed: nothing on it can be used any more.
    #[error("{device} failed: {why}")]
    Lost {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// What it said.
        why: String,
    },
    /// The step batch does not fit the plan.
    #[error("the step batch does not fit the plan: {0}")]
    Batch(String),
    /// The device has no such submit mode; the sentence says why.
    #[error("{why}")]
    Choice {
        /// What it has not.
        what: Choice,
        /// Why.
        why: &'static str,
    },
}

impl DeviceError {
    /// The same failure at a known place, as ` at dispatch 12 (blk.3.ffn_down)`; other errors as they are.
    pub fn at(self, place: String) -> DeviceError {
        match self {
            DeviceError::Failed { device, why, .. } => DeviceError::Failed { device, at: place, why },
            DeviceError::Full { device, why, .. } => DeviceError::Full { device, at: place, why },
            other => other,
        }
    }
}

/// Submit modes that not every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Any: the device runs each dispatch by itself.
    Submission,
    /// [`Commit::Replay`].
    Replay,
    /// [`SubmitMode::encode_thread`].
    EncodeThread,
}

/// Time that the host spent on encoding and submitting, on whatever thread, since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTime {
    /// All of it.
    pub encode: Duration,
    /// The part of each run before its first submission: the device cannot be at work on it yet.
    pub ahead: Duration,
}

/// What was counted while running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dispatches run.
    pub dispatches: u64,
    /// Barriers: on the CPU, fork–join barriers of the thread pool.
    pub barriers: u64,
    /// Submissions.
    pub commits: u64,
    /// Waits of the host.
    pub waits: u64,
}

/// A kept recording of a plan, as its device keeps it.
pub struct Recording(pub Box<dyn Any + Send>);

/// A run that was handed to a device: by it its outputs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Submissions whose outputs a device keeps, where it keeps more than the last.
pub const RING: usize = 8;

/// Words that are zero between dispatches, which every device of text kernels has: `Arg::ZeroedWorkspace`.
pub const ZEROED_WORKSPACE_WORDS: usize = 1 << 20;

/// A device.
pub trait Device: Send {
    /// Name: `cpu`.
    fn name(&self) -> &str;
    /// The kernel language it runs.
    fn target(&self) -> Target;
    /// Bytes of memory it has for weights and caches; none where it does not tell, or where weights stay in the file.
    fn memory(&self) -> Option<u64>;
    /// Takes the weights of a model, shards as weights of their own, by index. They are made while they are taken: a
    /// device with memory of its own drops each as soon as it is copied.
    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError>;
    /// As [`Device::take_weights`], of weights that are all made.
    fn set_weights(&mut self, weights: Vec<WeightData>) -> Result<(), DeviceError> {
        self.take_weights(&mut weights.into_iter())
    }
    /// Makes zeroed states of the given sizes in bytes.
    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError>;
    /// Starts a recording.
    fn begin(&mut self, plan: &Arc<Plan>);
    /// Records a dispatch of the plan.
    fn encode(&mut self, n: usize) -> Result<(), DeviceError>;
    /// Records a time stamp at this place.
    fn stamp(&mut self);
    /// Ends the recording.
    fn finish(&mut self) -> Recording;
    /// Changes how runs are submitted from now on; an error where the device has no such way.
    fn set_submit_mode(&mut self, how: SubmitMode) -> Result<(), DeviceError>;
    /// Writes the parameters of the batch and hands a recording over. It may still run when this returns, and may not be
    /// encoded yet: then what goes wrong comes back from a later call.
    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError>;
    /// Ticks of one recording that [`Device::submit_many`] submits in one submission: 1 where every run is one of its own.
    fn most_ticks(&self) -> usize;
    /// Hands several runs of a recording over at once, each of which reads what the one before sampled. Their batches are of
    /// one shape, and no more than [`Device::most_ticks`]. Gives their tickets in order.
    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError>;
    /// Waits until everything submitted is done.
    fn wait(&mut self) -> Result<(), DeviceError>;
    /// Submissions worth making before the first one's output is read: 1 where [`Device::submit`] runs to the end,
    /// at most [`RING`].
    fn in_flight(&self) -> usize;
    /// Time stamps of the last run, in seconds from its start, in the order of recording.
    fn stamps(&self) -> &[f64];
    /// The numbers of an output of a run, `rows` rows of it, once it is done. The run is one of the last
    /// [`Device::in_flight`] submissions.
    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError>;
    /// Copies a state's bytes out.
    fn read_state(&mut self, index: usize) -> Vec<u8>;
    /// Overwrites a state's bytes.
    fn write_state(&mut self, index: usize, bytes: &[u8]);
    /// Overwrites a state with what another of the same size holds, in the order of the runs; nothing waits for it.
    fn copy_state(&mut self, from: usize, to: usize);
    /// Counts since the start, of all runs that were waited for.
    fn counts(&self) -> Counts;
    /// What submitting cost the host so far, of all runs that were waited for; zero where nothing is submitted.
    fn host_time(&self) -> HostTime;
}

/// What tests want of a device besides: to see whether a kernel writes where it must not.
pub trait TestDevice: Device {
    /// Before every run, fills slots with NaN and puts guard bytes behind each, and notes who writes where.
    fn set_guards(&mut self, on: bool);
    /// The guard bytes are as they were put, and no two workers wrote to the same place in one dispatch.
    fn guards_intact(&mut self) -> bool;
}
