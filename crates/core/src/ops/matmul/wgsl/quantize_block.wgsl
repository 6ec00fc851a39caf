// A block of 32 elements of a row, quantized to int8: the quants in order, their scale, and the sum of the quants of each half.
// header: defaults
const K: u32 = 64u;
fn x_at(i: u32) -> f32 { return 0.0; }
fn norm_at(i: u32) -> f32 { return 1.0; }
fn divide(a: f32, b: f32) -> f32 { return a / b; }
// header: end

struct Block { quants: array<u32, 8>, scale: f32, sums: vec2<i32> }

fn rounded_block(row: u32, block: u32, factor: f32) -> Block {
    var largest = 0.0;
    var x: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        for (var j = 0u; j < 4u; j++) {
            let at = block * 32u + 4u * i + j;
            x[i][j] = x_at(row * K + at) * factor * norm_at(at);
        }
        let size = abs(x[i]);
        largest = max(largest, max(max(size.x, size.y), max(size.z, size.w)));
    }
    var b: Block;
    var inverse = 0.0;
    b.scale = 0.0;
    // A block of smaller values is quantized to zero, since the inverse of its scale would overflow.
    if largest >= 1e-30 {
        b.scale = divide(largest, 127.0);
        inverse = divide(127.0, largest);
    }
    var sums = vec2<i32>(0);
    for (var i = 0u; i < 8u; i++) {
        let quant = vec4<i32>(round(x[i] * inverse));
        let sum = quant.x + quant.y + quant.z + quant.w;
        sums += select(vec2<i32>(0, sum), vec2<i32>(sum, 0), i < 4u);
        b.quants[i] = pack4xI8(quant);
    }
    b.sums = sums;
    return b;
}

// Word `i` of the block's quants in the order that 4-bit weights need: of every eight, the four even ones before the four odd
// ones.
fn permuted_word(r: Block, i: u32) -> u32 {
    let b = r;
    var quants = b.quants;
    let a = quants[i & 6u] >> (8u * (i & 1u));
    let c = quants[(i & 6u) + 1u] >> (8u * (i & 1u));
    return (a & 0xffu) | ((a >> 8u) & 0xff00u) | ((c & 0xffu) << 16u) | ((c << 8u) & 0xff000000u);
}
