//! The lowering context: the batch and the device that a graph is lowered for, as plain data that a plan keeps.

use crate::expr::Expr;
use crate::target::{Compute, RowBucket, Target};
use crate::tensor::Sig;

/// The row buckets, the precision and the target that a graph is fused and lowered for.
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
    /// Kernel language and device that the plan is for.
    pub target: Target,
}

impl LoweringContext {
    /// The context for a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, compute: Compute, target: Target) -> LoweringContext {
        let one_each = tokens == seqs;
        LoweringContext { tokens: RowBucket::of(tokens), seqs: RowBucket::of(seqs), one_each, compute, target }
    }

    /// The bucket of an op's row count. The first input decides: an op on one row for each sequence has the bucket of the
    /// sequences.
    pub fn bucket(&self, ins: &[Sig]) -> RowBucket {
        let by_seq = ins.first().is_some_and(|s| s.rows == Expr::S);
        if by_seq { self.seqs } else { self.tokens }
    }
}
