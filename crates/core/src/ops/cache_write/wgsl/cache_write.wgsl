// One workgroup for each head of a token. `k` reads the keys; `write_values` (values.wgsl) writes the values, if there are any.
// header: defaults
const WG: u32 = 64u;
const kc_DIM: u32 = 64u;
const kc_HEADS: u32 = 1u;
var<workgroup> kc_elements: array<f32, kc_DIM>;
fn k_load(from_: u32, lid: u32) {}
fn k_rotated(row: u32, d: u32) -> f32 { return 0.0; }
fn kc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn kc_prepare(lid: u32) {}
fn kc_store(at: u32, lid: u32) {}
fn write_values(g: u32, page: u32, offset: u32, lid: u32) {}
fn batch_t() -> u32 { return 1u; }
fn batch_position(row: u32) -> u32 { return row; }
fn batch_seq(row: u32) -> u32 { return 0u; }
fn batch_page(seq: u32, position: u32) -> u32 { return 0u; }
fn batch_page_offset(position: u32) -> u32 { return position; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= batch_t() * kc_HEADS { return; }
    let row = g / kc_HEADS;
    let position = batch_position(row);
    let page = batch_page(batch_seq(row), position);
    let offset = batch_page_offset(position);
    k_load(g * kc_DIM, lid);
    for (var d = lid; d < kc_DIM; d += WG) { kc_elements[d] = k_rotated(row, d); }
    kc_prepare(lid);
    kc_store(kc_at(page, g % kc_HEADS, offset), lid);
    write_values(g, page, offset, lid);
}
