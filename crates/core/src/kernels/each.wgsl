// One thread a number of the output: `value(row, column)` is put to y.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = (wid.x + wid.y * nwg.x) * WG + lid;
    if i < rows() * WIDTH { y[i] = value(i / WIDTH, i % WIDTH); }
}
