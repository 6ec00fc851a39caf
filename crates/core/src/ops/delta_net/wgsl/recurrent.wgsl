// The gated delta rule, token by token. One workgroup handles one key head of a sequence and the HEADS_EACH value heads that
// read it, as many of these at a time as WG threads can hold: a thread keeps one of a head's V_DIM columns of the state.
//
// Value head h reads key head h % K_HEADS. `front_query`, `front_key` and `front_value` (front.wgsl, plain.wgsl) compute one
// element of a token's query, key or value.
// header: defaults
const WG: u32 = 64u;
const K_HEADS: u32 = 1u;
const V_HEADS: u32 = 1u;
const K_DIM: u32 = 64u;
const V_DIM: u32 = 64u;
const HEADS_EACH: u32 = 1u;
const SCALE: f32 = 1.0;
const L2_EPS: f32 = 1e-6;
const NORM_EPS: f32 = 1e-6;
const FRONT: bool = false;
const NORM: bool = false;
const IN_PLACE: bool = true;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
fn g_at(i: u32) -> f32 { return 0.0; }
fn beta_at(i: u32) -> f32 { return 0.0; }
fn norm_at(i: u32) -> f32 { return 1.0; }
fn gate_at(i: u32) -> f32 { return 1.0; }
fn state_at(i: u32) -> f32 { return 0.0; }
fn put_state(i: u32, x: f32) {}
fn front_query(seq: u32, t: u32, i: u32) -> f32 { return 0.0; }
fn front_key(seq: u32, t: u32, i: u32) -> f32 { return 0.0; }
fn front_value(seq: u32, t: u32, i: u32) -> f32 { return 0.0; }
fn keep(seq: u32, kh: u32, start: u32, count: u32, slot: u32, first_chunk: bool, lid: u32) {}
fn batch_s() -> u32 { return 1u; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn silu(x: f32) -> f32 { return x; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

var<workgroup> query: array<f32, K_DIM>;
var<workgroup> key: array<f32, K_DIM>;
var<workgroup> squares: array<f32, WG>;

// The sum over the V_DIM threads of one value head, for each of them.
fn head_sum(x: f32, lid: u32) -> f32 {
    squares[lid] = x;
    workgroupBarrier();
    var sum = 0.0;
    let from_ = lid - lid % V_DIM;
    for (var i = 0u; i < V_DIM; i++) { sum += squares[min(from_ + i, WG - 1u)]; }
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    let seq = g / K_HEADS;
    if seq >= batch_s() { return; }
    let kh = g % K_HEADS;
    let start = batch_span(seq, 0u);
    let count = batch_span(seq, 1u);
    let slot = batch_span(seq, 3u);
    let first_chunk = batch_span(seq, 4u) != 0u;
    // A state in place has a row per slot; a state that is a value has a row per sequence, already zero in its first chunk.
    let state_row = select(seq, slot, IN_PLACE);
    const AT_ONCE = WG / V_DIM;
    for (var turn = 0u; turn < (HEADS_EACH + AT_ONCE - 1u) / AT_ONCE; turn++) {
        let own = turn * AT_ONCE + lid / V_DIM;
        let is_on = lid / V_DIM < AT_ONCE && own < HEADS_EACH;
        // Threads without a column of their own repeat the work of the last head and store nothing, because all threads must
        // reach the barriers.
        let h = min(own, HEADS_EACH - 1u) * K_HEADS + kh;
        let j = lid % V_DIM;
        let at = (state_row * V_HEADS + h) * K_DIM * V_DIM + j;
        var column: array<f32, K_DIM>;
        for (var i = 0u; i < K_DIM; i++) {
            column[i] = 0.0;
            if !(first_chunk && IN_PLACE) { column[i] = state_at(at + i * V_DIM); }
        }
        for (var t = 0u; t < count; t++) {
            let row = start + t;
            var sums = vec2<f32>(0.0);
            for (var i = lid; i < K_DIM; i += WG) {
                let q = front_query(seq, t, kh * K_DIM + i);
                let k = front_key(seq, t, kh * K_DIM + i);
                query[i] = q;
                key[i] = k;
                sums += vec2<f32>(q * q, k * k);
            }
            var factors = vec2<f32>(1.0);
            if FRONT {
                factors.x = inverseSqrt(workgroup_sum(sums.x, lid) + L2_EPS);
                factors.y = inverseSqrt(workgroup_sum(sums.y, lid) + L2_EPS);
            } else {
                workgroupBarrier();
            }
            let v = front_value(seq, t, h * V_DIM + j);
            let decay = exp(g_at(row * V_HEADS + h));
            var predicted = 0.0;
            for (var i = 0u; i < K_DIM; i++) {
                column[i] *= decay;
                predicted += column[i] * key[i];
            }
            let d = beta_at(row * V_HEADS + h) * (v - predicted * factors.y) * factors.y;
            var o = 0.0;
            for (var i = 0u; i < K_DIM; i++) {
                column[i] += key[i] * d;
                o += column[i] * query[i];
            }
            o *= factors.x * SCALE;
            if NORM { o *= inverseSqrt(head_sum(o * o, lid) / f32(V_DIM) + NORM_EPS) * norm_at(j); }
            let i = (row * V_HEADS + h) * V_DIM + j;
            if NORM { o *= silu(gate_at(i)); }
            if is_on { y[i] = o; }
            workgroupBarrier();
        }
        if is_on {
            for (var i = 0u; i < K_DIM; i++) { put_state(at + i * V_DIM, column[i]); }
        }
    }
    keep(seq, kh, start, count, slot, first_chunk, lid);
}
