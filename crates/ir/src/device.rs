//! The [`Device`] trait: a device owns memory, keeps recordings of dispatches, runs them and times them. It knows no op.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

pub use crate::commit::{Commit, SubmitMode};

use crate::batch::StepBatch;
use crate::plan::Plan;
use crate::target::Target;

/// The bytes of a weight: mapped from the model file, or made at load where the device takes another layout.
pub type WeightData = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Why a device could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The plan has a dispatch without a kernel.
    #[error("dispatch {n} ({name}) has no kernel on {device}: {why}")]
    Gap {
        /// Index of the dispatch in the plan.
        n: usize,
        /// Name of the dispatch: the nodes of the model definition that it computes.
        name: String,
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Why no kernel serves this dispatch.
        why: &'static str,
    },
    /// An allocation failed.
    #[error("{device} cannot hold {asked} bytes of {what}")]
    Memory {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Size in bytes.
        asked: u64,
        /// Which buffer the memory is for.
        what: String,
    },
    /// The device failed during a run or a copy.
    #[error("{device} failed{at}: {why}")]
    Failed {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The dispatch that failed, as ` at dispatch 12 (blk.3.ffn_down)`; empty where it is not known.
        at: String,
        /// The driver's message, and what the user can do.
        why: String,
    },
    /// The driver ran out of memory in a call that is not an allocation of device memory ([`DeviceError::Memory`] is).
    #[error("{device} failed{at}: {why}")]
    Full {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The dispatch that failed, as in [`DeviceError::Failed`].
        at: String,
        /// The driver's message, and how much memory is free.
        why: String,
    },
    /// A buffer is larger than what kernels of the device can bind at once.
    #[error("{device} failed: {what} of {asked} bytes is larger than one binding ({most} bytes)")]
    Binding {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// Which buffer the memory is for.
        what: String,
        /// Size in bytes.
        asked: u64,
        /// The most bytes that one binding can have.
        most: u64,
    },
    /// The driver was reset: nothing works on this device any more, but the hardware may be opened again.
    #[error("{device} failed: {why}")]
    Reset {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The driver's message.
        why: String,
    },
    /// The thread that encodes ([`SubmitMode::encode_thread`]) could not be started, or has ended.
    #[error("{device} failed: {why}")]
    EncodeThread {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The operating system's message.
        why: String,
    },
    /// A kernel failed on the device. The error is noticed at a later call, and nothing on the device can be used any more.
    #[error("{device} failed: {why}")]
    Lost {
        /// Name of the device, as in plans: `cuda`.
        device: String,
        /// The driver's message.
        why: String,
    },
    /// The step batch does not fit the plan.
    #[error("the step batch does not fit the plan: {0}")]
    Batch(String),
    /// The device has no such submit mode; the sentence says why.
    #[error("{why}")]
    Choice {
        /// The choice that the device does not support.
        what: Choice,
        /// Why the device does not support it.
        why: &'static str,
    },
}

impl DeviceError {
    /// Names the dispatch that failed, as ` at dispatch 12 (blk.3.ffn_down)`; errors without such a place are returned
    /// unchanged.
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
    /// Any grouping of dispatches into submissions: this device runs each dispatch by itself.
    Submission,
    /// [`Commit::Replay`].
    Replay,
    /// [`SubmitMode::encode_thread`].
    EncodeThread,
}

/// Time that the host spent encoding and submitting since the device was opened, on the calling thread or the encode thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTime {
    /// All of that time.
    pub encode: Duration,
    /// The time before the first submission of each run, in which the device cannot work on that run yet.
    pub ahead: Duration,
}

/// Counts of what ran on a device since it was opened.
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

/// The recording of a plan's dispatches, in the form in which its device keeps it: a command buffer, a graph, a list.
pub struct Recording(pub Box<dyn Any + Send>);

/// Identifies a submitted run, so that its outputs can be asked for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How many submissions' outputs a device keeps, if it keeps more than those of the last one.
pub const RING: usize = 8;

