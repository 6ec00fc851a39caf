// One workgroup a query head of a token, or up to SPLITS of them where the cache is long. A span of SPAN lanes shares a key: each lane has EIGHTS times eight numbers of it,
// of the query, of the value and of the mix, in registers. A span takes every KEYS-th position, four at a time and the next
// four on their way, with a maximum and a sum of its own; the spans meet once, at the end.
//
// q: the head, normed and rotated. kc, vc: the caches. OWN > 0: this dispatch also writes; each workgroup makes the keys and
// values of its sequence's rows up to its own for itself, as the cache would give them back, and the first head of a group
// stores those of its own token. Nobody reads from the cache what this dispatch writes.
const FOURS: u32 = q_DIM / 4u;
const KEYS: u32 = WG / SPAN;
const PARTS: u32 = WG / LANES;
const NONE: f32 = -3.0e38;
// Positions that one workgroup takes before others share them.
const CHUNK: u32 = 512u;
var<workgroup> query: array<vec4<f32>, FOURS>;
var<workgroup> part_largest: array<f32, PARTS>;
var<workgroup> part_sum: array<f32, PARTS>;
var<workgroup> part_mix: array<vec4<f32>, PARTS * FOURS>;

struct Mix { largest: f32, sum: f32, mix: array<Eight, EIGHTS> }
struct Vectors { k: array<Eight, EIGHTS>, v: array<Eight, EIGHTS> }
struct Fours { a: Vectors, b: Vectors, c: Vectors, d: Vectors }

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= batch_t() * HEADS * SPLITS { return; }
    // First the workgroups that there is always work for.
    let split = g / (batch_t() * HEADS);
    let row = g % (batch_t() * HEADS) / HEADS;
    let head = g % HEADS;
    let kv = head / GROUP;
    let seq = batch_seq(row);
    let position = batch_position(row);
    // Positions from `new` on are rows of this step.
    let new_ = batch_span(seq, 2u) - batch_span(seq, 1u);
    let first = select(0u, position + 1u - WINDOW, WINDOW > 0u && position + 1u > WINDOW);
    let cached = max(select(position + 1u, new_, OWN > 0u), first);
    // The part of the cache that is this workgroup's; the first one also has the step's own rows.
    let splits = clamp((cached - first + CHUNK - 1u) / CHUNK, 1u, SPLITS);
    if split >= splits { return; }
    let per = (cached - first + splits - 1u) / splits;
    let begin = first + split * per;
    let end = min(cached, begin + per);
    let lane = lid % SPAN;
    let mine = lid / SPAN;
    // Memory is asked for everything first; then what came is made ready.
    var ahead = fours(seq, kv, begin + mine, end, lane);
    q_take(row * HEADS * Q_STRIDE + head * Q_STRIDE, lid);
    if split == 0u { own_take(own_start(row, seq), kv, lid); }
    workgroupBarrier();
    if split == 0u { own(row, head, kv, seq, position, new_, lid); }
    for (var i = lid; i < FOURS; i += WG) {
        let d = 4u * i;
        query[i] = SCALE * vec4<f32>(q_rotated(row, d), q_rotated(row, d + 1u), q_rotated(row, d + 2u), q_rotated(row, d + 3u));
    }
    workgroupBarrier();
    var q: array<Eight, EIGHTS>;
    for (var e = 0u; e < EIGHTS; e++) {
        let i = lane + e * SPAN;
        q[e] = Eight(query[2u * i], query[2u * i + 1u]);
    }
    var m: Mix;
    m.largest = NONE;
    // The same number of turns for all: lanes shuffle inside.
    for (var from_ = begin; from_ < end; from_ += 4u * KEYS) {
        let p = vec4<u32>(from_ + mine) + vec4<u32>(0u, KEYS, 2u * KEYS, 3u * KEYS);
        var a = ahead.a;
        var b = ahead.b;
        var c = ahead.c;
        var d = ahead.d;
        if from_ + 4u * KEYS < end { ahead = fours(seq, kv, from_ + 4u * KEYS + mine, end, lane); }
        var score = vec4<f32>(0.0);
        for (var e = 0u; e < EIGHTS; e++) {
            score += vec4<f32>(dot8(q[e], a.k[e]), dot8(q[e], b.k[e]), dot8(q[e], c.k[e]), dot8(q[e], d.k[e]));
        }
        for (var n = SPAN / 2u; n > 0u; n /= 2u) { score += subgroupShuffleXor(score, n); }
        let is_there = p < vec4<u32>(end);
        score = select(vec4<f32>(NONE), vec4<f32>(bend(score.x), bend(score.y), bend(score.z), bend(score.w)), is_there);
        let now = max(m.largest, max(max(score.x, score.y), max(score.z, score.w)));
        let fade = exp(m.largest - now);
        let w = select(vec4<f32>(0.0), exp(score - now), is_there);
        m.largest = now;
        m.sum = m.sum * fade + w.x + w.y + w.z + w.w;
        for (var e = 0u; e < EIGHTS; e++) {
            m.mix[e].a = m.mix[e].a * fade + w.x * a.v[e].a + w.y * b.v[e].a + w.z * c.v[e].a + w.w * d.v[e].a;
            m.mix[e].b = m.mix[e].b * fade + w.x * a.v[e].b + w.y * b.v[e].b + w.z * c.v[e].b + w.w * d.v[e].b;
        }
    }
    if OWN > 0u && split == 0u {
        for (var from_ = max(first, new_); from_ <= position; from_ += KEYS) {
            let p = from_ + mine;
            let at = min(p, position) - new_;
            var score = 0.0;
            for (var e = 0u; e < EIGHTS; e++) { score += dot8(q[e], own_key_eight(at, lane + e * SPAN)); }
            for (var n = SPAN / 2u; n > 0u; n /= 2u) { score += subgroupShuffleXor(score, n); }
            score = select(NONE, bend(score), p <= position);
            let now = max(m.largest, score);
            let fade = exp(m.largest - now);
            let w = select(0.0, exp(score - now), p <= position);
            m.largest = now;
            m.sum = m.sum * fade + w;
            for (var e = 0u; e < EIGHTS; e++) {
                let v = own_value_eight(at, lane + e * SPAN);
                m.mix[e] = Eight(m.mix[e].a * fade + w * v.a, m.mix[e].b * fade + w * v.b);
            }
        }
    }
    // Spans that shuffle together, then the rest through workgroup memory.
    for (var n = SPAN; n < LANES; n *= 2u) {
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
    let part = lid / LANES;
    if lid % LANES == 0u {
        part_largest[part] = m.largest;
        part_sum[part] = m.sum;
    }
    if lid % LANES < SPAN {
        for (var e = 0u; e < EIGHTS; e++) {
            let i = part * FOURS + 2u * (lane + e * SPAN);
            part_mix[i] = m.mix[e].a;
            part_mix[i + 1u] = m.mix[e].b;
        }
    }
    workgroupBarrier();
    let is_shared = splits > 1u;
    if is_shared && !meet(row * HEADS + head, split, splits, lid) { return; }
    for (var d = lid; d < q_DIM; d += WG) {
        let here = merged(d);
        var x = here.x / here.y;
        if is_shared { x = met(d, splits); }
        if GATE { x *= sigmoid(joint_at((row * HEADS + head) * 2u * q_DIM + q_DIM + d)); }
        y[(row * HEADS + head) * q_DIM + d] = x;
    }
}

