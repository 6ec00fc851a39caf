//! What the lowering of a graph is told about the batch and the device it is for: plain data, part of a plan.

use crate::expr::Expr;
use crate::target::{Compute, RowClass, Target};
use crate::tensor::Sig;

/// For whom a graph is fused.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Class of the number of tokens.
    pub tokens: RowClass,
    /// Class of the number of sequences (rows of logits).
    pub seqs: RowClass,
    /// Every sequence has one token, so the rows of logits are the rows of the batch.
    pub one_each: bool,
    /// Precision of activations.
    pub compute: Compute,
    /// Where it will run.
    pub target: Target,
}

impl Setting {
    /// For a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, compute: Compute, target: Target) -> Setting {
        let one_each = tokens == seqs;
        Setting { tokens: RowClass::of(tokens), seqs: RowClass::of(seqs), one_each, compute, target }
    }

    /// The class of an op's rows, by its first input.
    pub fn class(&self, ins: &[Sig]) -> RowClass {
        let by_seq = ins.first().is_some_and(|s| s.rows == Expr::S);
        if by_seq { self.seqs } else { self.tokens }
    }
}
