//! Which kernel a CUDA matmul takes: the candidates, the fastest first, and what each needs.

use super::*;
use crate::select::{Candidate, Described, Language, Need, Rows, describe};

impl<'a> Cuda<'a> {
    const HALF: Need<Cuda<'a>> = Need {
        otherwise: "activations are not converted to 16 bits for all of these weights",
        holds: |c| c.half().is_some(),
    };
    const OWN_PRODUCTS: Need<Cuda<'a>> =
        Need { otherwise: "a product belongs to several outputs", holds: |c| c.places().is_some() };
    const K_OF_32: Need<Cuda<'a>> =
        Need { otherwise: "the width of a row is not a multiple of 32", holds: |c| c.k().is_multiple_of(32) };
    const ONE_FORMAT: Need<Cuda<'a>> = Need {
        otherwise: "the products of an output have weights of different formats",
        holds: |c| {
            let form = |p: usize| c.products[p].planes;
            c.op.outputs.iter().map(|t| c.op.products_of(t)).all(|used| used.iter().all(|&p| form(p) == form(used[0])))
        },
    };

    /// The candidates, in order of preference.
    pub(super) const CANDIDATES: &'a [Candidate<'a, Cuda<'a>, Lowering>] = &[
        Candidate {
            kernel: "gemm_skinny",
            rows: Rows::NINE_TO_64,
            needs: &[
                Self::HALF,
                Self::OWN_PRODUCTS,
                Need {
                    otherwise: "the value in MMA fragment layout has another type, padding columns, or a norm",
                    holds: |c| c.half().is_some_and(|half| c.fits_fragment_layout(half)),
                },
                Need {
                    otherwise: "a weight is not quantized",
                    holds: |c| c.products.iter().all(|p| p.planes.is_some()),
                },
                Need {
                    otherwise: "an output has more than two products, or none",
                    holds: |c| c.op.outputs.iter().all(|t| (1..=2).contains(&c.op.products_of(t).len())),
                },
                Self::ONE_FORMAT,
                Need { otherwise: "a weight has 4 GiB or more", holds: |c| c.weights_have_32_bit_places() },
            ],
            build: |c| c.gemm_skinny(c.half()?),
            otherwise: Some("no block shape fits shared memory"),
        },
        Candidate {
            kernel: "gemv",
            rows: Rows::ONE,
            needs: &[
                Self::OWN_PRODUCTS,
                Self::K_OF_32,
                Need {
                    otherwise: "a quantized weight meets activations that are not int8",
                    holds: |c| c.products.iter().all(|p| p.int8 || p.planes.is_none()),
                },
                Need { otherwise: "a row is too long for the registers of a block", holds: |c| c.rows_fit_registers() },
            ],
            build: |c| c.gemv(),
            otherwise: Some("activations and partial sums do not fit shared memory"),
        },
        Candidate {
            kernel: "gemm_int8_mma",
            rows: Rows::TWO_TO_8,
            needs: &[
                Self::OWN_PRODUCTS,
                Self::K_OF_32,
                Need {
                    otherwise: "a weight is not multiplied in int8",
                    holds: |c| c.products.iter().all(|p| p.int8 && p.planes.is_some()),
                },
                Need {
                    otherwise: "a row has an odd number of scales",
                    holds: |c| c.products.iter().filter_map(|p| p.planes).all(|s| (c.k() / s.group).is_multiple_of(2)),
                },
                Self::ONE_FORMAT,
            ],
            build: |c| c.gemm_int8_mma(),
            otherwise: Some("partial sums and the ring of stages do not fit shared memory"),
        },
        Candidate {
            kernel: "gemv_multi",
            rows: Rows::UP_TO_8,
            needs: &[],
            build: |c| c.gemv_multi(),
            otherwise: Some("one row of activations does not fit shared memory"),
        },
        Candidate {
            kernel: "cublaslt",
            rows: Rows::FROM_65,
            needs: &[
                Self::HALF,
                Need { otherwise: "cuBLASLt is not there", holds: |c| caps(c.site).lt },
                Need {
                    otherwise: "the rows of a weight are not a multiple of 8",
                    holds: |c| (0..c.op.products).all(|p| c.weight_rows(p).is_multiple_of(8)),
                },
                Need {
                    otherwise: "a weight would take more than 512 MiB in 16 bits",
                    holds: |c| (0..c.op.products).all(|p| c.weight_rows(p) * c.k() * 2 <= tune::MOST_DEQUANTIZED),
                },
            ],
            build: |c| c.gemm_library(c.half()?),
            otherwise: None,
        },
        Candidate {
            kernel: "gemm_f16_mma",
            rows: Rows::ANY,
            needs: &[
                Self::HALF,
                Need {
                    otherwise: "an output has more than four products",
                    holds: |c| c.op.outputs.iter().all(|t| c.op.products_of(t).len() <= 4),
                },
            ],
            build: |c| c.gemm_f16_mma(c.half()?),
            otherwise: None,
        },
        Candidate {
            kernel: "gemm_f32_simt",
            rows: Rows::ANY,
            needs: &[],
            build: |c| c.gemm_f32_simt(),
            otherwise: None,
        },
    ];
}

/// The candidates, described.
pub(in crate::ops::matmul) fn described() -> Vec<Described> {
    describe("matmul", Language::Cuda, Cuda::CANDIDATES)
}