// Number d of this workgroup's mix, the sum of its weights, and the score they are relative to.
fn merged(d: u32) -> vec3<f32> {
    var largest = part_largest[0];
    for (var i = 1u; i < PARTS; i++) { largest = max(largest, part_largest[i]); }
    var x = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < PARTS; i++) {
        let fade = exp(part_largest[i] - largest);
        sum += part_sum[i] * fade;
        x += part_mix[i * FOURS + d / 4u][d % 4u] * fade;
    }
    return vec3<f32>(x, sum, largest);
}

fn bend(score: f32) -> f32 {
    if SOFTCAP > 0.0 { return SOFTCAP * tanh_clamped(score / SOFTCAP); }
    return score;
}

fn dot8(a: Eight, b: Eight) -> f32 { return dot(a.a, b.a) + dot(a.b, b.b); }

// Of four positions from `p` on; behind the end the last one again.
fn fours(seq: u32, kv: u32, p: u32, end: u32, lane: u32) -> Fours {
    let last = max(end, 1u) - 1u;
    return Fours(
        vectors(seq, kv, min(p, last), lane), vectors(seq, kv, min(p + KEYS, last), lane),
        vectors(seq, kv, min(p + 2u * KEYS, last), lane), vectors(seq, kv, min(p + 3u * KEYS, last), lane));
}

// What this lane has of the key and the value at position `p`.
fn vectors(seq: u32, kv: u32, p: u32, lane: u32) -> Vectors {
    let page = batch_page(seq, p);
    let offset = batch_page_offset(p);
    let k = kc_at(page, kv, offset);
    let v = vc_at(page, kv, offset);
    var both: Vectors;
    for (var e = 0u; e < EIGHTS; e++) {
        both.k[e] = kc_eight(k, lane + e * SPAN);
        both.v[e] = vc_eight(v, lane + e * SPAN);
    }
    return both;
}
