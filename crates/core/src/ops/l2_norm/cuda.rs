//! The L2 norm in CUDA: the kernel of the root-mean-square norm without the mean.

use super::*;
use crate::ops::rms_norm::cuda::{finish, norm_unit};

pub(super) fn lower(op: &L2Norm, site: &Site) -> Lowering {
    let mut unit = norm_unit(site, op.dim, op.eps, true);
    let none = "((const float*)0)";
    unit.set("HAS_WEIGHT", 0).set("HAS_RESIDUAL", 0).set("WEIGHT", none).set("RESIDUAL", none);
    finish(unit, "l2_norm", site, op.dim, op.cost(site))
}
