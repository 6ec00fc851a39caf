// For a large vocabulary: each of SLICES workgroups finds the best token of a slice and publishes it (plus 1, as published words
// must not be zero); the last of them to finish combines the slices and goes on alone.
// header: defaults
const WG: u32 = 64u;
const V: u32 = 1000u;
const SLICES: u32 = 8u;
var<private> penalized: bool;
fn logits_at(i: u32) -> f32 { return 0.0; }
fn key(x: f32) -> u32 { return bitcast<u32>(x); }
fn next_best(seq: u32, k: u32, id: u32, lid: u32) -> vec2<u32> { return vec2<u32>(k, id); }
fn workgroup_best(best: vec2<u32>, lid: u32) -> vec2<u32> { return best; }
fn is_before(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x > b.x; }
fn publish(at: u32, bits: u32) {}
fn taken(at: u32) -> u32 { return 1u; }
fn is_last(counter: u32, n: u32, lid: u32) -> bool { return true; }
// header: end

const PER: u32 = (V + SLICES - 1u) / SLICES;
var<private> best_of_slices: vec2<u32>;

fn goes_on(seq: u32, slice: u32, lid: u32) -> bool {
    var best = vec2<u32>(0u, V);
    for (var i = slice * PER + lid; i < min((slice + 1u) * PER, V); i += WG) {
        let x = key(logits_at(seq * V + i));
        if x > best.x { best = vec2<u32>(x, i); }
    }
    best = workgroup_best(best, lid);
    let at = seq * (1u + 2u * SLICES);
    if lid == 0u {
        publish(at + 1u + 2u * slice, best.x + 1u);
        publish(at + 2u + 2u * slice, best.y + 1u);
    }
    if !is_last(at, SLICES, lid) { return false; }
    best = vec2<u32>(0u, V);
    for (var i = lid; i < SLICES; i += WG) {
        let other = vec2<u32>(taken(at + 1u + 2u * i), taken(at + 2u + 2u * i)) - vec2<u32>(1u);
        if is_before(other, best) { best = other; }
    }
    best_of_slices = workgroup_best(best, lid);
    return true;
}

// The slices were searched without the repeat penalty, so their result is not valid where one applies.
fn first_best(seq: u32, lid: u32) -> vec2<u32> {
    if penalized { return next_best(seq, 0xffffffffu, V, lid); }
    return best_of_slices;
}
