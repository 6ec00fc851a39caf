// Rotary position embedding: one workgroup for each head of a row.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= rows() * HEADS { return; }
    x_load(g * x_DIM, lid);
    for (var d = lid; d < x_DIM; d += WG) { y[g * x_DIM + d] = x_rotated(g / HEADS, d); }
}
