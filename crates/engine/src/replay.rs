//! Runs one recorded step many times from the same states. Every run must give the same bits; a difference reveals a race.

use onetrip_ir::expr::Bind;
use onetrip_ir::tensor::Role;

use crate::graph_builder::Want;
use crate::model::PlanKey;
use crate::step::{Engine, StepError};

/// The outcome of the replays of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Replays {
    /// Number of runs after the first one.
    pub times: usize,
    /// Number of elements in the output of a run.
    pub numbers: usize,
    /// Number of runs whose output differs in at least one bit from the first run's.
    pub different: usize,
    /// Number of the first run that differs, and index of the first element that differs in it.
    pub first: Option<(usize, usize)>,
    /// Indices of the states that differ in at least one bit after the last run.
    pub states: Vec<usize>,
    /// Counts of the device per run, averaged from the third run on: dispatches, submissions, waits. The first two runs are
    /// left out because a device may capture a graph in the second run; with fewer runs there are no counts.
    pub counted: Option<[f64; 3]>,
    /// The same counts as the ledger of the plan predicts them.
    pub planned: [u64; 3],
}

impl Replays {
    /// Whether no bit differed and the counts of the device are those of the plan.
    pub fn hold(&self) -> bool {
        let as_planned = |counted: [f64; 3]| counted == self.planned.map(|n| n as f64);
        self.different == 0 && self.states.is_empty() && self.counted.is_none_or(as_planned)
    }
}

/// A step that is replayed: the shape of its batch, and the number of runs after the first one.
pub type Step = (Bind, usize);

impl Engine {
    /// Runs every step once and then `times` times more, with all logits as output. Every run of a step begins with the same
    /// recurrent states; KV caches need no copy, since every run writes the same keys and values into them. States are zero
    /// before the first step; each later step begins with the states that the step before it left. `each` is called after
    /// every repeated run.
    pub fn replays(&mut self, steps: &[Step], each: &mut dyn FnMut()) -> Result<Vec<Replays>, StepError> {
        // Every recurrent state gets a second buffer behind the model's own states. It keeps the values with which every run of
        // a step begins, so that they are restored by a copy on the device.
        let states = self.model.states().iter().enumerate();
        let recurrent: Vec<usize> = states.filter(|(_, s)| s.role == Role::Recurrent).map(|(i, _)| i).collect();
        let own = self.state_bytes.len();
        let kept: Vec<(usize, usize)> = recurrent.iter().enumerate().map(|(n, &state)| (state, own + n)).collect();
        let bytes = self.state_bytes.iter().copied().chain(recurrent.iter().map(|&i| self.state_bytes[i]));
        let bytes: Vec<u64> = bytes.collect();
        self.device.set_states(&bytes)?;
        steps.iter().map(|step| self.replay(*step, &kept, each)).collect()
    }

    fn replay(
        &mut self,
        (bind, times): Step,
        kept: &[(usize, usize)],
        each: &mut dyn FnMut(),
    ) -> Result<Replays, StepError> {
        let mut batch = self.shaped_batch(bind)?;
        let (tokens, seqs) = (bind.t as usize, bind.s as usize);
        let key = PlanKey::of(tokens, seqs, Want::AllLogits);
        self.recorded(key)?;
        kept.iter().for_each(|&(state, place)| self.device.copy_state(state, place));
        let want = self.run(&mut batch, Want::AllLogits)?;
        let want: &[u32] = bytemuck::cast_slice(&want);
        let after = self.all_states();
        let ledger = self.plans[&key].plan.ledger(bind);
        let planned = [ledger.dispatches, ledger.commits, ledger.waits];
        let mut made =
            Replays { times, numbers: want.len(), different: 0, first: None, states: vec![], counted: None, planned };
        let mut before = None;
        for run in 0..times {
            if run == 1 {
                before = Some(self.counted());
            }
            kept.iter().for_each(|&(state, place)| self.device.copy_state(place, state));
            let have = self.run(&mut batch, Want::AllLogits)?;
            let have: &[u32] = bytemuck::cast_slice(&have);
            // The outputs are compared as a whole; the element that differs is searched only if they are not equal.
            if have != want {
                made.different += 1;
                let at = have.iter().zip(want).position(|(a, b)| a != b).unwrap_or(want.len());
                made.first.get_or_insert((run, at));
            }
            each();
        }
        if let Some(before) = before {
            let (now, runs) = (self.counted(), (times - 1) as f64);
            made.counted = Some([0, 1, 2].map(|i| (now[i] - before[i]) as f64 / runs));
        }
        if times > 0 {
            made.states = (0..after.len()).filter(|&i| self.device.read_state(i) != after[i]).collect();
        }
        Ok(made)
    }

    fn counted(&self) -> [u64; 3] {
        let counts = self.device.counts();
        [counts.dispatches, counts.commits, counts.waits]
    }

    fn all_states(&mut self) -> Vec<Vec<u8>> {
        (0..self.model.states().len()).map(|i| self.device.read_state(i)).collect()
    }
}
