// The best token of a workgroup. Tokens are ordered by descending logit; among equal logits the lower id comes first.
// header: defaults
const WG: u32 = 64u;
// header: end

var<workgroup> best_key: array<u32, WG>;
var<workgroup> best_id: array<u32, WG>;

// An integer key in the order of the floats (a larger float has a larger key); 0 for NaN.
fn key(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    if (u & 0x7fffffffu) > 0x7f800000u { return 0u; }
    return select(u | 0x80000000u, ~u, (u >> 31u) == 1u);
}

fn is_before(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x > b.x || (a.x == b.x && a.y < b.y); }

// Reduces the threads' candidates (key, id) to the first in the order, for every thread.
fn workgroup_best(best: vec2<u32>, lid: u32) -> vec2<u32> {
    best_key[lid] = best.x;
    best_id[lid] = best.y;
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if lid < n && is_before(vec2<u32>(best_key[lid + n], best_id[lid + n]), vec2<u32>(best_key[lid], best_id[lid])) {
            best_key[lid] = best_key[lid + n];
            best_id[lid] = best_id[lid + n];
        }
    }
    workgroupBarrier();
    let first = vec2<u32>(best_key[0], best_id[0]);
    workgroupBarrier();
    return first;
}
