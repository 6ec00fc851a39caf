//! The lowering context: the properties of the batch and the device that a graph is lowered for. It is plain data and part of
//! a plan.

use crate::expr::Expr;
use crate::target::{Compute, RowBucket, Target};
use crate::tensor::Sig;

/// The batch shape, precision and target that a graph is fused and lowered for.
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
    /// The kernel language and the capabilities of the device that will run the plan.
    pub target: Target,
}

impl LoweringContext {
    /// The context of a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, compute: Compute, target: Target) -> LoweringContext {
        let one_each = tokens == seqs;
        LoweringContext { tokens: RowBucket::of(tokens), seqs: RowBucket::of(seqs), one_each, compute, target }
    }

    /// The bucket of an op's row count: of sequences if its first input has a row for each sequence, else of tokens.
    pub fn bucket(&self, ins: &[Sig]) -> RowBucket {
        let by_seq = ins.first().is_some_and(|s| s.rows == Expr::S);
        if by_seq { self.seqs } else { self.tokens }
    }
}
