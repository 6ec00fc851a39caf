// Prefill attention through cooperative matrices: a workgroup has ROWS rows of one sequence and one query head, and streams
// over tiles of KEYS positions. A subgroup has as many rows as a matrix (`part` is its index). For the softmax, SHARE threads
// divide the keys of a row among them.
//
// Two passes over the keys: the first computes the maximum score of each row and the sum of its weights, the second the weights
// and their product with the values. So accumulators never need a rescale factor; to scale the rows of a cooperative matrix, it
// would have to go through memory.
//
// 2048 rows of Qwen2.5-0.5B's shape on an H200 through Vulkan: about 490 us, 356 us with the next keys in flight to registers
// (8B's: 1180 us). The remaining time is workgroup memory and five barriers a tile, not matrix products.
//
// Factors are f16 and accumulators f32. Keys and values are used as the cache holds them; queries and weights are each the sum
// of two f16 values, the second of which holds the rounding error of the first.
// header: defaults
enable f16;
enable wgpu_cooperative_matrix;
alias MatA = coop_mat16x16<f16, A>;
alias MatB = coop_mat16x16<f16, B>;
alias MatC = coop_mat16x16<f32, C>;
const WG: u32 = 128u;
const SIDE: u32 = 16u;
const UNIT: u32 = 4u;
const ROWS: u32 = 64u;
const KEYS: u32 = 32u;
const SUBGROUPS: u32 = 4u;
const CHUNKS: u32 = 2u;
const AT_ROW: u32 = 72u;
const AT_WEIGHT: u32 = 40u;
const AT_SCORE: u32 = 36u;
const q_DIM: u32 = 64u;
const HEADS: u32 = 1u;
const GROUP: u32 = 1u;
const Q_STRIDE: u32 = 64u;
const WINDOW: u32 = 0u;
const d0: u32 = 0u;
const j0: u32 = 0u;
const i0: u32 = 0u;
const SCALE: f32 = 0.125;
const SOFTCAP: f32 = 0.0;
const q_EPS: f32 = 1e-5;
const GATE: bool = false;
const q_NORM: bool = false;
@group(0) @binding(0) var<storage, read> kc: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> vc: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<vec4<f16>, ROWS * AT_ROW / 4u>;
var<workgroup> weights: array<vec4<f16>, 2 * ROWS * AT_WEIGHT / 4u>;
var<workgroup> scores: array<vec4<f32>, ROWS * AT_SCORE / 4u>;
fn put_tile(at: u32, x: vec4<f16>) { tile[at / 4u] = x; }
fn put_weights(at: u32, x: vec4<f16>) { weights[at / 4u] = x; }
fn scores_four(at: u32) -> vec4<f32> { return scores[at / 4u]; }
fn q_x_at(i: u32) -> f32 { return 0.0; }
fn rotated(row: u32, from_: u32, d: u32) -> f32 { return 0.0; }
fn packed_at(i: u32) -> f32 { return 0.0; }
fn kc_at(page: u32, head: u32, offset: u32) -> u32 { return 0u; }
fn batch_s() -> u32 { return 1u; }
fn batch_position(row: u32) -> u32 { return row; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn batch_page(seq: u32, position: u32) -> u32 { return 0u; }
fn batch_page_offset(position: u32) -> u32 { return position; }
fn sigmoid(x: f32) -> f32 { return x; }
fn tanh_clamped(x: f32) -> f32 { return x; }
// header: end

const SHARE: u32 = WG / ROWS;
const NONE: f32 = -3.0e38;
var<workgroup> book: array<vec2<f32>, WG>;
var<private> part: u32;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lid: u32, @builtin(subgroup_id) subgroup: u32) {
    part = subgroup % SUBGROUPS;
    let g = wid.x + wid.y * nwg.x;
    let head = g % HEADS;
    // Finds the sequence, and the index of this workgroup's tile of rows in it.
    var tile_ = g / HEADS;
    var seq = 0u;
    while seq < batch_s() {
        let tiles = (batch_span(seq, 1u) + ROWS - 1u) / ROWS;
        if tile_ < tiles { break; }
        tile_ -= tiles;
        seq += 1u;
    }
    if seq >= batch_s() { return; }
    let count = batch_span(seq, 1u);
    // The last rows of a sequence see the most keys, so they come first.
    let first_row = ((count + ROWS - 1u) / ROWS - 1u - tile_) * ROWS;
    let start = batch_span(seq, 0u);
    let kv = head / GROUP;
    stage_queries(start, first_row, count, head, 0u, lid);
    workgroupBarrier();
    take_high();
    workgroupBarrier();
    stage_queries(start, first_row, count, head, 1u, lid);
    workgroupBarrier();
    take_low();

    let row = start + min(first_row + lid % ROWS, count - 1u);
    let share = lid / ROWS;
    let position = batch_position(row);
    let low = select(0u, position + 1u - WINDOW, WINDOW > 0u && position + 1u > WINDOW);
    let from_ = batch_position(start + first_row);
    let begin = select(0u, from_ + 1u - WINDOW, WINDOW > 0u && from_ + 1u > WINDOW) / KEYS * KEYS;
    let end = batch_position(start + min(first_row + ROWS, count) - 1u) + 1u;

    var largest = NONE;
    var sum = 0.0;
    fetch_keys(seq, kv, begin, end, lid);
    for (var at = begin; at < end; at += KEYS) {
        workgroupBarrier();
        put_keys(lid);
        workgroupBarrier();
        if at + KEYS < end { fetch_keys(seq, kv, at + KEYS, end, lid); }
        make_scores();
        workgroupBarrier();
        var now = largest;
        for (var i = share * 4u; i < KEYS; i += SHARE * 4u) {
            let s = seen(at + i, low, position, scores_four(lid % ROWS * AT_SCORE + i));
            now = max(now, max(max(s.x, s.y), max(s.z, s.w)));
        }
        sum *= exp(largest - now);
        largest = now;
        for (var i = share * 4u; i < KEYS; i += SHARE * 4u) {
            let s = seen(at + i, low, position, scores_four(lid % ROWS * AT_SCORE + i));
            let e = select(vec4<f32>(0.0), exp(s - largest), s > vec4<f32>(NONE));
            sum += e.x + e.y + e.z + e.w;
        }
    }
    // Combines the maxima and sums of the threads that share a row.
    book[lid] = vec2<f32>(largest, sum);
    fetch_keys(seq, kv, begin, end, lid);
    fetch_values(seq, kv, begin, end, lid);
    workgroupBarrier();
    largest = NONE;
    for (var i = 0u; i < SHARE; i++) { largest = max(largest, book[i * ROWS + lid % ROWS].x); }
    sum = 0.0;
    for (var i = 0u; i < SHARE; i++) {
        let other = book[i * ROWS + lid % ROWS];
        sum += other.y * exp(other.x - largest);
    }

    for (var at = begin; at < end; at += KEYS) {
        put_keys(lid);
        workgroupBarrier();
        if at + KEYS < end { fetch_keys(seq, kv, at + KEYS, end, lid); }
        make_scores();
        workgroupBarrier();
        for (var i = share * 4u; i < KEYS; i += SHARE * 4u) {
            let s = seen(at + i, low, position, scores_four(lid % ROWS * AT_SCORE + i));
            let e = select(vec4<f32>(0.0), exp(s - largest), s > vec4<f32>(NONE));
            let high = upper(e);
            put_weights(lid % ROWS * AT_WEIGHT + i, vec4<f16>(high));
            put_weights((ROWS + lid % ROWS) * AT_WEIGHT + i, vec4<f16>(e - high));
        }
        put_values(lid);
        workgroupBarrier();
        if at + KEYS < end { fetch_values(seq, kv, at + KEYS, end, lid); }
        mix_values();
    }

    let is_there = first_row + lid % ROWS < count;
    for (var c = 0u; c < CHUNKS; c++) {
        workgroupBarrier();
        put_mix(c);
        workgroupBarrier();
        for (var i = share * 4u; i < KEYS; i += SHARE * 4u) {
            let d = c * KEYS + i;
            if is_there && d < q_DIM {
                let x = scores_four(lid % ROWS * AT_SCORE + i) / sum;
                for (var j = 0u; j < 4u; j++) {
                    var gate = 1.0;
                    if GATE { gate = sigmoid(packed_at((row * HEADS + head) * 2u * q_DIM + q_DIM + d + j)); }
                    y[(row * HEADS + head) * q_DIM + d + j] = x[j] * gate;
                }
            }
        }
    }
}

