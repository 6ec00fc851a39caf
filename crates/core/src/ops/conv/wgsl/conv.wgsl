// Causal convolution over time. A workgroup has a block of channels of one sequence, a thread one channel; with HEADS, a block
// is a head of queries or keys or WG channels of the values, else WG channels. x_at reads rows of CHANNELS, w_at the filter.
// With IN_PLACE, the state holds the TAPS - 1 rows before this step; else x is a window that has them in front of each
// sequence's rows. put(row, channel, y) stores an output.
// header: defaults
const WG: u32 = 64u;
const TAPS: u32 = 4u;
const CHANNELS: u32 = 64u;
const BLOCKS: u32 = 1u;
const KEYS: u32 = 0u;
const DIM: u32 = 1u;
const IN_PLACE: bool = true;
const HEADS: bool = false;
const EPS: f32 = 1e-6;
fn x_at(i: u32) -> f32 { return 0.0; }
fn w_at(i: u32) -> f32 { return 0.0; }
fn state_at(i: u32) -> f32 { return 0.0; }
fn put(row: u32, c: u32, y: f32) {}
fn put_state(i: u32, x: f32) {}
fn batch_s() -> u32 { return 1u; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn silu(x: f32) -> f32 { return x; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    let seq = g / BLOCKS;
    if seq >= batch_s() { return; }
    let block = g % BLOCKS;
    let heads = 2u * KEYS / DIM;
    let is_head = HEADS && block < heads;
    let first = select(2u * KEYS + (block - heads) * WG, block * DIM, is_head);
    let count_ = select(min(WG, CHANNELS - first), DIM, is_head);
    let is_on = lid < count_;
    // Threads without a channel take part in the reductions: they compute the first channel and store nothing.
    let c = first + select(0u, lid, is_on);
    let start = batch_span(seq, 0u);
    let count = batch_span(seq, 1u);
    let old = batch_span(seq, 3u) * (TAPS - 1u) * CHANNELS + c;
    let from_ = select(start + (seq + 1u) * (TAPS - 1u), start, IN_PLACE);
    // The TAPS input rows that an output sees, oldest first.
    var rows: array<f32, TAPS>;
    for (var i = 0u; i < TAPS - 1u; i++) {
        rows[i] = 0.0;
        if !IN_PLACE {
            rows[i] = x_at((from_ - (TAPS - 1u) + i) * CHANNELS + c);
        } else if batch_span(seq, 4u) == 0u {
            rows[i] = state_at(old + i * CHANNELS);
        }
    }
    for (var t = 0u; t < count; t++) {
        rows[TAPS - 1u] = x_at((from_ + t) * CHANNELS + c);
        var sum = 0.0;
        for (var i = 0u; i < TAPS; i++) { sum += w_at(c * TAPS + i) * rows[i]; }
        if HEADS {
            sum = silu(sum);
            let squares = workgroup_sum(select(0.0, sum * sum, is_on), lid);
            if is_head { sum *= inverseSqrt(squares + EPS); }
        }
        if is_on { put(start + t, c, sum); }
        for (var i = 0u; i < TAPS - 1u; i++) { rows[i] = rows[i + 1u]; }
    }
    if is_on {
        for (var i = 0u; i < TAPS - 1u; i++) { put_state(old + i * CHANNELS, rows[i]); }
    }
}
