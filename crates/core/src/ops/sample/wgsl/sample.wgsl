// Chooses the next token of each sequence. One workgroup per sequence runs this; where the vocabulary is split over SLICES
// workgroups, the last of them to finish its slice. `goes_on` is true for this workgroup, and `first_best` returns the best
// token (alone.wgsl, split_vocab.wgsl).
//
// Tokens are ordered by descending logit, lower ids first among equal ones. Nothing is sorted: a cut in that order (the k best,
// the best with mass p, the token drawn) is found by bisection of the range of keys, then of ids.
//
// logits_at: rows of V logits. copy: scratch rows of V, for logits after the repeat penalty. TOP: how many best tokens a row of
// y can hold. pending_tokens: receives the id of each sequence, for the next step's embedding.
// header: defaults
const WG: u32 = 64u;
const V: u32 = 1000u;
const SLICES: u32 = 1u;
const TOP: u32 = 0u;
const ID_STEPS: u32 = 10u;
@group(0) @binding(0) var<storage, read_write> copy: array<f32>;
@group(0) @binding(1) var<storage, read_write> pending_tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
fn rows() -> u32 { return 1u; }
fn logits_at(i: u32) -> f32 { return 0.0; }
fn key(x: f32) -> u32 { return bitcast<u32>(x); }
fn workgroup_best(best: vec2<u32>, lid: u32) -> vec2<u32> { return best; }
fn goes_on(seq: u32, slice: u32, lid: u32) -> bool { return true; }
fn first_best(seq: u32, lid: u32) -> vec2<u32> { return vec2<u32>(0u); }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn batch_span_f32(seq: u32, field: u32) -> f32 { return 0.0; }
fn batch_history(seq: u32, i: u32) -> u32 { return i; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

var<private> penalized: bool;
var<private> nan_bits: u32 = 0x7fc00000u;

fn logit(seq: u32, i: u32) -> f32 {
    if penalized { return copy[seq * V + i]; }
    return logits_at(seq * V + i);
}

fn of_key(k: u32) -> f32 { return bitcast<f32>(select(~k, k & 0x7fffffffu, (k >> 31u) == 1u)); }

// The first token behind (k, id) in the order, as key and id; the key is 0 where there is none.
fn next_best(seq: u32, k: u32, id: u32, lid: u32) -> vec2<u32> {
    var best = vec2<u32>(0u, V);
    for (var i = lid; i < V; i += WG) {
        let x = key(logit(seq, i));
        if x > best.x && (x < k || (x == k && i > id)) { best = vec2<u32>(x, i); }
    }
    return workgroup_best(best, lid);
}

// A cut keeps the tokens up to and including (key, id) in the order.
struct Cut { key: u32, id: u32 }

fn is_kept(cut: Cut, k: u32, i: u32) -> bool { return k > cut.key || (k == cut.key && i <= cut.id); }

// The count (x) and the mass (y) of the kept tokens whose keys are at least `k`.
fn above(seq: u32, cut: Cut, k: u32, s: Softmax, lid: u32) -> vec2<f32> {
    var sum = vec2<f32>(0.0);
    for (var i = lid; i < V; i += WG) {
        let x = logit(seq, i);
        let ki = key(x);
        if ki >= k && is_kept(cut, ki, i) { sum += vec2<f32>(1.0, exp((x - s.largest) * s.inverse)); }
    }
    return vec2<f32>(workgroup_sum(sum.x, lid), workgroup_sum(sum.y, lid));
}

struct Softmax { largest: f32, inverse: f32 }

// The first token in the order at which the count (or the mass) of the tokens up to it reaches `target_`, or, with `beyond`,
// exceeds it.
fn reaching(seq: u32, cut: Cut, s: Softmax, mass: bool, target_: f32, beyond: bool, lid: u32) -> Cut {
    var low = 1u;
    var high = 0xffffffffu;
    for (var step = 0u; step < 32u; step++) {
        let middle = low + (high - low + 1u) / 2u;
        let a = above(seq, cut, middle, s, lid);
        let have = select(a.x, a.y, mass);
        let enough = have > target_ || (have == target_ && !beyond);
        low = select(low, middle, enough);
        high = select(middle - 1u, high, enough);
    }
    // Among tokens with this key: how many of them are needed, and the id of the last needed one.
    let before = above(seq, cut, low + 1u, s, lid);
    let one = select(1.0, exp((of_key(low) - s.largest) * s.inverse), mass);
    let need = (target_ - select(before.x, before.y, mass)) / one;
    let count = max(select(ceil(need), floor(need) + 1.0, beyond), 1.0);
    var from_ = 0u;
    var to = V - 1u;
    for (var step = 0u; step < ID_STEPS; step++) {
        let middle = (from_ + to) / 2u;
        var n = 0.0;
        for (var i = lid; i <= middle; i += WG) { n += select(0.0, 1.0, key(logit(seq, i)) == low); }
        let enough = workgroup_sum(n, lid) >= count;
        to = select(to, middle, enough);
        from_ = select(min(middle + 1u, V - 1u), from_, enough);
        to = max(to, from_);
    }
    return Cut(low, to);
}

// The high 32 bits of a 32 x 32 bit product.
fn high_word(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = al * bl;
    let mid = ah * bl + (low >> 16u);
    let other = al * bh + (mid & 0xffffu);
    return ah * bh + (mid >> 16u) + (other >> 16u);
}

// Philox 4x32 with 10 rounds, first word, as a number in [0, 1).
fn uniform_number(seed_low: u32, seed_high: u32, counter: u32) -> f32 {
    var c = vec4<u32>(counter, 0u, 0u, 0u);
    var k = vec2<u32>(seed_low, seed_high);
    for (var i = 0u; i < 10u; i++) {
        let a = high_word(0xd2511f53u, c.x);
        let b = high_word(0xcd9e8d57u, c.z);
        c = vec4<u32>(b ^ c.y ^ k.x, 0xcd9e8d57u * c.z, a ^ c.w ^ k.y, 0xd2511f53u * c.x);
        k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return f32(c.x >> 8u) / 16777216.0;
}

fn penalize(seq: u32, lid: u32) {
    let penalty = batch_span_f32(seq, 9u);
    let count = batch_span(seq, 14u);
    penalized = false;
    if penalty == 1.0 || count == 0u { return; }
    for (var i = lid; i < V; i += WG) { copy[seq * V + i] = logits_at(seq * V + i); }
    storageBarrier();
    for (var i = lid; i < count; i += WG) {
        let id = batch_history(seq, i);
        // An id that occurs twice in the history writes the same value twice, so the race is harmless.
        if id < V {
            let x = logits_at(seq * V + id);
            copy[seq * V + id] = select(x * penalty, x / penalty, x > 0.0);
        }
    }
    storageBarrier();
    penalized = true;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= rows() * SLICES { return; }
    let seq = g / SLICES;
    if !goes_on(seq, g % SLICES, lid) { return; }
    for (var i = lid; i < 2u + 2u * TOP; i += WG) { y[seq * (2u + 2u * TOP) + i] = bitcast<f32>(nan_bits); }
    storageBarrier();
    penalize(seq, lid);
    let first = first_best(seq, lid);
    let largest = of_key(first.x);
    // There is no token where the best logit is not finite.
    let is_finite = first.x > key(-3.4028235e38) - 1u && first.x <= key(3.4028235e38);
    var id = first.y;
    let temperature = batch_span_f32(seq, 5u);
    if temperature > 0.0 {
        let s = Softmax(largest, 1.0 / temperature);
        var cut = Cut(1u, V);
        let top_k = batch_span(seq, 6u);
        if top_k > 0u && top_k < V { cut = reaching(seq, cut, s, false, f32(top_k), false, lid); }
        let top_p = batch_span_f32(seq, 7u);
        if top_p < 1.0 { cut = reaching(seq, cut, s, true, top_p * above(seq, cut, 1u, s, lid).y, false, lid); }
        let min_p = batch_span_f32(seq, 8u);
        if min_p > 0.0 {
            let least = key(largest + temperature * log(min_p));
            if least > cut.key { cut = Cut(least, V); }
        }
        let u = uniform_number(batch_span(seq, 10u), batch_span(seq, 11u), batch_span(seq, 2u));
        id = reaching(seq, cut, s, true, u * above(seq, cut, 1u, s, lid).y, true, lid).id;
    }
    if !is_finite { id = 0xffffffffu; }
    if lid == 0u {
        y[seq * (2u + 2u * TOP)] = bitcast<f32>(id);
        pending_tokens[seq] = id;
    }
    let asked = min(batch_span(seq, 12u), TOP);
    if batch_span(seq, 12u) == 0u { return; }
    let sum = above(seq, Cut(1u, V), 1u, Softmax(largest, 1.0), lid).y;
    let log_sum = largest + log(sum);
    if lid == 0u && is_finite { y[seq * (2u + 2u * TOP) + 1u] = logit(seq, min(id, V - 1u)) - log_sum; }
    var at = vec2<u32>(0xffffffffu, V);
    for (var n = 0u; n < asked; n++) {
        at = next_best(seq, at.x, at.y, lid);
        if lid == 0u && at.x > 0u && is_finite {
            y[seq * (2u + 2u * TOP) + 2u + 2u * n] = bitcast<f32>(at.y);
            y[seq * (2u + 2u * TOP) + 3u + 2u * n] = of_key(at.x) - log_sum;
        }
    }
}