/// Words of 32 bits in the zeroed workspace (`Arg::ZeroedWorkspace`), which every device of text kernels has.
pub const ZEROED_WORKSPACE_WORDS: usize = 1 << 20;

/// A device that runs plans of one kernel language.
pub trait Device: Send {
    /// Name of the device, as in plans: `cpu`.
    fn name(&self) -> &str;
    /// The kernel language it runs.
    fn target(&self) -> Target;
    /// Bytes of memory for weights and caches; none where the driver does not report them, or where weights stay mapped from
    /// the file.
    fn memory(&self) -> Option<u64>;
    /// Takes the weights of a model by index; each shard counts as a weight. The iterator makes every weight when it is
    /// taken, and a device with its own memory drops the host's bytes as soon as they are copied.
    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError>;
    /// Like [`Device::take_weights`], for weights that exist already.
    fn set_weights(&mut self, weights: Vec<WeightData>) -> Result<(), DeviceError> {
        self.take_weights(&mut weights.into_iter())
    }
    /// Allocates the states (caches and recurrent states), zeroed, of the given sizes in bytes.
    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError>;
    /// Starts a recording of dispatches of `plan`.
    fn begin(&mut self, plan: &Arc<Plan>);
    /// Records dispatch `n` of the plan.
    fn encode(&mut self, n: usize) -> Result<(), DeviceError>;
    /// Records a time stamp behind the dispatches that were encoded so far.
    fn stamp(&mut self);
    /// Ends the recording.
    fn finish(&mut self) -> Recording;
    /// Changes how runs are submitted from now on; an error where the device does not support this mode.
    fn set_submit_mode(&mut self, how: SubmitMode) -> Result<(), DeviceError>;
    /// Writes the parameters of the batch and submits a recording. When this returns the run may be under way still, or may
    /// not even be encoded yet: an error in it is then returned by a later call.
    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError>;
    /// The most ticks of one recording that [`Device::submit_many`] puts into one submission: 1 where every run is a submission
    /// of its own.
    fn most_ticks(&self) -> usize;
    /// Submits several runs of a recording at once; each run reads the tokens that the run before it sampled. The batches
    /// have one shape, and there are at most [`Device::most_ticks`] of them. Returns their tickets in order.
    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError>;
    /// Waits until every submitted run is done.
    fn wait(&mut self) -> Result<(), DeviceError>;
    /// How many submissions a caller should make before it reads the output of the first: 1 where [`Device::submit`] returns
    /// only after the run, at most [`RING`].
    fn in_flight(&self) -> usize;
    /// Time stamps of the last run, in seconds from its start, in the order of recording.
    fn stamps(&self) -> &[f64];
    /// Waits for a run and returns the first `rows` rows of one of its outputs. The run must be one of the last
    /// [`Device::in_flight`] submissions.
    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError>;
    /// Copies a state's bytes out.
    fn read_state(&mut self, index: usize) -> Vec<u8>;
    /// Overwrites a state's bytes.
    fn write_state(&mut self, index: usize, bytes: &[u8]);
    /// Copies state `from` over state `to` of the same size, ordered among the submitted runs; the host does not wait.
    fn copy_state(&mut self, from: usize, to: usize);
    /// Counts since the device was opened, over all runs that were waited for.
    fn counts(&self) -> Counts;
    /// The host's time for encoding and submitting, over all runs that were waited for; zero where nothing is submitted.
    fn host_time(&self) -> HostTime;
}

/// A device that can show tests whether a kernel writes where it must not.
pub trait TestDevice: Device {
    /// When on, every run starts with slots full of NaN and guard bytes behind each slot, and notes which worker writes where.
    fn set_guards(&mut self, on: bool);
    /// True if all guard bytes are unchanged and no two workers wrote to the same place in one dispatch.
    fn guards_intact(&mut self) -> bool;
}
