//! Submits a run: encodes its dispatches and groups them into submissions, on the calling thread or on a second one.
//!
//! Everything whose order matters is part of a [`Job`] and happens in one place, [`run`]: the words of the batch are written,
//! dispatches submitted, outputs copied. So a second thread keeps the order by taking jobs one by one.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use onetrip_ir::device::{HostTime, SubmitMode, Ticket};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use wgpu::{BindGroup, Buffer};

use crate::clocks::Clocks;
use crate::pipelines::Pipeline;

/// An entry of a recording, in the order of execution.
pub(crate) enum Entry {
    Dispatch(usize, Arc<Pipeline>),
    Stamp,
}

/// A recording of this device, with its pipelines, and with bind groups that are valid until a buffer is replaced (the number
/// is the generation of buffers for which they were made).
pub(crate) struct WgpuRecording {
    pub plan: Arc<Plan>,
    pub entries: Vec<Entry>,
    pub groups: Mutex<(u64, Arc<Vec<Option<BindGroup>>>)>,
}

impl WgpuRecording {
    pub fn dispatches(&self) -> usize {
        self.entries.iter().filter(|e| matches!(e, Entry::Dispatch(..))).count()
    }
}

/// A run to submit.
pub(crate) struct Job {
    pub ticket: Ticket,
    pub recording: Arc<WgpuRecording>,
    /// Bind groups of the entries; none for a stamp.
    pub groups: Arc<Vec<Option<BindGroup>>>,
    /// The buffer of the step batch, and the words to write there.
    pub batch: (Buffer, Vec<u32>),
    pub bind: Bind,
    pub how: SubmitMode,
    /// The query set for the run's stamps: those of the recording, else two for each submission.
    pub clocks: Option<Arc<Clocks>>,
    /// True if the adapter can write time stamps inside a compute pass.
    pub inside: bool,
    /// The copies of outputs: source buffer, offset in `back`, number of bytes.
    pub outputs: Vec<(Buffer, u64, u64)>,
    pub back: Buffer,
    /// True if a graphics debugger captures this run.
    pub is_captured: bool,
}

/// A run that was submitted.
pub(crate) struct Done {
    pub ticket: Ticket,
    /// The run's last submission.
    pub index: wgpu::SubmissionIndex,
    pub dispatches: u64,
    pub commits: u64,
    pub waits: u64,
    /// Number of stamps that were written.
    pub stamps: u32,
    pub host: HostTime,
}

/// Writes the batch, encodes and submits.
fn run(device: &wgpu::Device, queue: &wgpu::Queue, job: &Job) -> Done {
    if job.is_captured {
        // SAFETY: one run is captured at a time; what a debugger does beyond that is asked for by its user.
        unsafe { device.start_graphics_debugger_capture() };
    }
    let start = Instant::now();
    queue.write_buffer(&job.batch.0, 0, bytemuck::cast_slice(&job.batch.1));
    let (r, clocks, per) = (&*job.recording, job.clocks.as_deref(), job.how.commit.size());
    let own = r.entries.iter().any(|e| matches!(e, Entry::Stamp));
    // Where the adapter cannot write a stamp inside a compute pass, the pass is split at the stamp, which is then written at
    // the begin or the end of a pass. Stamps of whole submissions are also written there.
    let splits = own && !job.inside;
    let is_stamp = |at: usize| matches!(r.entries.get(at), Some(Entry::Stamp));
    let (mut at, mut since, mut stamp) = (0, 0, 0);
    let mut done = (0u64, 0u64);
    let mut ahead = None;
    let mut encoder = device.create_command_encoder(&Default::default());
    while at < r.entries.len() {
        let begins = !own || (splits && is_stamp(at));
        at += (splits && is_stamp(at)) as usize;
        let is_over = |end: usize, since: usize| match r.entries.get(end) {
            None => true,
            Some(Entry::Stamp) => splits,
            Some(Entry::Dispatch(..)) => since == per,
        };
        let (mut end, mut last) = (at, since);
        while !is_over(end, last) {
            last += matches!(r.entries[end], Entry::Dispatch(..)) as usize;
            end += 1;
        }
        let ends = !own || (splits && is_stamp(end));
        {
            let mut index = |wanted: bool| {
                stamp += wanted as u32;
                wanted.then(|| stamp - 1)
            };
            let timestamp_writes = clocks.filter(|_| begins || ends).map(|c| wgpu::ComputePassTimestampWrites {
                query_set: &c.set,
                beginning_of_pass_write_index: index(begins),
                end_of_pass_write_index: index(ends),
            });
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            let mut pass = encoder.begin_compute_pass(&descriptor);
            for (entry, group) in r.entries[at..end].iter().zip(&job.groups[at..end]) {
                let Entry::Dispatch(n, pipeline) = entry else {
                    if let Some(clocks) = clocks {
                        pass.write_timestamp(&clocks.set, stamp);
                        stamp += 1;
                    }
                    continue;
                };
                let grid = r.plan.dispatches[*n].grid.eval(job.bind).max(1);
                let x = grid.min(65_535);
                pass.set_pipeline(&pipeline.pipeline);
                pass.set_bind_group(0, group.as_ref(), &[]);
                pass.dispatch_workgroups(x as u32, grid.div_ceil(x) as u32, 1);
                done.0 += 1;
            }
        }
        at = end + (splits && ends) as usize;
        since = last;
        // Stamps and output copies behind the last dispatch belong to the last submission.
        if since == per && r.entries[at..].iter().any(|e| matches!(e, Entry::Dispatch(..))) {
            queue.submit([encoder.finish()]);
            ahead.get_or_insert_with(|| start.elapsed());
            (since, done.1) = (0, done.1 + 1);
            encoder = device.create_command_encoder(&Default::default());
        }
    }
    if let Some(clocks) = clocks.filter(|_| stamp > 0) {
        encoder.resolve_query_set(&clocks.set, 0..stamp, &clocks.resolved, 0);
        encoder.copy_buffer_to_buffer(&clocks.resolved, 0, &clocks.back, 0, 8 * u64::from(stamp));
    }
    for (from, to, bytes) in &job.outputs {
        encoder.copy_buffer_to_buffer(from, 0, &job.back, *to, *bytes);
    }
    let index = queue.submit([encoder.finish()]);
    let encode = start.elapsed();
    job.back.map_async(wgpu::MapMode::Read, .., |_| {});
    if let Some(clocks) = clocks.filter(|_| stamp > 0) {
        clocks.back.map_async(wgpu::MapMode::Read, .., |_| {});
    }
    if job.is_captured {
        // The capture must not end before the work does. An error of this wait is ignored, since the device's error handlers
        // note it.
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        // SAFETY: it was started above.
        unsafe { device.stop_graphics_debugger_capture() };
    }
    Done {
        ticket: job.ticket,
        index,
        dispatches: done.0,
        commits: done.1 + 1,
        waits: job.is_captured as u64,
        stamps: stamp,
        host: HostTime { encode, ahead: ahead.unwrap_or(encode) },
    }
}

