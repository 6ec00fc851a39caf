// L2 norm: one workgroup for each group of DIM elements. The host declares x_at and EPS.
// header: defaults
const WG: u32 = 64u;
const DIM: u32 = 64u;
const GROUPS: u32 = 1u;
const EPS: f32 = 1e-5;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
fn rows() -> u32 { return 1u; }
fn x_at(i: u32) -> f32 { return 0.0; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= rows() * GROUPS { return; }
    var sum = 0.0;
    for (var d = lid; d < DIM; d += WG) { let x = x_at(g * DIM + d); sum += x * x; }
    let factor = inverseSqrt(workgroup_sum(sum, lid) + EPS);
    for (var d = lid; d < DIM; d += WG) { y[g * DIM + d] = x_at(g * DIM + d) * factor; }
}
