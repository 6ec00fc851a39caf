//! Which kernel a CPU matmul takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> CpuMatmul<'a> {
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, CpuMatmul<'a>, Lowering>] = &[
        Candidate {
            kernel: "gemv_multi",
            rows: Rows::ANY,
            needs: &[Need {
                otherwise: "more than 8 rows are normed or quantized once, ahead of the products, not by every worker",
                holds: |c| c.site.bucket.is_small() || !c.needs_prologue(),
            }],
            build: |c| Some(c.gemv_multi()),
            otherwise: None,
        },
        Candidate { kernel: "gemm", rows: Rows::ANY, needs: &[], build: |c| Some(c.gemm()), otherwise: None },
    ];
}

/// The candidates, described.
pub(in crate::ops::matmul) fn described() -> Vec<Described> {
    describe("matmul", Language::Cpu, CpuMatmul::CANDIDATES)
}
