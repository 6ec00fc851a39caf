//! Which kernel CUDA attention takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> Cuda<'a> {
    const TENSOR_CORES: Need<Cuda<'a>> =
        Need { otherwise: "the GPU is older than compute capability 8.0", holds: |c| caps(c.site).sm >= 80 };
    const F16_CACHES: Need<Cuda<'a>> =
        Need { otherwise: "a cache is not of f16", holds: |c| c.caches == ["CACHE_F16"; 2] };
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, Cuda<'a>, Lowering>] = &[
        Candidate {
            kernel: "decode_batched",
            rows: Rows::FROM_9,
            needs: &[
                Need { otherwise: "a sequence may have several rows", holds: |c| c.site.one_each },
                Self::F16_CACHES,
                Self::TENSOR_CORES,
                Need {
                    otherwise: "the output has padding columns in MMA fragment layout, which would have to be zeros",
                    holds: |c| !c.site.outs[0].is_mma_fragment() || c.site.outs[0].width.is_multiple_of(128),
                },
            ],
            build: |c| c.decode_batched(),
            otherwise: Some("heads of this size do not fit shared memory"),
        },
        Candidate {
            kernel: "decode_split_kv_mma",
            rows: Rows::UP_TO_8,
            needs: &[Self::F16_CACHES, Self::TENSOR_CORES],
            build: |c| c.decode_split_kv_mma(),
            otherwise: None,
        },
        Candidate {
            kernel: "decode_split_kv_simt",
            rows: Rows::UP_TO_8,
            needs: &[],
            build: |c| c.decode_split_kv_simt(),
            otherwise: Some("heads of this size do not fit shared memory"),
        },
        Candidate {
            kernel: "prefill_mma",
            rows: Rows::FROM_9,
            needs: &[Self::TENSOR_CORES],
            build: |c| c.prefill_mma(),
            otherwise: Some("no tile fits shared memory"),
        },
        Candidate {
            kernel: "prefill_simt",
            rows: Rows::FROM_9,
            needs: &[],
            build: |c| c.prefill_simt(),
            otherwise: None,
        },
    ];
}

/// The candidates, described.
pub(in crate::ops::attention) fn described() -> Vec<Described> {
    describe("attention", Language::Cuda, Cuda::CANDIDATES)
}
