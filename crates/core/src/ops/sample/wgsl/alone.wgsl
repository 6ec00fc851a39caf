// One workgroup per sequence does everything (see kernel.wgsl for `goes_on` and `first_best`).
// header: defaults
const V: u32 = 1000u;
fn next_best(seq: u32, k: u32, id: u32, lid: u32) -> vec2<u32> { return vec2<u32>(k, id); }
// header: end

fn goes_on(seq: u32, slice: u32, lid: u32) -> bool { return true; }
fn first_best(seq: u32, lid: u32) -> vec2<u32> { return next_best(seq, 0xffffffffu, V, lid); }
