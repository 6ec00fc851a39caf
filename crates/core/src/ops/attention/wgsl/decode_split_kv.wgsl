// Split-KV attention. A set of TOGETHER query heads of a token that share a key head has one workgroup, or up to SPLITS of them
// where the cache is long. The query heads of a key head form SETS sets. Where they do not divide evenly, the last set begins
// earlier and does not store the heads that the set before it stores too.
// A group of LANES_PER_KEY lanes shares a key: each lane has EIGHTS times eight elements of the key, the value, the queries and
// the outputs in registers. A lane group takes every KEYS-th position. It works on four positions while the next four are in
// flight, and keeps the running maximum and sum of its own online softmax for each head; the lane groups are combined once, at
// the end. What is named h0 is there once for each head.
//
// History on an H200 through Vulkan, one launch at 256 positions: 20 us with one head a workgroup and a chain of dependent
// loads; 11 us with all loads issued first. Llama-8B's shape at 32k positions: 157 us with one head a workgroup, 78 us with the
// four heads of a group together (1.7 TB/s; 14 us instead of 13 at 256).
//
// q: the heads, normed and rotated. kc, vc: the caches. With STEP_ROWS > 0 this dispatch also writes the cache: each workgroup
// of split 0 computes this step's K/V of its sequence up to its own row in workgroup memory, rounded as the cache rounds them,
// and the workgroup of the first head of a group stores those of its own token. No workgroup reads from the cache the K/V that
// this dispatch writes.
// header: defaults
const WG: u32 = 128u;
const LANES: u32 = 32u;
const LANES_PER_KEY: u32 = 8u;
const EIGHTS: u32 = 1u;
const TOGETHER: u32 = 1u;
const SETS: u32 = 1u;
const SPLITS: u32 = 1u;
const q_DIM: u32 = 64u;
const HEADS: u32 = 1u;
const GROUP: u32 = 1u;
const Q_STRIDE: u32 = 64u;
const WINDOW: u32 = 0u;
const STEP_ROWS: u32 = 0u;
const h0: u32 = 0u;
const SCALE: f32 = 0.125;
const SOFTCAP: f32 = 0.0;
const q_EPS: f32 = 1e-5;
const GATE: bool = false;
const q_NORM: bool = false;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn q_x_at(i: u32) -> f32 { return 0.0; }
fn rotated(row: u32, from_: u32, d: u32) -> f32 { return 0.0; }
fn packed_at(i: u32) -> f32 { return 0.0; }
fn step_kv_start(row: u32, seq: u32) -> u32 { return row; }
fn step_kv_take(row: u32, kv: u32, lid: u32) {}
fn step_kv(row: u32, head: u32, kv: u32, seq: u32, position: u32, new_: u32, lid: u32) {}
fn step_key_eight(i: u32, eight: u32) -> Eight { return Eight(); }
fn step_value_eight(i: u32, eight: u32) -> Eight { return Eight(); }
fn kc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn vc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn kc_eight(at: u32, i: u32) -> Eight { return Eight(); }
fn vc_eight(at: u32, i: u32) -> Eight { return Eight(); }
fn combine_splits(which: u32, split: u32, n: u32, lid: u32) -> bool { return true; }
fn combined(which: u32, h: u32, d: u32, n: u32) -> f32 { return 0.0; }
fn batch_t() -> u32 { return 1u; }
fn batch_seq(row: u32) -> u32 { return 0u; }
fn batch_position(row: u32) -> u32 { return row; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn batch_page(seq: u32, position: u32) -> u32 { return 0u; }
fn batch_page_offset(position: u32) -> u32 { return position; }
fn sigmoid(x: f32) -> f32 { return x; }
fn tanh_clamped(x: f32) -> f32 { return x; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

const FOURS: u32 = q_DIM / 4u;
const KEYS: u32 = WG / LANES_PER_KEY;
const SUBGROUPS: u32 = WG / LANES;
const NONE: f32 = -3.0e38;
// Positions of the cache for each KV split, until there are SPLITS splits.
const CHUNK: u32 = 256u;
var<workgroup> query: array<vec4<f32>, TOGETHER * FOURS>;
var<workgroup> query_factor: array<f32, TOGETHER>;
var<workgroup> partial_max: array<f32, TOGETHER * SUBGROUPS>;
var<workgroup> partial_sum: array<f32, TOGETHER * SUBGROUPS>;
var<workgroup> partial_mix: array<vec4<f32>, TOGETHER * SUBGROUPS * FOURS>;

alias Vector = array<Eight, EIGHTS>;
struct Mix { largest: f32, sum: f32, mix: Vector }
struct Vectors { k: Vector, v: Vector }
struct Fours { a: Vectors, b: Vectors, c: Vectors, d: Vectors }

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    let all_sets = HEADS / GROUP * SETS;
    let groups = batch_t() * all_sets;
    if g >= groups * SPLITS { return; }
    // Split 0 of all rows and sets comes first in the grid, since further splits may have no work.
    let split = g / groups;
    let row = g % groups / all_sets;
    let kv = g % all_sets / SETS;
    let start = g % SETS * TOGETHER;
    let head = kv * GROUP + min(start, GROUP - TOGETHER);
    let made_before = kv * GROUP + start - head;
    let seq = batch_seq(row);
    let position = batch_position(row);
    // Positions from `new_` on are rows of this step.
    let new_ = batch_span(seq, 2u) - batch_span(seq, 1u);
    let first = select(0u, position + 1u - WINDOW, WINDOW > 0u && position + 1u > WINDOW);
    let cached = max(select(position + 1u, new_, STEP_ROWS > 0u), first);
    // This workgroup's split of the cached positions; split 0 also has this step's K/V.
    let splits = clamp((cached - first + CHUNK - 1u) / CHUNK, 1u, SPLITS);
    if split >= splits { return; }
    let per = (cached - first + splits - 1u) / splits;
    let begin = first + split * per;
    let end = min(cached, begin + per);
    let lane = lid % LANES_PER_KEY;
    let mine = lid / LANES_PER_KEY;
    // All loads are issued first, so that their latencies overlap.
    var ahead = fours(seq, kv, begin + mine, end, lane);
    if split == 0u { step_kv_take(step_kv_start(row, seq), kv, lid); }
    let queries = (row * HEADS + head) * Q_STRIDE;
    if q_NORM {
        for (var h = 0u; h < TOGETHER; h++) {
            var sum = 0.0;
            for (var d = lid; d < q_DIM; d += WG) { let x = q_x_at(queries + h * Q_STRIDE + d); sum += x * x; }
            let factor = inverseSqrt(workgroup_sum(sum, lid) / f32(q_DIM) + q_EPS);
            if lid == 0u { query_factor[h] = factor; }
        }
        workgroupBarrier();
    }
    for (var i = lid; i < TOGETHER * FOURS; i += WG) {
        let from_ = queries + i / FOURS * Q_STRIDE;
        let d = i % FOURS * 4u;
        var factor = SCALE;
        if q_NORM { factor *= query_factor[i / FOURS]; }
        query[i] = factor * vec4<f32>(
            rotated(row, from_, d), rotated(row, from_, d + 1u), rotated(row, from_, d + 2u), rotated(row, from_, d + 3u));
    }
    workgroupBarrier();
    if split == 0u { step_kv(row, head, kv, seq, position, new_, lid); }
    let q_h0 = query_of(h0, lane);
    var m_h0: Mix;
    m_h0.largest = NONE;
    // All lanes run the same number of iterations, since they shuffle inside.
    for (var from_ = begin; from_ < end; from_ += 4u * KEYS) {
        let p = vec4<u32>(from_ + mine) + vec4<u32>(0u, KEYS, 2u * KEYS, 3u * KEYS);
        let is_there = p < vec4<u32>(end);
        let now = ahead;
        if from_ + 4u * KEYS < end { ahead = fours(seq, kv, from_ + 4u * KEYS + mine, end, lane); }
        m_h0 = with_four(m_h0, q_h0, now, is_there);
    }
    if STEP_ROWS > 0u && split == 0u {
        for (var from_ = max(first, new_); from_ <= position; from_ += KEYS) {
            let p = from_ + mine;
            let at = min(p, position) - new_;
            var k: Vector;
            var v: Vector;
            for (var e = 0u; e < EIGHTS; e++) {
                k[e] = step_key_eight(at, lane + e * LANES_PER_KEY);
                v[e] = step_value_eight(at, lane + e * LANES_PER_KEY);
            }
            m_h0 = with_one(m_h0, q_h0, k, v, p <= position);
        }
    }
    keep(h0, joined(m_h0), lane, lid);
    workgroupBarrier();
    let is_shared = splits > 1u;
    let which = row * HEADS + head;
    // The workspace is indexed by set: a head that two sets share has words for each of them.
    let place = g % groups * TOGETHER;
    if is_shared && !combine_splits(place, split, splits, lid) { return; }
    for (var i = lid; i < TOGETHER * q_DIM; i += WG) {
        let h = i / q_DIM;
        let d = i % q_DIM;
        let here = merged(h, d);
        var x = here.x / here.y;
        // Words of heads that this set does not store are read too: reading leaves them zero, as the next dispatch expects.
        if is_shared { x = combined(place, h, d, splits); }
        if h < made_before { continue; }
        if GATE { x *= sigmoid(packed_at((which + h) * 2u * q_DIM + q_DIM + d)); }
        y[which * q_DIM + i] = x;
    }
}

fn query_of(h: u32, lane: u32) -> Vector {
    var q: Vector;
    for (var e = 0u; e < EIGHTS; e++) {
        let i = h * FOURS + 2u * (lane + e * LANES_PER_KEY);
        q[e] = Eight(query[i], query[i + 1u]);
    }
    return q;
}

// Online-softmax step: adds four keys and values to a running maximum, sum and output; positions outside `is_there` are masked.
fn with_four(before: Mix, q_: Vector, x_: Fours, is_there: vec4<bool>) -> Mix {
    var m = before;
    var q = q_;
    var x = x_;
    var score = vec4<f32>(0.0);
    for (var e = 0u; e < EIGHTS; e++) {
        score += vec4<f32>(dot8(q[e], x.a.k[e]), dot8(q[e], x.b.k[e]), dot8(q[e], x.c.k[e]), dot8(q[e], x.d.k[e]));
    }
    for (var n = LANES_PER_KEY / 2u; n > 0u; n /= 2u) { score += subgroupShuffleXor(score, n); }
    score = select(vec4<f32>(NONE), vec4<f32>(bend(score.x), bend(score.y), bend(score.z), bend(score.w)), is_there);
    let now = max(m.largest, max(max(score.x, score.y), max(score.z, score.w)));
    let fade = exp(m.largest - now);
    let w = select(vec4<f32>(0.0), exp(score - now), is_there);
    m.largest = now;
    m.sum = m.sum * fade + w.x + w.y + w.z + w.w;
    for (var e = 0u; e < EIGHTS; e++) {
        m.mix[e].a = m.mix[e].a * fade + w.x * x.a.v[e].a + w.y * x.b.v[e].a + w.z * x.c.v[e].a + w.w * x.d.v[e].a;
        m.mix[e].b = m.mix[e].b * fade + w.x * x.a.v[e].b + w.y * x.b.v[e].b + w.z * x.c.v[e].b + w.w * x.d.v[e].b;
    }
    return m;
}

// Online-softmax step with one key and value.
fn with_one(before: Mix, q_: Vector, k_: Vector, v_: Vector, is_there: bool) -> Mix {
    var m = before;
    var q = q_;
    var k = k_;
    var v = v_;
    var score = 0.0;
    for (var e = 0u; e < EIGHTS; e++) { score += dot8(q[e], k[e]); }
    for (var n = LANES_PER_KEY / 2u; n > 0u; n /= 2u) { score += subgroupShuffleXor(score, n); }
    score = select(NONE, bend(score), is_there);
    let now = max(m.largest, score);
    let fade = exp(m.largest - now);
    let w = select(0.0, exp(score - now), is_there);
    m.largest = now;
    m.sum = m.sum * fade + w;
    for (var e = 0u; e < EIGHTS; e++) { m.mix[e] = Eight(m.mix[e].a * fade + w * v[e].a, m.mix[e].b * fade + w * v[e].b); }
    return m;
}

// Combines the lane groups of a subgroup.
fn joined(before: Mix) -> Mix {
    var m = before;
    for (var n = LANES_PER_KEY; n < LANES; n *= 2u) {
        let now = max(m.largest, subgroupShuffleXor(m.largest, n));
        let fade = exp(m.largest - now);
        m.largest = now;
        m.sum *= fade;
        m.sum += subgroupShuffleXor(m.sum, n);
        for (var e = 0u; e < EIGHTS; e++) {
            let a = m.mix[e].a * fade;
            let b = m.mix[e].b * fade;
            m.mix[e] = Eight(a + subgroupShuffleXor(a, n), b + subgroupShuffleXor(b, n));
        }
    }
    return m;
}

// Stores a subgroup's maximum, sum and output of a head to workgroup memory.
fn keep(h: u32, m_: Mix, lane: u32, lid: u32) {
    var m = m_;
    let partial = h * SUBGROUPS + lid / LANES;
    if lid % LANES == 0u {
        partial_max[partial] = m.largest;
        partial_sum[partial] = m.sum;
    }
    if lid % LANES < LANES_PER_KEY {
        for (var e = 0u; e < EIGHTS; e++) {
            let i = partial * FOURS + 2u * (lane + e * LANES_PER_KEY);
            partial_mix[i] = m.mix[e].a;
            partial_mix[i + 1u] = m.mix[e].b;
        }
    }
}

// This workgroup's result for a head: element `d` of the output before division, the sum of the softmax weights, and the
// maximum score that both are relative to.
fn merged(h: u32, d: u32) -> vec3<f32> {
    let first = h * SUBGROUPS;
    var largest = partial_max[first];
    for (var i = 1u; i < SUBGROUPS; i++) { largest = max(largest, partial_max[first + i]); }
    var x = 0.0;
    var sum = 0.0;
    for (var i = first; i < first + SUBGROUPS; i++) {
        let fade = exp(partial_max[i] - largest);
        sum += partial_sum[i] * fade;
        x += partial_mix[i * FOURS + d / 4u][d % 4u] * fade;
    }
    return vec3<f32>(x, sum, largest);
}

fn bend(score: f32) -> f32 {
    if SOFTCAP > 0.0 { return SOFTCAP * tanh_clamped(score / SOFTCAP); }
    return score;
}

fn dot8(a: Eight, b: Eight) -> f32 { return dot(a.a, b.a) + dot(a.b, b.b); }

// Loads keys and values of four positions, KEYS apart, from `p`; positions behind the end repeat the last one.
fn fours(seq: u32, kv: u32, p: u32, end: u32, lane: u32) -> Fours {
    let last = max(end, 1u) - 1u;
    return Fours(
        vectors(seq, kv, min(p, last), lane), vectors(seq, kv, min(p + KEYS, last), lane),
        vectors(seq, kv, min(p + 2u * KEYS, last), lane), vectors(seq, kv, min(p + 3u * KEYS, last), lane));
}

// This lane's elements of the key and the value at position `p`.
fn vectors(seq: u32, kv: u32, p: u32, lane: u32) -> Vectors {
    let page = batch_page(seq, p);
    let offset = batch_page_offset(p);
    let k = kc_at(page, kv, offset);
    let v = vc_at(page, kv, offset);
    var both: Vectors;
    for (var e = 0u; e < EIGHTS; e++) {
        both.k[e] = kc_eight(k, lane + e * LANES_PER_KEY);
        both.v[e] = vc_eight(v, lane + e * LANES_PER_KEY);
    }
    return both;
}
