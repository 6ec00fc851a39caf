//! Which kernel a WGSL matmul takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> Plan<'a> {
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, Plan<'a>, Lowering>] = &[
        Candidate {
            kernel: "gemm_f16_mma",
            rows: Rows::ANY,
            needs: &[
                Need { otherwise: "the width of a row is not a multiple of 32", holds: |p| p.k.is_multiple_of(32) },
                Need {
                    otherwise: "a weight is not multiplied in f16, for want of cooperative matrices, by its type, or for few rows",
                    holds: |p| p.multiplies_in_f16(),
                },
            ],
            build: |p| Some(p.gemm_f16_mma(p.f16_tile()?)),
            otherwise: Some("no tile fits workgroup memory"),
        },
        Candidate {
            kernel: "gemv_lanes",
            rows: Rows::ONE,
            needs: &[
                Need { otherwise: "a weight meets activations in int8", holds: |p| !p.has(Path::Quants) },
                Need { otherwise: "the width of a row is not a multiple of 8", holds: |p| p.k.is_multiple_of(8) },
            ],
            build: |p| Some(Lowering::steps(vec![p.gemv_floats()?], vec![])),
            otherwise: Some("the adapter has no subgroups"),
        },
        Candidate {
            kernel: "gemv_multi_x4",
            rows: Rows::TWO_TO_8,
            needs: &[Need {
                otherwise: "there are too few output columns for four to a row of lanes",
                holds: tune::has_columns_for_four,
            }],
            build: |p| Some(p.behind_prologue(|rounded, _, _| p.gemv_multi(rounded))),
            otherwise: None,
        },
        Candidate {
            kernel: "gemv",
            rows: Rows::UP_TO_8,
            needs: &[],
            build: |p| Some(p.behind_prologue(|rounded, _, staged| p.gemv(rounded, staged))),
            otherwise: None,
        },
        Candidate {
            kernel: "gemm_f32_simt",
            rows: Rows::ANY,
            needs: &[],
            build: |p| Some(p.behind_prologue(|rounded, normed, _| p.gemm_f32_simt(rounded, normed))),
            otherwise: None,
        },
    ];
}

/// The candidates, described.
pub(in crate::ops::matmul) fn described() -> Vec<Described> {
    describe("matmul", Language::Wgsl, Plan::CANDIDATES)
}
