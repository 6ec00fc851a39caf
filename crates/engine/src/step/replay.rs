//! Running one recorded step again and again from the same states: whatever differs in a bit depends on time.

use onetrip_core::batch::StepBatch;
use onetrip_core::expr::Bind;
use onetrip_core::tensor::Role;

use super::{Engine, StepError};
use crate::model::PlanKey;
use crate::page::Want;

/// What came of the replays of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replays {
    /// How often the step ran besides its first time.
    pub times: usize,
    /// Numbers of the output.
    pub numbers: usize,
    /// Runs with an output that differs in a bit, and the first of them, with the first number that does.
    pub different: usize,
    /// That one.
    pub first: Option<(usize, usize)>,
    /// States that differ in a bit after the last run.
    pub states: Vec<usize>,
}

impl Engine {
    /// Runs the step of a batch of this shape, all logits, once and `times` more, each time from the same recurrent states;
    /// caches are written anew with the same. `each` hears of every run.
    pub fn replay(&mut self, bind: Bind, times: usize, each: &mut dyn FnMut(usize)) -> Result<Replays, StepError> {
        let mut batch = self.shaped_batch(bind)?;
        let (tokens, seqs) = (bind.t as usize, bind.s as usize);
        let key = PlanKey::of(tokens, seqs, Want::AllLogits);
        self.recorded(key)?;
        let recurrent: Vec<usize> =
            self.model.states().iter().enumerate().filter(|(_, s)| s.role == Role::Recurrent).map(|(i, _)| i).collect();
        let begin: Vec<Vec<u8>> = recurrent.iter().map(|&i| self.device.read_state(i)).collect();
        let want = self.run_bits(&mut batch)?;
        let after = self.all_states();
        let mut made = Replays { times, numbers: want.len(), different: 0, first: None, states: vec![] };
        for run in 0..times {
            recurrent.iter().zip(&begin).for_each(|(&i, bytes)| self.device.write_state(i, bytes));
            let have = self.run_bits(&mut batch)?;
            if let Some(at) = have.iter().zip(&want).position(|(a, b)| a != b) {
                made.different += 1;
                made.first.get_or_insert((run, at));
            }
            each(run);
        }
        if times > 0 {
            made.states = (0..after.len()).filter(|&i| self.device.read_state(i) != after[i]).collect();
        }
        Ok(made)
    }

    fn run_bits(&mut self, batch: &mut StepBatch) -> Result<Vec<u32>, StepError> {
        Ok(self.run(batch, Want::AllLogits)?.into_iter().map(f32::to_bits).collect())
    }

    fn all_states(&mut self) -> Vec<Vec<u8>> {
        (0..self.model.states().len()).map(|i| self.device.read_state(i)).collect()
    }
}
