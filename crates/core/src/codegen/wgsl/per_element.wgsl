// One thread per element of rows() rows of WIDTH elements, for which it calls put(row, column).
// header: defaults
const WG: u32 = 64u;
const WIDTH: u32 = 64u;
fn rows() -> u32 { return 1u; }
fn put(r: u32, c: u32) {}
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = (wid.x + wid.y * nwg.x) * WG + lid;
    if i < rows() * WIDTH { put(i / WIDTH, i % WIDTH); }
}
