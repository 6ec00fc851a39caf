// The prologue of a single row, which every workgroup recomputes into workgroup memory: norm and activation quantization to
// int8, with a thread for each block of 32 elements.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const AT_PERMUTED: u32 = 0u;
const AT_SCALES: u32 = 16u;
const NORM: bool = true;
const NATURAL: bool = true;
const PERMUTED: bool = false;
const EPS: f32 = 1e-5;
fn x_at(i: u32) -> f32 { return 0.0; }
struct Block { quants: array<u32, 8>, scale: f32, sums: vec2<i32> }
fn rounded_block(row: u32, block: u32, factor: f32) -> Block { return Block(); }
fn permuted_word(r: Block, i: u32) -> u32 { return 0u; }
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
        for (var i = lid; i < K; i += WG) { let x = x_at(i); sum += x * x; }
        factor = divide(1.0, sqrt(workgroup_sum(sum, lid) / f32(K) + EPS));
    }
    for (var block = lid; block < K / 32u; block += WG) {
        let r = rounded_block(0u, block, factor);
        var quants = r.quants;
        if NATURAL {
            staged_quants[2u * block] = vec4<u32>(quants[0], quants[1], quants[2], quants[3]);
            staged_quants[2u * block + 1u] = vec4<u32>(quants[4], quants[5], quants[6], quants[7]);
        }
        if PERMUTED {
            let at = AT_PERMUTED / 4u + 2u * block;
            for (var h = 0u; h < 2u; h++) {
                let i = 4u * h;
                staged_quants[at + h] = vec4<u32>(
                    permuted_word(r, i), permuted_word(r, i + 1u), permuted_word(r, i + 2u), permuted_word(r, i + 3u));
            }
        }
        staged_scale[block] = r.scale;
        staged_sums[block] = r.sums;
    }
    workgroupBarrier();
}

fn rounded_four(i: u32) -> vec4<u32> { return staged_quants[i]; }
fn rounded_scale(t: u32, block: u32) -> f32 { return staged_scale[block]; }
fn rounded_sums(t: u32, block: u32) -> vec2<i32> { return staged_sums[block]; }
