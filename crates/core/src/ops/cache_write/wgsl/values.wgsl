// The values of a pair of caches: the head `g` of all rows, written by all threads.
// header: defaults
const WG: u32 = 64u;
const vc_DIM: u32 = 64u;
const vc_HEADS: u32 = 1u;
var<workgroup> vc_elements: array<f32, vc_DIM>;
fn v_at(i: u32) -> f32 { return 0.0; }
fn vc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn vc_prepare(lid: u32) {}
fn vc_store(at: u32, lid: u32) {}
// header: end

fn write_values(g: u32, page: u32, offset: u32, lid: u32) {
    for (var d = lid; d < vc_DIM; d += WG) { vc_elements[d] = v_at(g * vc_DIM + d); }
    vc_prepare(lid);
    vc_store(vc_at(page, g % vc_HEADS, offset), lid);
}
