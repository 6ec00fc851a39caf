//! What the lowering of a graph is told about the batch and the device it is for: plain data, part of a plan.

use crate::expr::Expr;
use crate::target::{Compute, RowBucket, Target};
use crate::tensor::Sig;

/// For whom a graph is fused.
#[derive(Clone, Copy, Debug)]
pub struct LoweringContext {
    /// Bucket of the number of tokens.
    pub tokens: RowBucket,
    /// Bucket of the number of sequences (rows of logits).
    pub seqs: RowBucket,
    /// Every sequence has one token, so the rows of logits are the rows of the batch.
    pub one_each: bool,
    /// Precision of activations.
    pub compute: Compute,
    /// Where it will run.
    pub target: Target,
}

impl LoweringContext {
    /// For a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, compute: Compute, target: Target) -> LoweringContext {
        let one_each = tokens == seqs;
        LoweringContext { tokens: RowBucket::of(tokens), seqs: RowBucket::of(seqs), one_each, compute, target }
    }

    /// The bucket of an op's rows, by its first input.
    pub fn bucket(&self, ins: &[Sig]) -> RowBucket {
        let by_seq = ins.first().is_some_and(|s| s.rows == Expr::S);
        if by_seq { self.seqs } else { self.tokens }
    }
}
