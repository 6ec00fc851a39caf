//! The engine: a loaded model on a device. One step is one function.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use onetrip_core::fuse::Fuse;
use onetrip_core::ops::sample::NO_TOKEN;
use onetrip_core::probe::{Probe, Silent};
use onetrip_core::record::record;
use onetrip_ir::batch::{FEED, SampleParams, SeqSpan, StepBatch};
use onetrip_ir::device::{Device, DeviceError, HandOver, Recording, Ticket};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use onetrip_ir::tensor::Role;

use crate::model::{Model, ModelError, PlanKey};
use crate::page::Want;
use crate::scheduler::{PAGE_LEN, Running, Sampled, Scheduler};
use crate::weights::{LoadError, Progress};

pub mod replay;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model gives no numbers to choose a token by.
    #[error(
        "the logits after {0} tokens are not finite: the weights are damaged or the precision is too low (fetch the \
             model again, or try --compute f32)"
    )]
    Logits(usize),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Input(String),
}

/// A plan and its recording.
pub struct Recorded {
    /// The plan.
    pub plan: Arc<Plan>,
    recording: Recording,
}

/// A batch that was handed over and not read back.
struct Flight {
    /// Number of the submission that it is part of.
    launch: u64,
    run: Ticket,
    plan: Arc<Plan>,
    batch: StepBatch,
    running: Running,
}

/// Tokens of a step whose logits are all wanted, as a rule: those of 128 rows of a large vocabulary are 78 MB, of 512 they
/// would be 311 MB.
pub const LOGIT_ROWS: usize = 128;

/// A loaded model on a device.
pub struct Engine {
    model: Model,
    device: Box<dyn Device>,
    plans: HashMap<PlanKey, Recorded>,
    scheduler: Scheduler,
    /// Oldest first.
    flights: VecDeque<Flight>,
    /// Submissions so far.
    launches: u64,
    /// Ticks that go to the device in one submission.
    ticks: usize,
    vocabulary: usize,
    context: usize,
    sequences: usize,
    top: usize,
    /// Bytes of each of the model's states.
    state_bytes: Vec<u64>,
}

