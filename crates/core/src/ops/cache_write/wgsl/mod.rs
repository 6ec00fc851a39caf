//! Caches in WGSL: writing them, and reading them inside other kernels.

use super::*;
use crate::codegen::wgsl::template::renamed;
use crate::codegen::wgsl::{Wgsl, caps};
use crate::ops::rope::wgsl::head;

/// Why there are no kernels for a cache; `None` if there are.
pub(crate) fn gap(cache: &Sig) -> Option<&'static str> {
    let Some(Cache { dim, .. }) = cache.cache() else { return Some("the value written to is no cache") };
    let known = matches!(cache.dtype, DType::F32 | DType::F16 | DType::Q8_0);
    match known && dim.is_multiple_of(4) && cache.dtype.row_bytes(dim).is_some() {
        true => None,
        false => {
            Some("caches have kernels in f32, f16 and q8_0, for heads of whole blocks and a multiple of 4 numbers")
        }
    }
}

/// WGSL that reads elements 8i .. 8i + 8 of a vector as two groups of four.
const EIGHT: &str = "return Eight(kc_four(at, 2u * i), kc_four(at, 2u * i + 1u));";

/// Declares a cache as `name`: its binding and the functions that read it, with `write` also those that write it.
pub(crate) fn cache(w: &mut Wgsl, name: &str, arg: Arg, sig: &Sig, write: bool) {
    let (dim, heads) = sig.cache().map_or((0, 0), |c| (c.dim, c.heads));
    let bytes = sig.dtype.row_bytes(dim).unwrap_or(0);
    w.number(&format!("{name}_DIM"), dim);
    w.number(&format!("{name}_HEADS"), heads);
    w.number(&format!("{name}_BYTES"), bytes);
    let kind = match sig.dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        _ => 2,
    };
    w.number(&format!("{name}_KIND"), kind);
    // Where a vector is no whole number of words, two vectors share a word: each writes its half with atomics.
    let shared = write && !bytes.is_multiple_of(4);
    let access = if write { Access::ReadWrite } else { Access::Read };
    // Float vectors of a multiple of 16 bytes are read 16 bytes at a time.
    let wide = kind < 2 && bytes.is_multiple_of(16) && dim.is_multiple_of(8);
    let (of, word, put) = match (shared, wide) {
        (true, _) => ("atomic<u32>", "atomicLoad(&kc[i])", "atomicAnd(&kc[i], ~mask); atomicOr(&kc[i], word & mask);"),
        (_, true) => ("vec4<u32>", "kc[i >> 2u][i & 3u]", "kc[i >> 2u][i & 3u] = word;"),
        _ => ("u32", "kc[i]", "kc[i] = word;"),
    };
    w.bind(name, of, arg, access);
    let own = |text: &str| renamed(text, "kc", name);
    w.function(&format!("{name}_word(i: u32) -> u32"), &own(word));
    w.file(&own(include_str!("cache.wgsl")));
    w.file(&own(include_str!("read.wgsl")));
    let eight = match (wide, kind) {
        (true, 0) => "let at_ = at / 16u + 2u * i; return Eight(bitcast<vec4<f32>>(kc[at_]), bitcast<vec4<f32>>(kc[at_ + 1u]));",
        (true, _) => {
            "let v = kc[at / 16u + i];
    return Eight(vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)), vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));"
        }
        _ => EIGHT,
    };
    w.line(format!("fn {name}_eight(at: u32, i: u32) -> Eight {{\n    {}\n}}", own(eight)));
    if write {
        w.line(format!("fn {name}_put(i: u32, word: u32, mask: u32) {{ {} }}", own(put)));
        w.file(&own(include_str!("encode.wgsl")));
    }
}

/// Declares workgroup memory for `count` vectors in the type of cache `cache`, and the functions that read them.
pub(crate) fn step_kv(w: &mut Wgsl, name: &str, cache: &str, count: usize) {
    w.line(format!("var<workgroup> {name}_words: array<u32, (({cache}_BYTES + 3u) / 4u) * {count}u>;"));
    w.function(&format!("{name}_word(i: u32) -> u32"), &format!("{name}_words[i]"));
    w.line(format!("const {name}_KIND: u32 = {cache}_KIND;"));
    w.file(&renamed(include_str!("read.wgsl"), "kc", name));
    w.line(format!("fn {name}_eight(at: u32, i: u32) -> Eight {{ {} }}", renamed(EIGHT, "kc", name)));
}

pub(super) fn lower(op: &CacheWrite, site: &OpSite) -> Lowering {
    let first = op.first_state();
    if let Some(why) = site.ins[first..].iter().find_map(gap) {
        return Lowering::Gap(why);
    }
    let (kernel, outs) = match (op.pair, &op.rope) {
        (false, _) => ("cache_write/one", 1),
        (true, None) => ("cache_write/pair", 2),
        (true, Some(_)) => ("cache_write/rope", 2),
    };
    let w = Wgsl::new(kernel, 64);
    let mut w = w.reductions(&caps(site.target));
    let norm = op.has_norm().then(|| (Arg::In(2), site.ins[2].dtype));
    let dim = site.ins[first].cache().map_or(0, |c| c.dim);
    let heads = site.ins[first].cache().map_or(0, |c| c.heads);
    head(&mut w, "k", dim, Arg::In(0), op.rope.as_ref(), norm);
    cache(&mut w, "kc", Arg::Out(0), &site.ins[first], true);
    if outs == 2 {
        w.read("v", Arg::In(1), DType::F32);
        cache(&mut w, "vc", Arg::Out(1), &site.ins[first + 1], true);
        w.file(include_str!("values.wgsl"));
    } else {
        w.line("fn write_values(g: u32, page: u32, offset: u32, lid: u32) {}");
    }
    w.file(include_str!("cache_write.wgsl"));
    w.lowering(Expr::T * heads, op.cost(site))
}
