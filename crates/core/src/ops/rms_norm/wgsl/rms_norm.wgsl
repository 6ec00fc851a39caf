// Root-mean-square norm: one workgroup for each group of DIM elements. The host declares x_at, weight_at (1 without a weight),
// finish (the epilogue: a residual or a gate, if there is one), put_sum (stores the sum that is normed, if the op adds first)
// and EPS.
// header: defaults
const WG: u32 = 64u;
const DIM: u32 = 64u;
const GROUPS: u32 = 1u;
const EPS: f32 = 1e-5;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
fn rows() -> u32 { return 1u; }
fn x_at(i: u32) -> f32 { return 0.0; }
fn weight_at(i: u32) -> f32 { return 1.0; }
fn finish(y: f32, i: u32) -> f32 { return y; }
fn put_sum(i: u32, x: f32) {}
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= rows() * GROUPS { return; }
    var sum = 0.0;
    for (var d = lid; d < DIM; d += WG) { let x = x_at(g * DIM + d); sum += x * x; }
    let factor = inverseSqrt(workgroup_sum(sum, lid) / f32(DIM) + EPS);
    for (var d = lid; d < DIM; d += WG) {
        let i = g * DIM + d;
        let x = x_at(i);
        put_sum(i, x);
        y[i] = finish(x * factor * weight_at(d), i);
    }
}
