// Reads rows of activations that the prologue launch quantized to int8 (prologue.wgsl): words of quants, a scale for every 32
// elements, and the sums of the quants of its halves.
// header: defaults
const AT_SCALES: u32 = 16u;
const AT_SUMS: u32 = 20u;
const ROUNDED_ROW: u32 = 24u;
@group(0) @binding(0) var<storage, read> rounded: array<vec4<u32>>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
// header: end

fn rounded_four(i: u32) -> vec4<u32> { return rounded[i]; }
fn rounded_scale(t: u32, block: u32) -> f32 {
    return bitcast<f32>(rounded[t * (ROUNDED_ROW / 4u) + AT_SCALES / 4u + (block >> 2u)][block & 3u]);
}

fn rounded_sums(t: u32, block: u32) -> vec2<i32> {
    let four = bitcast<vec4<i32>>(rounded[t * (ROUNDED_ROW / 4u) + AT_SUMS / 4u + ((2u * block) >> 2u)]);
    return select(four.xy, four.zw, (block & 1u) == 1u);
}

fn rounded_words(t: u32, i: u32) -> vec2<u32> {
    let four = rounded[t * (ROUNDED_ROW / 4u) + ((2u * i) >> 2u)];
    return select(four.xy, four.zw, (i & 1u) == 1u);
}

fn rounded_eight(t: u32, i: u32) -> Eight {
    let words = rounded_words(t, i);
    let scale = rounded_scale(t, i >> 2u);
    return Eight(vec4<f32>(unpack4xI8(words.x)) * scale, vec4<f32>(unpack4xI8(words.y)) * scale);
}
