//! L2 norm in CUDA: the kernel of the root-mean-square norm, which then does not divide the sum of squares by `dim`.

use super::*;
use crate::ops::rms_norm::With;
use crate::ops::rms_norm::cuda::Norm;

pub(super) fn lower(op: &L2Norm, site: &OpSite) -> Lowering {
    let norm = Norm { site, dim: op.dim, eps: op.eps, l2: true, view: &op.view };
    norm.lower(false, With::Nothing, op.cost(site))
}
