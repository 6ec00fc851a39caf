// A large vocabulary: many workgroups look for the best of a slice each, and the last of them goes on alone.
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

// The slices know no penalty.
fn first_best(seq: u32, lid: u32) -> vec2<u32> {
    if penalized { return next_best(seq, 0xffffffffu, V, lid); }
    return best_of_slices;
}
