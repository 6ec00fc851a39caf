//! Running single plans for their time or their counts: batches of a given shape, and recordings by other rules, with a probe,
//! or of some dispatches only.

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

    /// Records the plan of a bucket of batches by other rules than the model's own; [`Engine::submit`] runs it.
    pub fn record_by(&mut self, key: PlanKey, fuse: &Fuse) -> Result<Recorded, StepError> {
        let plan = Arc::new(self.model.plan_with(key, fuse, false)?);
        let recording = record(&plan, &mut *self.device, &mut Silent)?;
        Ok(Recorded { plan, recording })
    }

    /// Records only some dispatches of the plan of a bucket of batches. The time that a tick saves without the others is their
    /// marginal cost; the time of a tick without any dispatch is that of submitting and waiting.
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

    /// Seconds per run of `n` pipelined runs of a recording: the host submits the next run while the device works.
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
