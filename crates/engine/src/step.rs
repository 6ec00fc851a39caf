//! A loaded model on a device, and its step: schedule a batch, submit it, read back the sampled tokens.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use onetrip_core::ops::sample::NO_TOKEN;
use onetrip_core::probe::Silent;
use onetrip_core::record::record;
use onetrip_ir::batch::{PENDING_TOKEN, SampleParams, SeqSpan, StepBatch};
use onetrip_ir::device::{Device, DeviceError, Recording, SubmitMode, Ticket};
use onetrip_ir::plan::Plan;

use crate::graph_builder::Want;
use crate::memory::MemoryError;
use crate::model::{Model, ModelError, PlanKey};
use crate::scheduler::{Running, Scheduler, TokenOutput};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A plan could not be made from the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device failed, or refused the request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The logits after this number of tokens are not finite, so no token can be sampled.
    #[error("the logits after {0} tokens are not finite: the weights are damaged or the precision is too low")]
    Logits(usize),
    /// A text is longer than the context.
    #[error("{tokens} tokens do not fit a context of {context}")]
    TooLong {
        /// Tokens of the text.
        tokens: usize,
        /// Most positions of a sequence.
        context: usize,
    },
    /// The requested number of ticks in one submission is 0 or more than the device takes.
    #[error("the device {device} takes {} a submission", in_words(*most))]
    Ticks {
        /// Requested ticks in one submission.
        asked: usize,
        /// Most ticks in one submission of the device.
        most: usize,
        /// Name of the device.
        device: String,
    },
    /// The model does not fit the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The request is invalid; the text says why.
    #[error("{0}")]
    Input(String),
}

/// A plan and its recording on the device, ready to be submitted.
pub struct Recorded {
    /// The plan from which the recording was made.
    pub plan: Arc<Plan>,
    pub(crate) recording: Recording,
}

/// A tick that is submitted and whose output has not been read back yet.
pub(crate) struct Flight {
    /// Number of the submission that holds this tick, counted from 1.
    launch: u64,
    run: Ticket,
    plan: Arc<Plan>,
    batch: StepBatch,
    running: Running,
}

/// Usual number of tokens in a step that returns the logits of every row. It is small because logits are large: with a large
/// vocabulary, the logits of 128 rows take 78 MB; those of 512 rows would take 311 MB.
pub const LOGIT_ROWS: usize = 128;

/// A loaded model on a device.
pub struct Engine {
    pub(crate) model: Model,
    pub(crate) device: Box<dyn Device>,
    pub(crate) plans: HashMap<PlanKey, Recorded>,
    pub(crate) scheduler: Scheduler,
    /// Submitted ticks whose output is not read yet, oldest first.
    pub(crate) flights: VecDeque<Flight>,
    /// Number of submissions so far.
    pub(crate) launches: u64,
    /// Number of decode ticks in one submission.
    pub(crate) ticks: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    pub(crate) sequences: usize,
    pub(crate) top: usize,
    /// Bytes of each state of the model (KV caches and recurrent states), by state index.
    pub(crate) state_bytes: Vec<u64>,
}

