// This lane's partial sums of one row of weight w0 in planes times each row of quantized activations, in blocks of 32 quants.
// With a scale s and a min m for each group of a weight's quants c, and a scale d for a block of an activation's quants q,
// dot(s (c - zero) + m, d q) = d (s (dot(c, q) - zero sum(q)) + m sum(q)).
// header: defaults
const K: u32 = 64u;
const LANES: u32 = 32u;
const ROWS: u32 = 1u;
const AT_PERMUTED: u32 = 0u;
const ROUNDED_ROW: u32 = 24u;
alias Sums = array<f32, ROWS>;
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

fn dot_w0(row: u32, lane: u32) -> Sums {
    var sums: Sums;
    // The number of iterations is a constant, so that the compiler can unroll the loop and issue the loads of several
    // iterations together.
    for (var turn = 0u; turn < (K / 32u + LANES - 1u) / LANES; turn++) {
        let block = turn * LANES + lane;
        if (K / 32u) % LANES != 0u && block >= K / 32u { break; }
        var c: array<vec4<u32>, 2>;
        if w0_BITS == 4u {
            c[0] = w0[row * (K / 32u) + block];
        } else {
            c[0] = w0[row * (K / 16u) + 2u * block];
            c[1] = w0[row * (K / 16u) + 2u * block + 1u];
        }
        var scale: array<f32, 2>;
        var group_min: array<f32, 2>;
        for (var g = 0u; g < 32u / w0_GROUP; g++) {
            let group = (row * K + 32u * block) / w0_GROUP + g;
            scale[g] = w0_scale(group);
            if w0_HAS_MIN { group_min[g] = w0_min(group); }
        }
        for (var t = 0u; t < ROWS; t++) {
            if ROWS == 1u || t < rows() {
                let at = t * (ROUNDED_ROW / 4u) + 2u * block;
                var half: array<i32, 2>;
                if w0_BITS == 4u {
                    let q0 = rounded_four(at + AT_PERMUTED / 4u);
                    let q1 = rounded_four(at + AT_PERMUTED / 4u + 1u);
                    let low = c[0] & vec4<u32>(0x0f0f0f0fu);
                    let high = (c[0] >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
                    half[0] = dot4I8Packed(low.x, q0.x) + dot4I8Packed(high.x, q0.y) + dot4I8Packed(low.y, q0.z) + dot4I8Packed(high.y, q0.w);
                    half[1] = dot4I8Packed(low.z, q1.x) + dot4I8Packed(high.z, q1.y) + dot4I8Packed(low.w, q1.z) + dot4I8Packed(high.w, q1.w);
                } else {
                    for (var h = 0u; h < 2u; h++) {
                        let q = rounded_four(at + h);
                        half[h] = dot4I8Packed(c[h].x, q.x) + dot4I8Packed(c[h].y, q.y) + dot4I8Packed(c[h].z, q.z) + dot4I8Packed(c[h].w, q.w);
                    }
                }
                var sum = vec2<i32>(0);
                if w0_ZERO != 0.0 || w0_HAS_MIN { sum = rounded_sums(t, block); }
                // The weight's scale comes last: a power of two may be so large that it times a sum of integers alone is infinite.
                let d = rounded_scale(t, block);
                if w0_GROUP == 32u {
                    sums[t] += scale[0] * (d * (f32(half[0] + half[1]) - w0_ZERO * f32(sum.x + sum.y)));
                    if w0_HAS_MIN { sums[t] += group_min[0] * (d * f32(sum.x + sum.y)); }
                } else {
                    var y = scale[0] * (f32(half[0]) - w0_ZERO * f32(sum.x)) + scale[1] * (f32(half[1]) - w0_ZERO * f32(sum.y));
                    if w0_HAS_MIN { y += group_min[0] * f32(sum.x) + group_min[1] * f32(sum.y); }
                    sums[t] += y * d;
                }
            }
        }
    }
    return sums;
}
