// The prologue as a dispatch of its own, with one workgroup for each row: the norm, and the conversion to f16 or the activation
// quantization to int8 in blocks of 32.
//
// Inputs: x_at, the activations [T][K], and norm_at, the norm's weight [K]; NORM and EPS say whether and how the row is normed.
// FLOATS: writes the normed row to `floats` in f32.
// HALVES: writes the normed row to `halves` in f16, two elements in a word.
// ROUNDED: writes rows of ROUNDED_ROW words to `rounded`: the quants in order (if NATURAL, for 8-bit weights), the quants with
// the four even ones of every eight before the four odd ones (if PERMUTED, for 4-bit weights), a scale for every 32 elements,
// and the sum of every 16 quants.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const AT_PERMUTED: u32 = 0u;
const AT_SCALES: u32 = 16u;
const AT_SUMS: u32 = 20u;
const ROUNDED_ROW: u32 = 24u;
const NORM: bool = true;
const ROUNDED: bool = true;
const FLOATS: bool = false;
const HALVES: bool = false;
const NATURAL: bool = true;
const PERMUTED: bool = false;
const EPS: f32 = 1e-5;
fn rows() -> u32 { return 1u; }
fn x_at(i: u32) -> f32 { return 0.0; }
fn norm_at(i: u32) -> f32 { return 1.0; }
fn put_rounded(i: u32, x: u32) {}
fn put_floats(i: u32, x: f32) {}
fn put_halves(i: u32, x: u32) {}
struct Block { quants: array<u32, 8>, scale: f32, sums: vec2<i32> }
fn rounded_block(row: u32, block: u32, factor: f32) -> Block { return Block(); }
fn permuted_word(r: Block, i: u32) -> u32 { return 0u; }
fn divide(a: f32, b: f32) -> f32 { return a / b; }
fn f16_bits(x: f32) -> u32 { return pack2x16float(vec2<f32>(x, 0.0)); }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = wid.x + wid.y * nwg.x;
    if row >= rows() { return; }
    var factor = 1.0;
    if NORM {
        var sum = 0.0;
        for (var i = lid; i < K; i += WG) { let x = x_at(row * K + i); sum += x * x; }
        factor = divide(1.0, sqrt(workgroup_sum(sum, lid) / f32(K) + EPS));
    }
    if FLOATS {
        for (var i = lid; i < K; i += WG) { put_floats(row * K + i, x_at(row * K + i) * factor * norm_at(i)); }
    }
    if HALVES {
        for (var i = lid; i < K / 2u; i += WG) {
            let at = vec2<u32>(2u * i, 2u * i + 1u);
            let x = vec2<f32>(x_at(row * K + at.x) * norm_at(at.x), x_at(row * K + at.y) * norm_at(at.y)) * factor;
            let near = clamp(x, vec2<f32>(-65504.0), vec2<f32>(65504.0));
            put_halves(row * (K / 2u) + i, f16_bits(near.x) | (f16_bits(near.y) << 16u));
        }
    }
    if ROUNDED {
        for (var block = lid; block < K / 32u; block += WG) { round_block(row, block, factor); }
    }
}

fn round_block(row: u32, block: u32, factor: f32) {
    let r = rounded_block(row, block, factor);
    let at = row * ROUNDED_ROW + block * 8u;
    for (var i = 0u; i < 8u; i++) {
        if NATURAL { put_rounded(at + i, r.quants[i]); }
        if PERMUTED { put_rounded(at + AT_PERMUTED + i, permuted_word(r, i)); }
    }
    put_rounded(row * ROUNDED_ROW + AT_SCALES + block, bitcast<u32>(r.scale));
    put_rounded(row * ROUNDED_ROW + AT_SUMS + block * 2u, bitcast<u32>(r.sums.x));
    put_rounded(row * ROUNDED_ROW + AT_SUMS + block * 2u + 1u, bitcast<u32>(r.sums.y));
}