// Rounds toward zero to f16 precision. It masks bits, since a compiler may drop a conversion to f16 and back.
fn upper(x: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) & vec4<u32>(0xffffe000u)); }

// Scores of positions p .. p + 4 after softcap; NONE where the row does not see the position.
fn seen(p: u32, low: u32, position: u32, s: vec4<f32>) -> vec4<f32> {
    var x = s;
    if SOFTCAP > 0.0 {
        for (var i = 0u; i < 4u; i++) { x[i] = SOFTCAP * tanh_clamped(s[i] / SOFTCAP); }
    }
    let at = vec4<u32>(p, p + 1u, p + 2u, p + 3u);
    return select(vec4<f32>(NONE), x, at >= vec4<u32>(low) & at <= vec4<u32>(position));
}

// Stores the queries of the tile's rows, normed, rotated and scaled: their upper f16 values (`lower` = 0), or their rounding
// errors (1).
fn stage_queries(start: u32, first_row: u32, count: u32, head: u32, lower: u32, lid: u32) {
    let row = start + min(first_row + lid % ROWS, count - 1u);
    let from_ = (row * HEADS + head) * Q_STRIDE;
    var factor = SCALE;
    if q_NORM {
        var sum = 0.0;
        for (var d = 0u; d < q_DIM; d++) { let x = q_x_at(from_ + d); sum += x * x; }
        factor *= inverseSqrt(sum / f32(q_DIM) + q_EPS);
    }
    for (var d = lid / ROWS * 4u; d < q_DIM; d += SHARE * 4u) {
        var x = factor * vec4<f32>(
            rotated(row, from_, d), rotated(row, from_, d + 1u), rotated(row, from_, d + 2u), rotated(row, from_, d + 3u));
        if lower == 1u { x -= upper(x); }
        put_tile(lid % ROWS * AT_ROW + d, vec4<f16>(select(upper(x), x, lower == 1u)));
    }
}

