//! Runs single plans to measure their time or counts: makes batches of a given shape, and recordings with other rules, with a
//! probe, or with only some of the dispatches of a plan.

use std::sync::Arc;
use std::time::Instant;

use onetrip_core::fuse::Fuse;
use onetrip_core::probe::{Probe, Silent};
use onetrip_core::record::record;
use onetrip_ir::batch::{SeqSpan, StepBatch};
use onetrip_ir::device::Ticket;
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;

use crate::graph_builder::Want;
use crate::model::PlanKey;
use crate::scheduler::PAGE_LEN;
use crate::step::{Engine, Recorded, StepError};

impl Engine {
    /// Makes a batch of a given shape for timing: `t` tokens in `s` sequences, each of which is `l` positions long after the
    /// step. The contents of the caches are arbitrary, because they do not matter for the time. The batch uses pages from
    /// number 0 on, so the scheduler must have no sequences.
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

    /// Seconds that one step on a batch takes, with upload of the parameters and readback of the sampled tokens.
    pub fn time_step(&mut self, batch: &mut StepBatch) -> Result<f64, StepError> {
        let start = Instant::now();
        let out = self.run(batch, Want::Sample { top: 0 })?;
        std::hint::black_box(out);
        Ok(start.elapsed().as_secs_f64())
    }

    /// Records the plan for a key again, watched by a probe; [`Engine::submit`] runs the recording.
    pub fn record_with(&mut self, key: PlanKey, probe: &mut dyn Probe) -> Result<Recorded, StepError> {
        let plan = self.recorded(key)?.plan.clone();
        let recording = record(&plan, &mut *self.device, probe)?;
        Ok(Recorded { plan, recording })
    }

    /// Makes and records the plan for a key with the rules `fuse` instead of the model's own; [`Engine::submit`] runs it.
    pub fn record_by(&mut self, key: PlanKey, fuse: &Fuse) -> Result<Recorded, StepError> {
        let plan = Arc::new(self.model.plan_with(key, fuse, false)?);
        let recording = record(&plan, &mut *self.device, &mut Silent)?;
        Ok(Recorded { plan, recording })
    }

    /// Records only those dispatches of the plan for a key whose index `is_kept` accepts. The time that a tick saves when
    /// dispatches are left out is their marginal cost; a tick without any dispatch takes the time of submitting and waiting.
    pub fn record_rows(&mut self, key: PlanKey, is_kept: &dyn Fn(usize) -> bool) -> Result<Recorded, StepError> {
        let plan = &self.recorded(key)?.plan;
        let kept = plan.dispatches.iter().enumerate().filter(|(n, _)| is_kept(*n)).map(|(_, d)| d.clone()).collect();
        let plan = Arc::new(Plan { dispatches: kept, ..(**plan).clone() });
        let recording = record(&plan, &mut *self.device, &mut Silent)?;
        Ok(Recorded { plan, recording })
    }

    /// Runs a recording of [`Engine::record_with`] or [`Engine::record_by`] to its end; returns the ticket of the run and its
    /// seconds.
    pub fn submit(&mut self, recorded: &Recorded, batch: &mut StepBatch) -> Result<(Ticket, f64), StepError> {
        let start = Instant::now();
        batch.fill_rope(&recorded.plan.ropes);
        let run = self.device.submit(&recorded.recording, batch)?;
        self.device.wait()?;
        Ok((run, start.elapsed().as_secs_f64()))
    }

    /// Runs a recording `n` times in a pipeline, where the host submits the next run while the device works on the one before;
    /// returns the seconds per run.
    pub fn burst(&mut self, recorded: &Recorded, batch: &mut StepBatch, n: usize) -> Result<f64, StepError> {
        batch.fill_rope(&recorded.plan.ropes);
        let start = Instant::now();
        for _ in 0..n {
            self.device.submit(&recorded.recording, batch)?;
        }
        self.device.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    }

    /// The first `rows` rows of the first output of a run of [`Engine::submit`].
    pub fn output(&mut self, run: Ticket, recorded: &Recorded, rows: usize) -> Result<Vec<f32>, StepError> {
        Ok(self.device.output(run, &recorded.plan, 0, rows)?)
    }
}
