//! Cache write in CUDA: one warp for each row and head.

use super::*;
use crate::codegen::cuda::{HEADS, Unit, cache_type, groups};
use crate::ops::rope::cuda::set_rope;

pub(super) fn lower(op: &CacheWrite, site: &OpSite) -> Lowering {
    let first = op.first_state();
    let Some(cache) = site.ins[first].cache() else { return Lowering::Gap("the value written to is no cache") };
    let last = &site.ins[site.ins.len() - 1];
    let (Some(keys), Some(values)) = (cache_type(&site.ins[first], cache.dim), cache_type(last, cache.dim)) else {
        return Lowering::Gap("caches of this type and head size have no CUDA kernel");
    };
    if op.has_norm() && site.ins[2].dtype != DType::F32 {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    let mut unit = Unit::new(128);
    unit.batch().read("X_IN", "float", Arg::In(0));
    unit.set("HEADS", cache.heads).set("DIM", cache.dim).set("KEY_TYPE", keys).set("VALUE_TYPE", values);
    unit.set("ROTATE", op.rope.is_some() as u8).set("PAIR", op.pair as u8);
    set_rope(&mut unit, "", op.rope.as_ref(), Some(Arg::In(2)));
    unit.update("KEYS", "u8", Arg::In(first));
    if op.pair {
        unit.read("V_IN", "float", Arg::In(1)).update("VALUES", "u8", Arg::In(first + 1));
    } else {
        unit.set("V_IN", "((const float*)0)").set("VALUES", "((u8*)0)");
    }
    unit.part(HEADS).part(include_str!("cache_write.cu"));
    let kernel = match (op.pair, &op.rope) {
        (false, _) => "cache_write/one",
        (true, None) => "cache_write/pair",
        (true, Some(_)) => "cache_write/rope",
    };
    unit.lower(kernel, groups(&Expr::T, cache.heads, 4), op.cost(site))
}
