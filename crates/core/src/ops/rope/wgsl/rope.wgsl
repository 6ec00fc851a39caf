// Rotary position embedding: one workgroup for each head of a row.
// header: defaults
const WG: u32 = 64u;
const HEADS: u32 = 1u;
const x_DIM: u32 = 64u;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
fn rows() -> u32 { return 1u; }
fn x_load(from_: u32, lid: u32) {}
fn x_rotated(row: u32, d: u32) -> f32 { return 0.0; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= rows() * HEADS { return; }
    x_load(g * x_DIM, lid);
    for (var d = lid; d < x_DIM; d += WG) { y[g * x_DIM + d] = x_rotated(g / HEADS, d); }
}