// Index in the cache, in vectors of eight elements, of vector `e` of the keys or values from position `from_`. Positions behind
// the end repeat the last one: their elements are finite, and the mask hides them.
fn eight_at(seq: u32, kv: u32, from_: u32, end: u32, e: u32) -> u32 {
    let p = min(from_ + e / (q_DIM / 8u), end - 1u);
    return kc_at(batch_page(seq, p), kv, batch_page_offset(p)) / 16u + e % (q_DIM / 8u);
}

fn put_eight(first: u32, e: u32, x: vec4<u32>) {
    let at = (first + e / (q_DIM / 8u)) * AT_ROW + e % (q_DIM / 8u) * 8u;
    put_tile(at, vec4<f16>(vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y))));
    put_tile(at + 4u, vec4<f16>(vec4<f32>(unpack2x16float(x.z), unpack2x16float(x.w))));
}

// Fragments of the queries' upper and lower parts, and of the output.
var<private> q_high_d0: MatA;
var<private> q_low_d0: MatA;
var<private> mix_d0: MatC;

fn take_high() {
    q_high_d0 = coopLoadT<MatA>(&tile[(part * SIDE * AT_ROW + d0 * SIDE) / UNIT], AT_ROW / UNIT);
}

fn take_low() {
    q_low_d0 = coopLoadT<MatA>(&tile[(part * SIDE * AT_ROW + d0 * SIDE) / UNIT], AT_ROW / UNIT);
}

// Scores of this subgroup's rows with the staged keys.
fn make_scores() {
    // each j0
    var s_j0: MatC;
    // each d0
    let k_j0_d0 = coopLoad<MatB>(&tile[(j0 * SIDE * AT_ROW + d0 * SIDE) / UNIT], AT_ROW / UNIT);
    s_j0 = coopMultiplyAdd(q_low_d0, k_j0_d0, s_j0);
    s_j0 = coopMultiplyAdd(q_high_d0, k_j0_d0, s_j0);
    // end d0
    coopStoreT(s_j0, &scores[(part * SIDE * AT_SCORE + j0 * SIDE) / UNIT], AT_SCORE / UNIT);
    // end j0
}

// Softmax weights times the staged values.
fn mix_values() {
    // each j0
    let w_high_j0 = coopLoadT<MatA>(&weights[(part * SIDE * AT_WEIGHT + j0 * SIDE) / UNIT], AT_WEIGHT / UNIT);
    let w_low_j0 = coopLoadT<MatA>(&weights[((part * SIDE + ROWS) * AT_WEIGHT + j0 * SIDE) / UNIT], AT_WEIGHT / UNIT);
    // each d0
    let v_j0_d0 = coopLoadT<MatB>(&tile[((KEYS + j0 * SIDE) * AT_ROW + d0 * SIDE) / UNIT], AT_ROW / UNIT);
    mix_d0 = coopMultiplyAdd(w_low_j0, v_j0_d0, mix_d0);
    mix_d0 = coopMultiplyAdd(w_high_j0, v_j0_d0, mix_d0);
    // end d0
    // end j0
}

// Stores KEYS elements of the output from `c * KEYS` on, where the scores were.
fn put_mix(c: u32) {
    // each d0
    if c == d0 * SIDE / KEYS {
        coopStoreT(mix_d0, &scores[(part * SIDE * AT_SCORE + d0 * SIDE % KEYS) / UNIT], AT_SCORE / UNIT);
    }
    // end d0
}

// The next keys and values, which a thread has in registers while the present ones are multiplied.
var<private> keys_i0: vec4<u32>;
var<private> values_i0: vec4<u32>;

// The index of this thread's eight elements in turn `i`.
fn place(lid: u32, i: u32) -> u32 { return min(lid + i * WG, KEYS * q_DIM / 8u - 1u); }

fn fetch_keys(seq: u32, kv: u32, from_: u32, end: u32, lid: u32) {
    keys_i0 = kc[eight_at(seq, kv, from_, end, place(lid, i0))];
}

fn put_keys(lid: u32) {
    put_eight(0u, place(lid, i0), keys_i0);
}

fn fetch_values(seq: u32, kv: u32, from_: u32, end: u32, lid: u32) {
    values_i0 = vc[eight_at(seq, kv, from_, end, place(lid, i0))];
}

fn put_values(lid: u32) {
    put_eight(KEYS, place(lid, i0), values_i0);
}