impl Engine {
    /// The model, with its file, configuration and options.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device that holds the weights and runs the plans.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// The scheduler, for callers that read or change sequences. Steps in flight are dropped first, so that the host knows
    /// every token in the scheduler.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        if !self.flights.is_empty() {
            self.flights.clear();
            // A failure is reported again when the next step is read.
            let _ = self.device.wait();
        }
        self.scheduler.settle();
        &mut self.scheduler
    }

    /// Changes how steps are submitted to the device; steps in flight are dropped.
    pub fn set_submit_mode(&mut self, how: SubmitMode) -> Result<(), StepError> {
        self.scheduler();
        Ok(self.device.set_submit_mode(how)?)
    }

    /// Number of leading tokens of a sequence whose ids the host knows. Steps in flight stay in flight.
    pub fn known(&self, seq: usize) -> usize {
        self.scheduler.known(seq)
    }

    /// Most positions that a sequence may have.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Number of tokens in the vocabulary (rows of the output matrix).
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Sets how many of the most probable tokens a step can report for each sequence; part of the key of a plan.
    pub fn set_top(&mut self, top: usize) {
        self.top = top;
    }

    /// The plan for a key and its recording; both are made when they are first needed.
    pub fn recorded(&mut self, key: PlanKey) -> Result<&Recorded, StepError> {
        if !self.plans.contains_key(&key) {
            let plan = Arc::new(self.model.plan(key)?);
            let recording = record(&plan, &mut *self.device, &mut Silent)?;
            self.plans.insert(key, Recorded { plan, recording });
        }
        Ok(&self.plans[&key])
    }

    /// Sets the most decode ticks that one submission may have. If a text ends in the middle of a submission, its remaining
    /// ticks in that submission are wasted.
    pub fn set_ticks(&mut self, ticks: usize) -> Result<(), StepError> {
        check_ticks(&*self.device, ticks)?;
        self.ticks = ticks;
        Ok(())
    }

    /// Runs one step: submits batches until as many are in flight as the device takes, then waits for the oldest batch and
    /// returns its tokens. Returns `None` when nothing is left to run.
    pub fn step(&mut self) -> Result<Option<Vec<TokenOutput>>, StepError> {
        // Submissions of one tick are pipelined, so that the device never idles. With several ticks in a submission, a text may
        // end in its first tick; the next submission therefore waits until all ticks of the one before are read, so that at
        // most the rest of one submission is wasted.
        let most = if self.ticks > 1 { self.ticks } else { self.device.in_flight() };
        while self.flights.len() + self.ticks <= most && self.submissions() < self.device.in_flight() {
            let group = self.group()?;
            let Some((first, _)) = group.first() else { break };
            let key = PlanKey::of(first.ids.len(), first.seqs.len(), Want::Sample { top: self.top });
            self.recorded(key)?;
            let Recorded { plan, recording } = &self.plans[&key];
            let (mut batches, running): (Vec<StepBatch>, Vec<Running>) = group.into_iter().unzip();
            batches.iter_mut().for_each(|b| b.fill_rope(&plan.ropes));
            let runs = match &batches[..] {
                [one] => vec![self.device.submit(recording, one)?],
                many => self.device.submit_many(recording, many)?,
            };
            self.launches += 1;
            for ((run, batch), running) in runs.into_iter().zip(batches).zip(running) {
                self.flights.push_back(Flight { launch: self.launches, run, plan: plan.clone(), batch, running });
            }
        }
        let Some(f) = self.flights.pop_front() else { return Ok(None) };
        let out = self.device.output(f.run, &f.plan, 0, f.batch.seqs.len())?;
        let width = 2 + 2 * self.top;
        let row = |row: usize| sampled(&out[row * width..(row + 1) * width], &f.batch.seqs[row]);
        let tokens = self.scheduler.accept(&f.batch, &f.running, row);
        if let Some(bad) = tokens.iter().find(|t| t.id == NO_TOKEN) {
            let span = f.running.span(bad.seq).and_then(|i| f.batch.seqs.get(i));
            return Err(StepError::Logits(span.map_or(0, |s| s.length as usize)));
        }
        Ok(Some(tokens))
    }

    /// Number of submissions in flight.
    fn submissions(&self) -> usize {
        match (self.flights.front(), self.flights.back()) {
            (Some(first), Some(last)) => (last.launch - first.launch + 1) as usize,
            _ => 0,
        }
    }

    /// The batches of the next submission: one batch, or several decode ticks with the same number of sequences. The list is
    /// empty if nothing is left to run, or if the host must first read back token ids that are still in flight.
    fn group(&mut self) -> Result<Vec<(StepBatch, Running)>, StepError> {
        let mut group: Vec<(StepBatch, Running)> = vec![];
        while group.len() < self.ticks {
            let Some(batch) = self.scheduler.next(self.device.target().step_rows()) else { break };
            let is_first = group.is_empty();
            let before = group.last().map(|(_, running)| running).or(self.flights.back().map(|f| &f.running));
            // With no tick in flight, the host knows every token id, so the first batch may always run.
            let may_follow = self.scheduler.may_follow(&batch, before);
            if !may_follow && (!is_first || !self.flights.is_empty()) {
                break;
            }
            let is_decode = batch.ids.len() == batch.seqs.len();
            let is_alike = is_decode && group.first().is_none_or(|(b, _)| b.seqs.len() == batch.seqs.len());
            if !is_first && !is_alike {
                break;
            }
            let may_wait = may_follow && before.is_some();
            let known: Vec<u32> = batch.ids.iter().copied().filter(|&id| id != PENDING_TOKEN || !may_wait).collect();
            self.check_ids(&known)?;
            let running = self.scheduler.handed_over(&batch);
            group.push((batch, running));
            if !is_decode {
                break;
            }
        }
        Ok(group)
    }

    /// Submits a batch with the recorded plan for its key.
    fn submit_batch(&mut self, batch: &mut StepBatch, want: Want) -> Result<(Ticket, Arc<Plan>), StepError> {
        let key = PlanKey::of(batch.ids.len(), batch.seqs.len(), want);
        self.recorded(key)?;
        let Recorded { plan, recording } = &self.plans[&key];
        batch.fill_rope(&plan.ropes);
        Ok((self.device.submit(recording, batch)?, plan.clone()))
    }

    /// Runs a batch and returns its first output, row by row: outputs of the op `sample`, or logits, as `want` says.
    pub(crate) fn run(&mut self, batch: &mut StepBatch, want: Want) -> Result<Vec<f32>, StepError> {
        let (run, plan) = self.submit_batch(batch, want)?;
        let rows = if want == Want::AllLogits { batch.ids.len() } else { batch.seqs.len() };
        Ok(self.device.output(run, &plan, 0, rows)?)
    }

    /// Returns an error if a token id is outside the vocabulary.
    pub fn check_ids(&self, ids: &[u32]) -> Result<(), StepError> {
        match ids.iter().find(|&&id| id as usize >= self.vocabulary) {
            None => Ok(()),
            Some(id) => {
                let last = self.vocabulary.saturating_sub(1);
                Err(StepError::Input(format!("token id {id} is outside the vocabulary: ids go from 0 to {last}")))
            }
        }
    }

    /// Computes the logits after every token of a text, with at most `rows` tokens a step. Calls `each(index, logits)` for
    /// every token, in order.
    pub fn logits(&mut self, ids: &[u32], rows: usize, each: &mut dyn FnMut(usize, &[f32])) -> Result<(), StepError> {
        self.check_ids(ids)?;
        if ids.len() > self.context {
            return Err(StepError::TooLong { tokens: ids.len(), context: self.context });
        }
        let seq = self.scheduler.add(SampleParams::default());
        let seq = seq.ok_or_else(|| StepError::Input("all sequences are in use".into()))?;
        self.scheduler.set_tokens(seq, ids);
        let mut at = 0;
        while at < ids.len() {
            let Some(mut batch) = self.scheduler.next(rows) else { break };
            let out = self.run(&mut batch, Want::AllLogits)?;
            out.chunks_exact(self.vocabulary).enumerate().for_each(|(i, row)| each(at + i, row));
            at += batch.ids.len();
            self.scheduler.take(&batch, |_| TokenOutput { seq, id: 0, log_prob: None, top: vec![] });
        }
        self.scheduler.remove(seq);
        Ok(())
    }
}

/// Returns an error if the device does not take `ticks` ticks in one submission.
pub fn check_ticks(device: &dyn Device, ticks: usize) -> Result<(), StepError> {
    let most = device.most_ticks();
    match (1..=most).contains(&ticks) {
        true => Ok(()),
        false => Err(StepError::Ticks { asked: ticks, most, device: device.name().into() }),
    }
}

fn in_words(most: usize) -> String {
    if most == 1 { "one tick".into() } else { format!("1 to {most} ticks") }
}

/// Decodes one output row of the op `sample`: the token id (its bits, stored as f32), its log-probability, then pairs of token
/// id (bits) and log-probability of the most probable tokens, ended by a log-probability of NaN.
fn sampled(row: &[f32], span: &SeqSpan) -> TokenOutput {
    let asked = span.sample.top > 0;
    let top = row[2..].chunks_exact(2).take_while(|p| !p[1].is_nan()).map(|p| (p[0].to_bits(), p[1])).collect();
    TokenOutput {
        seq: 0,
        id: row[0].to_bits(),
        log_prob: asked.then_some(row[1]),
        top: if asked { top } else { vec![] },
    }
}
