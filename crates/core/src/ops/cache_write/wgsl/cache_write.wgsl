// One workgroup for each head of a token. `k` reads the keys; the host adds the write of the values, if there are any.
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
    $VALUES
}
