// This step's K/V, rounded as the cache rounds them. `step_kv_take` loads those of the first row; the caller has a barrier
// between it and `step_kv`.
// header: defaults
const WG: u32 = 128u;
const STEP_ROWS: u32 = 1u;
const GROUP: u32 = 1u;
const kc_DIM: u32 = 64u;
const kc_HEADS: u32 = 1u;
const kc_BYTES: u32 = 128u;
const vc_BYTES: u32 = 128u;
struct Eight { a: vec4<f32>, b: vec4<f32> }
var<workgroup> kc_elements: array<f32, kc_DIM>;
var<workgroup> vc_elements: array<f32, kc_DIM>;
var<workgroup> step_k_words: array<u32, kc_BYTES / 4u>;
var<workgroup> step_v_words: array<u32, vc_BYTES / 4u>;
fn k_take(from_: u32, lid: u32) {}
fn k_rotated(row: u32, d: u32) -> f32 { return 0.0; }
fn v_at(i: u32) -> f32 { return 0.0; }
fn kc_prepare(lid: u32) {}
fn kc_encoded(i: u32) -> u32 { return 0u; }
fn kc_store(at: u32, lid: u32) {}
fn kc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn vc_prepare(lid: u32) {}
fn vc_encoded(i: u32) -> u32 { return 0u; }
fn vc_store(at: u32, lid: u32) {}
fn vc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn step_k_four(at: u32, i: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn step_v_four(at: u32, i: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn step_k_eight(at: u32, i: u32) -> Eight { return Eight(); }
fn step_v_eight(at: u32, i: u32) -> Eight { return Eight(); }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn batch_page(seq: u32, position: u32) -> u32 { return 0u; }
fn batch_page_offset(position: u32) -> u32 { return position; }
// header: end

fn step_kv_start(row: u32, seq: u32) -> u32 {
    // With one row, the address needs no load of a batch word.
    if STEP_ROWS == 1u { return row; }
    return batch_span(seq, 0u);
}

fn step_kv_take(row: u32, kv: u32, lid: u32) {
    let from_ = (row * kc_HEADS + kv) * kc_DIM;
    k_take(from_, lid);
    for (var d = lid; d < kc_DIM; d += WG) { vc_elements[d] = v_at(from_ + d); }
}

fn step_kv(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {
    let start = step_kv_start(row, seq);
    for (var i = 0u; i <= position - new_; i++) {
        if i > 0u {
            step_kv_take(start + i, kv, lid);
            workgroupBarrier();
        }
        for (var d = lid; d < kc_DIM; d += WG) { kc_elements[d] = k_rotated(start + i, d); }
        kc_prepare(lid);
        vc_prepare(lid);
        let words = (kc_BYTES + 3u) / 4u;
        for (var w = lid; w < words; w += WG) { step_k_words[i * words + w] = kc_encoded(w); }
        let v_words = (vc_BYTES + 3u) / 4u;
        for (var w = lid; w < v_words; w += WG) { step_v_words[i * v_words + w] = vc_encoded(w); }
        if start + i == row && head % GROUP == 0u {
            let page = batch_page(seq, position);
            let offset = batch_page_offset(position);
            kc_store(kc_at(page, kv, offset), lid);
            vc_store(vc_at(page, kv, offset), lid);
        }
        workgroupBarrier();
    }
}

fn step_key(i: u32, four: u32) -> vec4<f32> { return step_k_four(i * ((kc_BYTES + 3u) / 4u) * 4u, four); }
fn step_value(i: u32, four: u32) -> vec4<f32> { return step_v_four(i * ((vc_BYTES + 3u) / 4u) * 4u, four); }
fn step_key_eight(i: u32, eight: u32) -> Eight { return step_k_eight(i * ((kc_BYTES + 3u) / 4u) * 4u, eight); }
fn step_value_eight(i: u32, eight: u32) -> Eight { return step_v_eight(i * ((vc_BYTES + 3u) / 4u) * 4u, eight); }
