// Sums and maxima through workgroup memory. All threads of the workgroup must call them, and all get the result.
// header: defaults
const WG: u32 = 64u;
// header: end

const LANES: u32 = 32u;
var<workgroup> reduce_part: array<f32, WG>;

// The sum over LANES adjacent threads, the first of which is at a multiple of LANES.
fn lanes_sum(x: f32, lid: u32) -> f32 {
    reduce_part[lid] = x;
    for (var n = LANES / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if lid % LANES < n { reduce_part[lid] += reduce_part[lid + n]; }
    }
    workgroupBarrier();
    let sum = reduce_part[lid - lid % LANES];
    workgroupBarrier();
    return sum;
}

fn lanes_sum4(x: vec4<f32>, lid: u32) -> vec4<f32> {
    return vec4<f32>(lanes_sum(x.x, lid), lanes_sum(x.y, lid), lanes_sum(x.z, lid), lanes_sum(x.w, lid));
}

fn workgroup_sum(x: f32, lid: u32) -> f32 {
    reduce_part[lid] = x;
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if lid < n { reduce_part[lid] += reduce_part[lid + n]; }
    }
    workgroupBarrier();
    let sum = reduce_part[0];
    workgroupBarrier();
    return sum;
}

fn workgroup_max(x: f32, lid: u32) -> f32 {
    reduce_part[lid] = x;
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if lid < n { reduce_part[lid] = max(reduce_part[lid], reduce_part[lid + n]); }
    }
    workgroupBarrier();
    let largest = reduce_part[0];
    workgroupBarrier();
    return largest;
}
