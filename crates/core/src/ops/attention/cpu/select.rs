//! Which kernel CPU attention takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Rows, describe};

impl<'a> CpuAttention<'a> {
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, CpuAttention<'a>, Lowering>] = &[
        Candidate { kernel: "decode", rows: Rows::UP_TO_8, needs: &[], build: |c| Some(c.decode()), otherwise: None },
        Candidate {
            kernel: "prefill",
            rows: Rows::FROM_9,
            needs: &[],
            build: |c| c.prefill(),
            // The cache write in front of it has a CPU kernel for every type of cache.
            otherwise: None,
        },
    ];
}

/// The candidates, described.
pub(in crate::ops::attention) fn described() -> Vec<Described> {
    describe("attention", Language::Cpu, CpuAttention::CANDIDATES)
}
