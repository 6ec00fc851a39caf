// This step's K/V, rounded as the cache rounds them. `step_kv_take` loads those of the first row; the caller has a barrier
// between it and `step_kv`.
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
