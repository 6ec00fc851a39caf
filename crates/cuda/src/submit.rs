//! Submits a run as launches and graphs, grouped by the commit policy.
//!
//! `each` launches every dispatch by itself. `every:K` captures a graph of K dispatches and `tick` one of all, anew for each
//! run. `replay` captures a graph when a shape of batch comes for the second time, and keeps it. No policy waits for the GPU.

use std::time::Instant;

use onetrip_device_common::recording::{Entry, dispatches, groups, stamps};
use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{Commit, DeviceError, SubmitMode};
use onetrip_ir::kernel::Code;

use crate::device::CudaDevice;
use crate::driver::{DriverError, Graph, Kind, Shape};
use crate::recording::{CudaRecording, GRAPHS};

impl CudaDevice {
    /// Launches dispatches one by one and returns how many. With `event`, stamps are recorded as events from that number on.
    pub(crate) fn launch(
        &self,
        r: &CudaRecording,
        entries: &[Entry],
        batch: &StepBatch,
        event: Option<usize>,
    ) -> Result<u64, (Option<usize>, DriverError)> {
        let bind = batch.bind();
        let (mut at, mut is_first, mut launched) = (event.unwrap_or(0), true, 0);
        for entry in entries {
            let Entry::Dispatch(n) = entry else {
                if event.is_some() {
                    self.gpu.mark(&self.events[at]).map_err(|e| (None, e))?;
                    at += 1;
                }
                continue;
            };
            let d = &r.plan.dispatches[*n];
            let args: Vec<u64> = d.args.iter().map(|a| self.address(a)).collect();
            if let (Some(Code::Library(gemm)), Some(lt)) = (&d.code, &self.lt) {
                let done = lt.gemm(gemm, gemm.m.eval(bind), &args, self.gpu.stream);
                let done = done.and_then(|()| if self.options.sync { self.gpu.wait() } else { Ok(()) });
                done.map_err(|e| (Some(*n), e))?;
                // A library's kernels know nothing of dependent launch: the next one waits for their end.
                is_first = true;
                launched += 1;
                continue;
            }
            let Some((kernel, text)) = &r.kernels[*n] else { continue };
            // A dispatch without work is launched too, with one thread block that finds nothing to do.
            let groups = u32::try_from(d.grid.eval(bind)).unwrap_or(u32::MAX).max(1);
            let shape = Shape { groups, threads: text.workgroup, shared: text.shared, carveout: r.carveout };
            // The first kernel must wait for the copy in front of it. With stamps no kernel may overlap its neighbour.
            let dependent = self.properties.sm >= 90 && event.is_none() && !is_first && !self.options.serial;
            let done = self.gpu.launch(*kernel, &args, shape, dependent);
            let done = done.and_then(|()| if self.options.sync { self.gpu.wait() } else { Ok(()) });
            done.map_err(|e| (Some(*n), e))?;
            is_first = false;
            launched += 1;
        }
        Ok(launched)
    }

    /// Captures some dispatches as a graph. On an error, the number of the dispatch is given where it is known.
    fn graph_of(
        &self,
        r: &CudaRecording,
        entries: &[Entry],
        batch: &StepBatch,
    ) -> Result<Graph, (Option<usize>, DriverError)> {
        let mut failed = None;
        let made = self.gpu.record(|| {
            self.launch(r, entries, batch, None).map_err(|(n, e)| {
                failed = n;
                e
            })
        });
        let graph = made.map_err(|e| (failed, e))?;
        let is_ours = |e: &Entry| !matches!(e, Entry::Dispatch(n) if matches!(r.plan.dispatches[*n].code, Some(Code::Library(_))));
        if graph.nodes as u64 != graph.launches && entries.iter().all(is_ours) {
            let what = format!("a graph of {} nodes was made of {} launches", graph.nodes, graph.launches);
            return Err((
                None,
                DriverError { what, name: "counted".into(), text: "report this".into(), kind: Kind::Other },
            ));
        }
        Ok(graph)
    }

    /// The commit policy. With `sync` it is `each`, since the host cannot wait for a kernel inside a graph.
    fn commit(&self) -> Commit {
        if self.options.sync { Commit::Each } else { self.how.commit }
    }

