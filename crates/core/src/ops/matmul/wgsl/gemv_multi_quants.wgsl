// This lane's partial sums of four rows of weight w0 in planes from row `first`, times each row of quantized activations, in
// blocks of 32 quants as in `gemv_quants.wgsl`. Beyond the last row of the weight, the last row is used again.
//
// Llama-8B's gate and up in Q4_0 on an H200 through Vulkan, 4 rows: 73 us with one row of the weight at a time, 54 us with
// four; 8 rows: 118 and 77.
// header: defaults
const K: u32 = 64u;
const LANES: u32 = 32u;
const ROWS: u32 = 8u;
const AT_PERMUTED: u32 = 0u;
const ROUNDED_ROW: u32 = 24u;
const w0_ROWS: u32 = 64u;
alias Sums = array<vec4<f32>, ROWS>;
const w0_BITS: u32 = 4u;
const w0_GROUP: u32 = 32u;
const w0_ZERO: f32 = 8.0;
const w0_HAS_MIN: bool = true;
@group(0) @binding(0) var<storage, read> w0: array<vec4<u32>>;
fn w0_scale(i: u32) -> f32 { return 1.0; }
fn w0_min(i: u32) -> f32 { return 0.0; }
fn rows() -> u32 { return 1u; }
fn rounded_four(i: u32) -> vec4<u32> { return vec4<u32>(0u); }
fn rounded_scale(t: u32, block: u32) -> f32 { return 1.0; }
fn rounded_sums(t: u32, block: u32) -> vec2<i32> { return vec2<i32>(0); }
// header: end

struct w0_Block { a: vec4<u32>, b: vec4<u32>, scale: vec2<f32>, group_min: vec2<f32> }

fn w0_block(row: u32, block: u32) -> w0_Block {
    var x: w0_Block;
    if w0_BITS == 4u {
        x.a = w0[row * (K / 32u) + block];
    } else {
        x.a = w0[row * (K / 16u) + 2u * block];
        x.b = w0[row * (K / 16u) + 2u * block + 1u];
    }
    let group = (row * K + 32u * block) / w0_GROUP;
    x.scale.x = w0_scale(group);
    if w0_GROUP == 16u { x.scale.y = w0_scale(group + 1u); }
    if w0_HAS_MIN {
        x.group_min.x = w0_min(group);
        if w0_GROUP == 16u { x.group_min.y = w0_min(group + 1u); }
    }
    return x;
}

fn w0_four(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// The weight's scale comes last, as in `gemv_quants.wgsl`; `d` is that of the activations.
fn w0_times(x: w0_Block, q0: vec4<u32>, q1: vec4<u32>, sum: vec2<i32>, d: f32) -> f32 {
    var half: vec2<i32>;
    if w0_BITS == 4u {
        let low = x.a & vec4<u32>(0x0f0f0f0fu);
        let high = (x.a >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
        half = vec2<i32>(
            w0_four(vec4<u32>(low.x, high.x, low.y, high.y), q0), w0_four(vec4<u32>(low.z, high.z, low.w, high.w), q1));
    } else {
        half = vec2<i32>(w0_four(x.a, q0), w0_four(x.b, q1));
    }
    if w0_GROUP == 32u {
        let all = f32(sum.x + sum.y);
        return x.scale.x * (d * (f32(half.x + half.y) - w0_ZERO * all)) + x.group_min.x * (d * all);
    }
    let parts = x.scale * (vec2<f32>(half) - w0_ZERO * vec2<f32>(sum)) + x.group_min * vec2<f32>(sum);
    return d * (parts.x + parts.y);
}

fn dot4_w0(first: u32, lane: u32) -> Sums {
    let row = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(w0_ROWS - 1u));
    var sums: Sums;
    for (var block = lane; block < K / 32u; block += LANES) {
        let a = w0_block(row.x, block);
        let b = w0_block(row.y, block);
        let c = w0_block(row.z, block);
        let d = w0_block(row.w, block);
        for (var t = 0u; t < ROWS; t++) {
            if t < rows() {
                let at = t * (ROUNDED_ROW / 4u) + select(0u, AT_PERMUTED / 4u, w0_BITS == 4u) + 2u * block;
                let q0 = rounded_four(at);
                let q1 = rounded_four(at + 1u);
                var sum = vec2<i32>(0);
                if w0_ZERO != 0.0 || w0_HAS_MIN { sum = rounded_sums(t, block); }
                let y = rounded_scale(t, block);
                sums[t] += vec4<f32>(
                    w0_times(a, q0, q1, sum, y), w0_times(b, q0, q1, sum, y),
                    w0_times(c, q0, q1, sum, y), w0_times(d, q0, q1, sum, y));
            }
        }
    }
    return sums;
}
