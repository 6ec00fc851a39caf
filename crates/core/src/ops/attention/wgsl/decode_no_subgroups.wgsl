// Attention that needs no subgroups: a workgroup has one query head of one token. It streams over tiles of WG positions,
// one for each thread, with online softmax: a running maximum and sum.
//
// q: the head, normed and rotated. kc, vc: the caches. With STEP_ROWS > 0 this dispatch also writes the cache: each workgroup
// computes this step's K/V of its sequence up to its own row in workgroup memory, rounded as the cache rounds them, and the
// workgroup of the first head of a group stores those of its own token. No workgroup reads from the cache the K/V that this
// dispatch writes.
// header: defaults
const WG: u32 = 128u;
const q_DIM: u32 = 64u;
const HEADS: u32 = 1u;
const GROUP: u32 = 1u;
const Q_STRIDE: u32 = 64u;
const WINDOW: u32 = 0u;
const STEP_ROWS: u32 = 0u;
const SCALE: f32 = 0.125;
const SOFTCAP: f32 = 0.0;
const GATE: bool = false;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
fn q_load(from_: u32, lid: u32) {}
fn q_rotated(row: u32, d: u32) -> f32 { return 0.0; }
fn packed_at(i: u32) -> f32 { return 0.0; }
fn step_kv_start(row: u32, seq: u32) -> u32 { return row; }
fn step_kv_take(row: u32, kv: u32, lid: u32) {}
fn step_kv(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {}
fn step_key(i: u32, four: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn step_value(i: u32, four: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn kc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn vc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn kc_four(at: u32, i: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn vc_four(at: u32, i: u32) -> vec4<f32> { return vec4<f32>(0.0); }
fn batch_t() -> u32 { return 1u; }
fn batch_seq(row: u32) -> u32 { return 0u; }
fn batch_position(row: u32) -> u32 { return row; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn batch_page(seq: u32, position: u32) -> u32 { return 0u; }
fn batch_page_offset(position: u32) -> u32 { return position; }
fn sigmoid(x: f32) -> f32 { return x; }
fn tanh_clamped(x: f32) -> f32 { return x; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
fn workgroup_max(x: f32, lid: u32) -> f32 { return x; }
// header: end

const FOURS: u32 = q_DIM / 4u;
const PARTS: u32 = WG / FOURS;
var<workgroup> query: array<vec4<f32>, FOURS>;
var<workgroup> weight: array<f32, WG>;
var<workgroup> mixed: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= batch_t() * HEADS { return; }
    let row = g / HEADS;
    let head = g % HEADS;
    let kv = head / GROUP;
    let seq = batch_seq(row);
    let position = batch_position(row);
    // Positions from `new_` on are rows of this step.
    let new_ = batch_span(seq, 2u) - batch_span(seq, 1u);
    step_kv_take(step_kv_start(row, seq), kv, lid);
    workgroupBarrier();
    step_kv(row, head, kv, seq, position, new_, lid);
    q_load(row * HEADS * Q_STRIDE + head * Q_STRIDE, lid);
    for (var i = lid; i < FOURS; i += WG) {
        let d = 4u * i;
        query[i] = SCALE * vec4<f32>(q_rotated(row, d), q_rotated(row, d + 1u), q_rotated(row, d + 2u), q_rotated(row, d + 3u));
    }
    workgroupBarrier();
    var first = 0u;
    if WINDOW > 0u && position + 1u > WINDOW { first = position + 1u - WINDOW; }
    var largest = -3.0e38;
    var sum = 0.0;
    var mix = vec4<f32>(0.0);
    for (var from_ = first; from_ <= position; from_ += WG) {
        let p = from_ + lid;
        var score = -3.0e38;
        if p <= position { score = bend(score_at(seq, kv, p, new_)); }
        let now = max(largest, workgroup_max(score, lid));
        let fade = exp(largest - now);
        largest = now;
        let e = select(0.0, exp(score - now), p <= position);
        weight[lid] = e;
        sum = sum * fade + workgroup_sum(e, lid);
        mix *= fade;
        if lid < PARTS * FOURS {
            for (var j = lid / FOURS; j < min(WG, position + 1u - from_); j += PARTS) {
                mix += weight[j] * value_at(seq, kv, from_ + j, new_, lid % FOURS);
            }
        }
        workgroupBarrier();
    }
    mixed[lid] = mix;
    workgroupBarrier();
    if lid < FOURS {
        for (var part = 1u; part < PARTS; part++) { mix += mixed[part * FOURS + lid]; }
        mix = mix / sum;
        for (var j = 0u; j < 4u; j++) {
            let d = 4u * lid + j;
            var x = mix[j];
            if GATE { x *= sigmoid(packed_at((row * HEADS + head) * 2u * q_DIM + q_DIM + d)); }
            y[(row * HEADS + head) * q_DIM + d] = x;
        }
    }
}

fn bend(score: f32) -> f32 {
    if SOFTCAP > 0.0 { return SOFTCAP * tanh_clamped(score / SOFTCAP); }
    return score;
}

fn score_at(seq: u32, kv: u32, p: u32, new_: u32) -> f32 {
    var sum = 0.0;
    if STEP_ROWS > 0u && p >= new_ {
        for (var i = 0u; i < FOURS; i++) { sum += dot(query[i], step_key(p - new_, i)); }
        return sum;
    }
    let at = kc_at(batch_page(seq, p), kv, batch_page_offset(p));
    for (var i = 0u; i < FOURS; i++) { sum += dot(query[i], kc_four(at, i)); }
    return sum;
}

fn value_at(seq: u32, kv: u32, p: u32, new_: u32, i: u32) -> vec4<f32> {
    if STEP_ROWS > 0u && p >= new_ { return step_value(p - new_, i); }
    return vc_four(vc_at(batch_page(seq, p), kv, batch_page_offset(p)), i);
}
