//! Which kernel WGSL attention takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> AttentionSite<'a> {
    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, AttentionSite<'a>, Form>] = &[
        Candidate {
            kernel: "prefill_mma",
            rows: Rows::FROM_9,
            needs: &[
                Need {
                    otherwise: "the adapter has no cooperative matrices of f16",
                    holds: |s| {
                        let caps = caps(s.site.target);
                        caps.subgroups.is_some() && caps.coop > 0 && caps.f16
                    },
                },
                Need {
                    // Apple's adapters report a range of subgroup sizes; those with cooperative matrices use 32.
                    otherwise: "the adapter has subgroups of several sizes",
                    holds: |s| {
                        let caps = caps(s.site.target);
                        caps.coop == 8 || caps.subgroups.is_some_and(|(least, most)| least == most)
                    },
                },
                Need {
                    otherwise: "a cache is not of f16",
                    holds: |s| s.site.ins[s.op.operands().states..].iter().all(|sig| sig.dtype == DType::F16),
                },
                Need {
                    otherwise: "the elements of a head are not a multiple of 16 up to 128",
                    holds: |s| s.op.dim.is_multiple_of(16) && s.op.dim <= 128,
                },
            ],
            build: |s| tune::prefill_mma(s.op.dim, &caps(s.site.target)).map(Form::PrefillMma),
            otherwise: Some("a tile does not fit workgroup memory"),
        },
        Candidate {
            kernel: "decode_split_kv",
            rows: Rows::ANY,
            needs: &[
                Need { otherwise: "the adapter has no subgroups", holds: |s| lanes(&caps(s.site.target)).is_some() },
                Need {
                    otherwise: "the elements of a head are not a multiple of 8",
                    holds: |s| s.op.dim.is_multiple_of(8),
                },
            ],
            build: |s| tune::split_kv(s).map(Form::SplitKv),
            otherwise: Some("heads of this size do not fit workgroup memory"),
        },
        Candidate {
            kernel: "decode_no_subgroups",
            rows: Rows::ANY,
            needs: &[Need {
                otherwise: "heads of this size do not fit workgroup memory",
                holds: |s| lanes(&caps(s.site.target)).is_none() || !s.op.dim.is_multiple_of(8),
            }],
            build: Form::no_subgroups,
            otherwise: Some("its scores do not fit workgroup memory"),
        },
    ];
}

/// The candidates, described.
pub(in crate::ops::attention) fn described() -> Vec<Described> {
    describe("attention", Language::Wgsl, AttentionSite::CANDIDATES)
}