/// The encode thread: the channels to it and from it.
struct Thread {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    handle: JoinHandle<()>,
}

/// Submits runs, on the calling thread or on the encode thread.
pub(crate) struct Hands {
    device: wgpu::Device,
    queue: wgpu::Queue,
    thread: Option<Thread>,
    /// Number of jobs that were given to the encode thread and whose results were not taken yet.
    pending: usize,
}

/// The error that the encoding thread ended unexpectedly.
pub(crate) struct Gone;

impl Hands {
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Hands {
        Hands { device: device.clone(), queue: queue.clone(), thread: None, pending: 0 }
    }

    /// Starts or ends the encode thread, which must have no job.
    pub fn set_thread(&mut self, on: bool) -> std::io::Result<()> {
        if on == self.thread.is_some() {
            return Ok(());
        }
        self.end();
        if on {
            let ((jobs, to_do), (finished, done)) = (channel::<Job>(), channel());
            let (device, queue) = (self.device.clone(), self.queue.clone());
            let work = move || {
                while let Ok(job) = to_do.recv() {
                    if finished.send(run(&device, &queue, &job)).is_err() {
                        break;
                    }
                }
            };
            let handle = std::thread::Builder::new().name("encode".into()).spawn(work)?;
            self.thread = Some(Thread { jobs, done, handle });
        }
        Ok(())
    }

    fn end(&mut self) {
        if let Some(Thread { jobs, done, handle }) = self.thread.take() {
            drop((jobs, done));
            // A panic of the encode thread was reported as [`Gone`] already.
            let _ = handle.join();
        }
        self.pending = 0;
    }

    /// Submits a run on this thread, or queues it for the encoding thread.
    pub fn give(&mut self, job: Job) -> Result<Option<Done>, Gone> {
        match &self.thread {
            None => Ok(Some(run(&self.device, &self.queue, &job))),
            Some(thread) => {
                thread.jobs.send(job).map_err(|_| Gone)?;
                self.pending += 1;
                Ok(None)
            }
        }
    }

    /// Takes the result of the oldest run that the encode thread has submitted. With `wait`, waits for it. None if the thread
    /// has no job, or, without `wait`, has not submitted the run yet.
    pub fn take(&mut self, wait: bool) -> Result<Option<Done>, Gone> {
        let Some(thread) = self.thread.as_ref().filter(|_| self.pending > 0) else { return Ok(None) };
        let done = match wait {
            true => Some(thread.done.recv().map_err(|_| Gone)?),
            false => match thread.done.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(Gone),
                other => other.ok(),
            },
        };
        self.pending -= done.is_some() as usize;
        Ok(done)
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.end();
    }
}