    /// Events that the run's stamps need: those of the recording, else two for each submission where they are asked for.
    pub(crate) fn stamps_of(&self, r: &CudaRecording) -> (usize, bool) {
        let dispatches = dispatches(&r.entries);
        let own = r.entries.len() - dispatches;
        let how = SubmitMode { commit: self.commit(), ..self.how };
        (stamps(own, dispatches, how), how.timed && own == 0)
    }

    /// Submits the run by the commit policy. If the recording has stamps, each dispatch is launched by itself.
    pub(crate) fn submit_by(
        &mut self,
        r: &CudaRecording,
        batch: &StepBatch,
        shape: Vec<u64>,
    ) -> Result<(), DeviceError> {
        let start = Instant::now();
        let (mut commits, mut dispatches, mut ahead) = (0, 0, None);
        let done = self.submissions(r, batch, shape, &mut |n, launched| {
            commits += n;
            dispatches += launched;
            ahead.get_or_insert_with(|| start.elapsed());
        });
        done.map_err(|(n, e)| {
            let at = n.map_or(String::new(), |n| format!(" at dispatch {n} ({})", r.plan.dispatches[n].name));
            self.failed(e).at(at)
        })?;
        self.counts.commits += commits;
        self.counts.dispatches += dispatches;
        self.host.encode += start.elapsed();
        self.host.ahead += ahead.unwrap_or_default();
        Ok(())
    }

    /// Makes the submissions of a run. After each, `submitted` gets its number of launches or graphs and its number of
    /// dispatches.
    fn submissions(
        &self,
        r: &CudaRecording,
        batch: &StepBatch,
        shape: Vec<u64>,
        submitted: &mut dyn FnMut(u64, u64),
    ) -> Result<(), (Option<usize>, DriverError)> {
        let (stamps, is_timed) = self.stamps_of(r);
        let launches = |entries: &[Entry]| dispatches(entries) as u64;
        if stamps > 0 && !is_timed {
            // The first dispatch is a submission of its own, so that `ahead` ends when the GPU has work.
            let (first, rest) = r.entries.split_at(groups(&r.entries, 1)[0].len());
            submitted(launches(first), self.launch(r, first, batch, Some(0))?);
            let stamps = first.len() - launches(first) as usize;
            submitted(launches(rest), self.launch(r, rest, batch, Some(stamps))?);
            return Ok(());
        }
        if launches(&r.entries) == 0 {
            return Ok(());
        }
        let mark = |event: usize| match is_timed {
            true => self.gpu.mark(&self.events[event]).map_err(|e| (None, e)),
            false => Ok(()),
        };
        let graph = |graph: &Graph| self.gpu.replay(graph).map_err(|e| (None, e));
        match self.commit() {
            Commit::Each if !is_timed => {
                submitted(launches(&r.entries), self.launch(r, &r.entries, batch, None)?);
            }
            Commit::Each => {
                for (i, group) in groups(&r.entries, 1).into_iter().enumerate() {
                    mark(2 * i)?;
                    let launched = self.launch(r, group, batch, None)?;
                    mark(2 * i + 1)?;
                    submitted(launches(group), launched);
                }
            }
            Commit::Every(_) | Commit::Tick => {
                for (i, group) in groups(&r.entries, self.commit().size()).into_iter().enumerate() {
                    let made = self.graph_of(r, group, batch)?;
                    mark(2 * i)?;
                    graph(&made)?;
                    mark(2 * i + 1)?;
                    submitted(1, made.launches);
                }
            }
            Commit::Replay => {
                let mut graphs = r.graphs.lock().unwrap_or_else(|e| e.into_inner());
                mark(0)?;
                match graphs.get(&shape) {
                    Some(Some((generation, kept))) if *generation == self.generation => {
                        graph(kept)?;
                        submitted(1, kept.launches);
                    }
                    // The shape was seen before, or memory has moved: capture a graph and keep it.
                    Some(_) => {
                        let made = self.graph_of(r, &r.entries, batch)?;
                        graph(&made)?;
                        submitted(1, made.launches);
                        graphs.insert(shape, Some((self.generation, made)));
                    }
                    None => {
                        if graphs.len() >= GRAPHS {
                            self.gpu.wait().map_err(|e| (None, e))?;
                            graphs.clear();
                        }
                        submitted(launches(&r.entries), self.launch(r, &r.entries, batch, None)?);
                        graphs.insert(shape, None);
                    }
                }
                mark(1)?;
            }
        }
        Ok(())
    }
}