impl Engine {
    /// Loads a model: makes its weights ready on `threads` threads and its caches for `sequences` texts of at most
    /// `context` tokens.
    pub fn load(
        mut model: Model,
        mut device: Box<dyn Device>,
        context: usize,
        sequences: usize,
        threads: usize,
        progress: Progress,
    ) -> Result<Engine, StepError> {
        if context == 0 || sequences == 0 {
            return Err(StepError::Input("a context of no tokens: give --context at least 1".into()));
        }
        let pages = Scheduler::pages(context, sequences) as u64;
        let state_bytes = |s: &onetrip_ir::tensor::Sig| {
            if s.role == Role::Recurrent {
                return Some((s.row_bytes() as u64).saturating_mul(sequences as u64));
            }
            let row = s.cache().and_then(|c| s.dtype.row_bytes(c.dim).map(|b| (b * c.heads) as u64));
            row.map(|row| row.saturating_mul(pages).saturating_mul(PAGE_LEN as u64))
        };
        let bytes: Option<Vec<u64>> = model.states().iter().map(state_bytes).collect();
        let Some(bytes) = bytes else {
            let (dim, cache) = (model.config.head_dim, model.options.cache.name());
            return Err(StepError::Input(format!(
                "heads of {dim} are no whole blocks of --cache {cache}: use f16 or f32"
            )));
        };
        let caches = bytes.iter().fold(0u64, |a, b| a.saturating_add(*b));
        match device.memory() {
            None => check_memory(caches, context, sequences)?,
            Some(have) => {
                let weights = model.weights().device_bytes(model.layouts());
                let needed = weights.saturating_add(caches);
                if needed > have {
                    let fixed = weights.saturating_add(recurrent_bytes(&model, sequences));
                    let page = (needed - fixed) / pages.max(1);
                    let fits = what_fits(have, fixed, page, sequences);
                    let [weights, caches, have, more] = [weights, caches, have, needed - have].map(|b| b as f64 / 1e6);
                    return Err(StepError::Input(format!(
                        "{}: {weights:.2} MB of weights and {caches:.2} MB of caches are {more:.2} MB more than the \
                         {have:.2} MB that the device ({}) has: {fits}, or use --device cpu",
                        model.file.name(),
                        device.name()
                    )));
                }
            }
        }
        device.set_states(&bytes)?;
        let loaded = model.weights().load(model.layouts(), threads, progress, &mut *device);
        loaded.map_err(|e| match e {
            LoadError::Device(e) => e.into(),
            LoadError::Memory(e) => {
                let file = model.file.name();
                let hint = "free some, or use a smaller model or --weights";
                StepError::Input(format!("{file}: no memory for its weights: {e}; {hint}"))
            }
        })?;
        let vocabulary = model.vocabulary()?;
        let (plans, scheduler) =
            (HashMap::new(), Scheduler::new(context, sequences).recurrent(model.config.recurrent.is_some()));
        let (flights, launches, ticks, top) = (VecDeque::new(), 0, 1, 0);
        Ok(Engine {
            model,
            device,
            plans,
            scheduler,
            flights,
            launches,
            ticks,
            vocabulary,
            context,
            sequences,
            top,
            state_bytes: bytes,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// The sequences. Steps that are still in flight are forgotten: what is asked or changed here is about tokens known.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        if !self.flights.is_empty() {
            self.flights.clear();
            // What goes wrong there is said again when the next step is read.
            let _ = self.device.wait();
        }
        self.scheduler.settle();
        &mut self.scheduler
    }

    /// Changes how steps are handed to the device; those in flight are forgotten.
    pub fn set_hand_over(&mut self, how: HandOver) -> Result<(), StepError> {
        self.scheduler();
        Ok(self.device.set_hand_over(how)?)
    }

    /// Tokens of a sequence that are known, while steps may be in flight.
    pub fn known(&self, seq: usize) -> usize {
        self.scheduler.known(seq)
    }

    /// Positions a sequence may have.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Tokens of the vocabulary (rows of the head).
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Room for so many best tokens in every answer.
    pub fn set_top(&mut self, top: usize) {
        self.top = top;
    }

    /// The plan of a class of batches, made when it is first needed.
    pub fn recorded(&mut self, key: PlanKey) -> Result<&Recorded, StepError> {
        if !self.plans.contains_key(&key) {
            let plan = Arc::new(self.model.plan(key)?);
            let recording = record(&plan, &mut *self.device, &mut Silent)?;
            self.plans.insert(key, Recorded { plan, recording });
        }
        Ok(&self.plans[&key])
    }

    /// From now on hands up to `ticks` decode ticks over in one submission. A text that ends in the middle of it has had the
    /// rest run for nothing.
    pub fn set_ticks(&mut self, ticks: usize) -> Result<(), StepError> {
        check_ticks(&*self.device, ticks)?;
        self.ticks = ticks;
        Ok(())
    }

    /// One step: batches go to the device as long as it likes some in flight, and the tokens of the oldest come back;
    /// none when nothing is left to run.
    pub fn step(&mut self) -> Result<Option<Vec<Sampled>>, StepError> {
        // Single ticks follow each other without a gap. Of several in one submission a text may end with the first: the next
        // ones wait until all are read, so that no more than the rest of one submission is run for nothing.
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

    /// Submissions in flight.
    fn submissions(&self) -> usize {
        match (self.flights.front(), self.flights.back()) {
            (Some(first), Some(last)) => (last.launch - first.launch + 1) as usize,
            _ => 0,
        }
    }

    /// The batches of the next submission: one, or several decode ticks of the same sequences. None where all that is left
    /// has to know what is in flight, or nothing is left.
    fn group(&mut self) -> Result<Vec<(StepBatch, Running)>, StepError> {
        let mut group: Vec<(StepBatch, Running)> = vec![];
        while group.len() < self.ticks {
            let Some(batch) = self.scheduler.next(self.device.target().step_rows()) else { break };
            let is_first = group.is_empty();
            let before = group.last().map(|(_, running)| running).or(self.flights.back().map(|f| &f.running));
            // A device that runs to the end has no flights: then every id is known.
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
            let known: Vec<u32> = batch.ids.iter().copied().filter(|&id| id != FEED || !may_wait).collect();
            self.check_ids(&known)?;
            let running = self.scheduler.handed_over(&batch);
            group.push((batch, running));
            if !is_decode {
                break;
            }
        }
        Ok(group)
    }

    /// Hands a batch to the device.
    fn hand_over(&mut self, batch: &mut StepBatch, want: Want) -> Result<(Ticket, Arc<Plan>), StepError> {
        let key = PlanKey::of(batch.ids.len(), batch.seqs.len(), want);
        self.recorded(key)?;
        let Recorded { plan, recording } = &self.plans[&key];
        batch.fill_rope(&plan.ropes);
        Ok((self.device.submit(recording, batch)?, plan.clone()))
    }

    /// Runs a batch and gives what was wanted: sampled rows, or logits.
    fn run(&mut self, batch: &mut StepBatch, want: Want) -> Result<Vec<f32>, StepError> {
        let (run, plan) = self.hand_over(batch, want)?;
        let rows = if want == Want::AllLogits { batch.ids.len() } else { batch.seqs.len() };
        Ok(self.device.output(run, &plan, 0, rows)?)
    }

    /// Refuses ids that the vocabulary does not have.
    pub fn check_ids(&self, ids: &[u32]) -> Result<(), StepError> {
        match ids.iter().find(|&&id| id as usize >= self.vocabulary) {
            None => Ok(()),
            Some(id) => {
                let last = self.vocabulary.saturating_sub(1);
                Err(StepError::Input(format!("token id {id} is outside the vocabulary: ids go from 0 to {last}")))
            }
        }
    }

    /// Logits after every token of a text, row by row: `each(index, logits)`; `rows` tokens a step.
    pub fn logits(&mut self, ids: &[u32], rows: usize, each: &mut dyn FnMut(usize, &[f32])) -> Result<(), StepError> {
        self.check_ids(ids)?;
        if ids.len() > self.context {
            let (n, c) = (ids.len(), self.context);
            return Err(StepError::Input(format!("{n} tokens do not fit a context of {c}: give --context {n}")));
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
            self.scheduler.take(&batch, |_| Sampled { seq, id: 0, log_prob: None, top: vec![] });
        }
        self.scheduler.remove(seq);
        Ok(())
    }

    /// A batch of a given shape for timing: `t` tokens in `s` sequences that end at `l` positions. What the caches
    /// hold does not matter for the time. Only on an engine without sequences of its own.
    pub fn shaped_batch(&self, bind: Bind) -> Result<StepBatch, StepError> {
        let Bind { t, s, l } = bind;
        if s == 0 || t < s || t % s != 0 || l < t / s {
            return Err(StepError::Input(format!("{t} tokens in {s} sequences of {l} positions are no batch")));
        }
        if s as usize > self.sequences || l as usize > self.context {
            let (c, n) = (self.context, self.sequences);
            return Err(StepError::Input(format!("{s} sequences of {l} do not fit the {n} of {c} there is room for")));
        }
        let mut batch = StepBatch { page_len: PAGE_LEN as u32, ..Default::default() };
        let pages_each = (l as usize).div_ceil(PAGE_LEN);
        for i in 0..s as usize {
            let ids: Vec<u32> =
                (0..t / s).map(|j| ((i as u64 * 31 + j * 7 + 1) % self.vocabulary as u64) as u32).collect();
            let pages = (i * pages_each..(i + 1) * pages_each).map(|p| p as u32).collect();
            batch.push(&ids, (l - t / s) as u32, SeqSpan { pages, slot: i as u32, ..Default::default() });
        }
        batch.logit_rows = batch.seqs.iter().map(|s| s.start + s.count - 1).collect();
        Ok(batch)
    }

    /// Seconds that one step on a batch takes, parameters included.
    pub fn time_step(&mut self, batch: &mut StepBatch) -> Result<f64, StepError> {
        let start = Instant::now();
        let out = self.run(batch, Want::Sample { top: 0 })?;
        std::hint::black_box(out);
        Ok(start.elapsed().as_secs_f64())
    }

    /// Records a plan again with a probe; [`Engine::submit`] runs it.
    pub fn record_with(&mut self, key: PlanKey, probe: &mut dyn Probe) -> Result<Recorded, StepError> {
        let plan = self.recorded(key)?.plan.clone();
        let recording = record(&plan, &mut *self.device, probe)?;
        Ok(Recorded { plan, recording })
    }

    /// Records the plan of a class of batches by other rules than the model's own; [`Engine::submit`] runs it.
    pub fn record_by(&mut self, key: PlanKey, fuse: &Fuse) -> Result<Recorded, StepError> {
        let plan = Arc::new(self.model.plan_with(key, fuse, false)?);
        let recording = record(&plan, &mut *self.device, &mut Silent)?;
        Ok(Recorded { plan, recording })
    }

    /// Records only those rows of the plan of a class of batches: what a tick takes without the others is what they add to
    /// it, and without any what remains is handing over and waiting.
    pub fn record_rows(&mut self, key: PlanKey, is_kept: &dyn Fn(usize) -> bool) -> Result<Recorded, StepError> {
        let plan = &self.recorded(key)?.plan;
        let kept = plan.dispatches.iter().enumerate().filter(|(n, _)| is_kept(*n)).map(|(_, d)| d.clone()).collect();
        let plan = Arc::new(Plan { dispatches: kept, ..(**plan).clone() });
        let recording = record(&plan, &mut *self.device, &mut Silent)?;
        Ok(Recorded { plan, recording })
    }

    /// Runs a recording made by [`Engine::record_with`] or [`Engine::record_by`] to its end; gives the run and the
    /// seconds it took.
    pub fn submit(&mut self, recorded: &Recorded, batch: &mut StepBatch) -> Result<(Ticket, f64), StepError> {
        let start = Instant::now();
        batch.fill_rope(&recorded.plan.ropes);
        let run = self.device.submit(&recorded.recording, batch)?;
        self.device.wait()?;
        Ok((run, start.elapsed().as_secs_f64()))
    }

    /// Seconds of one of `n` runs of a recording in a row: the host hands the next one over while the device is at work.
    pub fn burst(&mut self, recorded: &Recorded, batch: &mut StepBatch, n: usize) -> Result<f64, StepError> {
        batch.fill_rope(&recorded.plan.ropes);
        let start = Instant::now();
        for _ in 0..n {
            self.device.submit(&recorded.recording, batch)?;
        }
        self.device.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    }

    /// Rows of the first output of a run of [`Engine::submit`].
    pub fn output(&mut self, run: Ticket, recorded: &Recorded, rows: usize) -> Result<Vec<f32>, StepError> {
        Ok(self.device.output(run, &recorded.plan, 0, rows)?)
    }
}

/// Refuses so many ticks a submission where the device cannot take them.
pub fn check_ticks(device: &dyn Device, ticks: usize) -> Result<(), StepError> {
    let (most, name) = (device.most_ticks(), device.name());
    if (1..=most).contains(&ticks) {
        return Ok(());
    }
    let what = match most {
        1 => format!(
            "the device {name} takes one tick a submission: leave it out, or use --device cuda and --commit replay"
        ),
        _ => format!("the device {name} takes 1 to {most} ticks a submission"),
    };
    Err(StepError::Input(format!("--ticks-per-launch {ticks}: {what}")))
}

/// A row of the op `sample`.
fn sampled(row: &[f32], span: &SeqSpan) -> Sampled {
    let asked = span.sample.top > 0;
    let top = row[2..].chunks_exact(2).take_while(|p| !p[1].is_nan()).map(|p| (p[0].to_bits(), p[1])).collect();
    Sampled { seq: 0, id: row[0].to_bits(), log_prob: asked.then_some(row[1]), top: if asked { top } else { vec![] } }
}

fn recurrent_bytes(model: &Model, sequences: usize) -> u64 {
    let rows = model.states().iter().filter(|s| s.role == Role::Recurrent).map(|s| s.row_bytes() as u64);
    rows.sum::<u64>().saturating_mul(sequences as u64)
}

/// What to ask for where `fixed` bytes and pages of caches of `page` bytes are more than `have`.
fn what_fits(have: u64, fixed: u64, page: u64, sequences: usize) -> String {
    let pages = have.checked_sub(fixed).filter(|_| page > 0).map_or(0, |room| room / page) as usize;
    match (pages / sequences.max(1), pages) {
        (0, 0) => format!(
            "the weights have to be smaller (a model file of at most {:.1} GB, or --weights)",
            have as f64 / 1e9
        ),
        (0, pages) => format!("--batch {pages} with --context {PAGE_LEN} fits"),
        (each, _) => format!("--context {} fits", each * PAGE_LEN),
    }
}

/// Refuses caches that are larger than the machine's memory, before they are touched.
fn check_memory(bytes: u64, context: usize, sequences: usize) -> Result<(), StepError> {
    let Ok(info) = std::fs::read_to_string("/proc/meminfo") else { return Ok(()) };
    let line = info.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let total = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map(|kb| kb * 1024);
    match total {
        Some(total) if bytes > total => Err(StepError::Input(format!(
            "{sequences} sequence(s) of {context} tokens need {:.1} GB of caches, this machine has {:.1} GB: give a smaller {}",
            bytes as f64 / 1e9,
            total as f64 / 1e9,
            if sequences > 1 { "--batch or --context" } else { "--context" }
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::what_fits;

    #[test]
    fn what_does_not_fit_is_answered_with_what_would() {
        assert_eq!(what_fits(1000, 400, 100, 2), "--context 768 fits");
        assert_eq!(what_fits(1000, 400, 100, 6), "--context 256 fits");
        assert_eq!(what_fits(1000, 400, 100, 7), "--batch 6 with --context 256 fits");
        assert!(what_fits(3_000_000_000, 4_000_000_000, 100, 1).contains("at most 3.0 GB"));
        assert!(what_fits(1000, 950, 100, 1).contains("weights have to be smaller"));
    }
}
