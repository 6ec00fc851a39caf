// A quantized weight w0 [rows, K] in planes, bound as vec4<u32>. w0_BITS: of a quant. w0_GROUP: elements to a scale. w0_ZERO:
// the zero point. w0_HAS_MIN: there is a plane of mins. w0_AT_SCALES, w0_AT_MINS: where these planes begin, in 32-bit words.
// `w0_scale_in(word, i)` is the scale of group i in the word that holds it and its neighbour's, of the format's kind.
// header: defaults
const K: u32 = 64u;
const w0_BITS: u32 = 4u;
const w0_GROUP: u32 = 32u;
const w0_ZERO: f32 = 8.0;
const w0_HAS_MIN: bool = true;
const w0_AT_SCALES: u32 = 8u;
const w0_AT_MINS: u32 = 9u;
@group(0) @binding(0) var<storage, read> w0: array<vec4<u32>>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn w0_scale_in(word: u32, i: u32) -> f32 { return unpack2x16float(word)[i & 1u]; }
// header: end

fn w0_scale(i: u32) -> f32 {
    let word = w0_AT_SCALES + (i >> 1u);
    return w0_scale_in(w0[word >> 2u][word & 3u], i);
}

// The min of group i.
fn w0_min(i: u32) -> f32 {
    let word = w0_AT_MINS + (i >> 1u);
    return unpack2x16float(w0[word >> 2u][word & 3u])[i & 1u];
}

// Dequantizes elements 8i to 8i + 7 of a row.
fn w0_eight(row: u32, i: u32) -> Eight {
    let group = (row * K + i * 8u) / w0_GROUP;
    let scale = w0_scale(group);
    var e: Eight;
    if w0_BITS == 4u {
        let at = row * (K / 8u) + i;
        let word = w0[at >> 2u][at & 3u];
        let low = vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - w0_ZERO;
        let high = vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)) - w0_ZERO;
        e = Eight(vec4<f32>(low.x, high.x, low.y, high.y) * scale, vec4<f32>(low.z, high.z, low.w, high.w) * scale);
    } else {
        let at = row * (K / 4u) + 2u * i;
        let four = w0[at >> 2u];
        let words = select(four.zw, four.xy, (at & 3u) == 0u);
        e = Eight(vec4<f32>(unpack4xI8(words.x)) * scale, vec4<f32>(unpack4xI8(words.y)) * scale);
    }
    if w0_HAS_MIN {
        let group_min = w0_min(group);
        e = Eight(e.a + group_min, e.b + group_min);
    }
    return e;
}

// Dequantizes element c of a row.
fn w0_element(row: u32, c: u32) -> f32 {
    let i = row * K + c;
    var quant: f32;
    if w0_BITS == 4u {
        quant = f32((w0[i >> 5u][(i >> 3u) & 3u] >> (4u * (i & 7u))) & 15u) - w0_ZERO;
    } else {
        quant = f32(extractBits(i32(w0[i >> 4u][(i >> 2u) & 3u]), 8u * (i & 3u), 8u));
    }
    let x = w0_scale(i / w0_GROUP) * quant;
    if w0_HAS_MIN { return x + w0_min(i / w0_GROUP); }
    return x;
}
