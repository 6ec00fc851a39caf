//! Which kernel the CUDA delta rule takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> Cuda<'a> {
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, Cuda<'a>, Lowering>] = &[
        Candidate {
            kernel: "chunked",
            rows: Rows::FROM_65,
            needs: &[
                Need { otherwise: "the GPU is older than compute capability 8.0", holds: |c| caps(c.site).sm >= 80 },
                Need {
                    otherwise: "the elements of a key head are not a multiple of 4 up to 128",
                    holds: |c| c.op.k_dim.is_multiple_of(4) && c.op.k_dim <= 128,
                },
                Need {
                    otherwise: "a chunk does not fit shared memory",
                    holds: |c| {
                        let (first, second) = chunked_shared(c.op);
                        second(1).max(first) <= caps(c.site).shared as usize
                    },
                },
            ],
            build: |c| Some(chunked(c)),
            otherwise: None,
        },
        Candidate { kernel: "recurrent", rows: Rows::ANY, needs: &[], build: |c| Some(recurrent(c)), otherwise: None },
    ];
}

/// The candidates, described.
pub(in crate::ops::delta_net) fn described() -> Vec<Described> {
    describe("delta_net", Language::Cuda, Cuda::CANDIDATES)
}
