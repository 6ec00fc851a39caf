// One thread a channel of a sequence. w_at: the filter, x_at: rows of CHANNELS; TAPS. The state holds the last TAPS - 1 rows.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    let blocks = (CHANNELS + WG - 1u) / WG;
    let seq = g / blocks;
    let c = (g % blocks) * WG + lid;
    if seq >= batch_s() || c >= CHANNELS { return; }
    let start = batch_span(seq, 0u);
    let count = batch_span(seq, 1u);
    let old = batch_span(seq, 3u) * (TAPS - 1u) * CHANNELS + c;
    // The window, oldest first.
    var rows: array<f32, TAPS>;
    for (var i = 0u; i < TAPS - 1u; i++) {
        rows[i] = 0.0;
        if batch_span(seq, 4u) == 0u { rows[i] = state[old + i * CHANNELS]; }
    }
    for (var t = 0u; t < count; t++) {
        rows[TAPS - 1u] = x_at((start + t) * CHANNELS + c);
        var sum = 0.0;
        for (var i = 0u; i < TAPS; i++) { sum += w_at(c * TAPS + i) * rows[i]; }
        y[(start + t) * CHANNELS + c] = sum;
        for (var i = 0u; i < TAPS - 1u; i++) { rows[i] = rows[i + 1u]; }
    }
    for (var i = 0u; i < TAPS - 1u; i++) { state[old + i * CHANNELS] = rows[i]; }
}
