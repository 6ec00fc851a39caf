// The prologue of a single row, which every workgroup recomputes into workgroup memory: norm and activation quantization to
// int8, with a lane for each four elements and eight lanes for each block, which they reduce by subgroup shuffles.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const AT_PERMUTED: u32 = 0u;
const AT_SCALES: u32 = 16u;
const NORM: bool = true;
const NATURAL: bool = true;
const PERMUTED: bool = false;
const EPS: f32 = 1e-5;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
fn norm_at(i: u32) -> f32 { return 1.0; }
fn divide(a: f32, b: f32) -> f32 { return a / b; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

var<workgroup> staged_quants: array<vec4<u32>, AT_SCALES / 4u>;
var<workgroup> staged_scale: array<f32, K / 32u>;
var<workgroup> staged_sums: array<vec2<i32>, K / 32u>;

fn stage(lid: u32) {
    var factor = 1.0;
    if NORM {
        var sum = 0.0;
        for (var i = lid; i < K / 4u; i += WG) { sum += dot(x[i], x[i]); }
        factor = divide(1.0, sqrt(workgroup_sum(sum, lid) / f32(K) + EPS));
    }
    // All lanes run the same number of iterations, as the shuffles need. K is a multiple of 32, so lanes beyond the end of the
    // row never share a block with lanes inside.
    for (var from_ = 0u; from_ < K / 4u; from_ += WG) {
        let i = min(from_ + lid, K / 4u - 1u);
        let norm = vec4<f32>(norm_at(4u * i), norm_at(4u * i + 1u), norm_at(4u * i + 2u), norm_at(4u * i + 3u));
        let four = x[i] * factor * norm;
        let size = abs(four);
        var largest = max(max(size.x, size.y), max(size.z, size.w));
        for (var n = 1u; n < 8u; n *= 2u) { largest = max(largest, subgroupShuffleXor(largest, n)); }
        var scale = 0.0;
        var inverse = 0.0;
        // A block of smaller values is quantized to zero, since the inverse of its scale would overflow.
        if largest >= 1e-30 {
            scale = divide(largest, 127.0);
            inverse = divide(127.0, largest);
        }
        let quant = vec4<i32>(round(four * inverse));
        var sum = quant.x + quant.y + quant.z + quant.w;
        sum += subgroupShuffleXor(sum, 1u);
        sum += subgroupShuffleXor(sum, 2u);
        let word = pack4xI8(quant);
        let other = subgroupShuffleXor(word, 1u);
        if from_ + lid < K / 4u {
            if NATURAL { staged_quants[i >> 2u][i & 3u] = word; }
            if PERMUTED {
                // Of every eight quants, the four even ones before the four odd ones.
                let is_even = (i & 1u) == 0u;
                let a = select(other, word, is_even) >> (8u * (i & 1u));
                let b = select(word, other, is_even) >> (8u * (i & 1u));
                let at = AT_PERMUTED + i;
                staged_quants[at >> 2u][at & 3u] =
                    (a & 0xffu) | ((a >> 8u) & 0xff00u) | ((b & 0xffu) << 16u) | ((b << 8u) & 0xff000000u);
            }
            if i % 8u == 0u { staged_scale[i / 8u] = scale; }
            if i % 4u == 0u { staged_sums[i / 8u][(i / 4u) & 1u] = sum; }
        }
    }
    workgroupBarrier();
}

fn rounded_four(i: u32) -> vec4<u32> { return staged_quants[i]; }
fn rounded_scale(t: u32, block: u32) -> f32 { return staged_scale[block]; }
fn rounded_sums(t: u32, block: u32) -> vec2<i32> { return staged_sums[block]; }
