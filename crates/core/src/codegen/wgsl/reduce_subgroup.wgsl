// Sums and maxima through subgroup shuffles. LANES is at most the device's smallest subgroup size, so that shuffles stay inside
// a subgroup whatever size the device chooses. All threads of the workgroup must call them, and all get the result.
// header: defaults
const WG: u32 = 64u;
const LANES: u32 = 32u;
// header: end

var<workgroup> reduce_part: array<f32, WG / LANES>;

// The sum over LANES adjacent threads, the first of which is at a multiple of LANES.
fn lanes_sum(x: f32, lid: u32) -> f32 {
    var sum = x;
    for (var n = LANES / 2u; n > 0u; n /= 2u) { sum += subgroupShuffleXor(sum, n); }
    return sum;
}

fn lanes_sum4(x: vec4<f32>, lid: u32) -> vec4<f32> {
    var sum = x;
    for (var n = LANES / 2u; n > 0u; n /= 2u) { sum += subgroupShuffleXor(sum, n); }
    return sum;
}

fn workgroup_sum(x: f32, lid: u32) -> f32 {
    let part = lanes_sum(x, lid);
    if lid % LANES == 0u { reduce_part[lid / LANES] = part; }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < WG / LANES; i++) { sum += reduce_part[i]; }
    workgroupBarrier();
    return sum;
}

fn workgroup_max(x: f32, lid: u32) -> f32 {
    var part = x;
    for (var n = LANES / 2u; n > 0u; n /= 2u) { part = max(part, subgroupShuffleXor(part, n)); }
    if lid % LANES == 0u { reduce_part[lid / LANES] = part; }
    workgroupBarrier();
    var largest = reduce_part[0];
    for (var i = 1u; i < WG / LANES; i++) { largest = max(largest, reduce_part[i]); }
    workgroupBarrier();
    return largest;
}
