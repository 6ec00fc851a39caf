// A quantized weight w0 in planes for `gemm_f16_mma`. `w0_raw` loads the words that hold quants 8i .. 8i + 8 of a row and those
// that hold their scale and min, two f16 in each word; `w0_halves` dequantizes them to f16.
// header: defaults
enable f16;
const K: u32 = 64u;
const w0_AT_SCALES: u32 = 8u;
const w0_AT_MINS: u32 = 9u;
const w0_BITS: u32 = 4u;
const w0_GROUP: u32 = 32u;
const w0_ZERO: f32 = 8.0;
const w0_HAS_MIN: bool = true;
const w0_IN_F16: bool = true;
@group(0) @binding(0) var<storage, read> w0: array<vec4<u32>>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
struct Halves { a: vec4<f16>, b: vec4<f16> }
fn w0_scale_in(word: u32, i: u32) -> f32 { return 1.0; }
fn rounded(e: Eight) -> Halves { return Halves(); }
fn halves(e: Eight) -> Halves { return Halves(); }
// header: end

struct w0_Raw { quants: vec2<u32>, scale: u32, group_min: u32 }

fn w0_raw(row: u32, i: u32) -> w0_Raw {
    let group = (row * K + i * 8u) / w0_GROUP;
    var raw: w0_Raw;
    let word = w0_AT_SCALES + (group >> 1u);
    raw.scale = w0[word >> 2u][word & 3u];
    if w0_HAS_MIN {
        let word = w0_AT_MINS + (group >> 1u);
        raw.group_min = w0[word >> 2u][word & 3u];
    }
    if w0_BITS == 4u {
        let at = row * (K / 8u) + i;
        raw.quants.x = w0[at >> 2u][at & 3u];
    } else {
        let at = row * (K / 4u) + 2u * i;
        raw.quants = vec2<u32>(w0[at >> 2u][at & 3u], w0[at >> 2u][(at & 3u) + 1u]);
    }
    return raw;
}

fn w0_halves(raw: w0_Raw, row: u32, i: u32) -> Halves {
    let group = (row * K + i * 8u) / w0_GROUP;
    let scale = w0_scale_in(raw.scale, group);
    var e: Eight;
    if w0_BITS == 4u {
        let low = vec4<f32>(unpack4xU8(raw.quants.x & 0x0f0f0f0fu)) - w0_ZERO;
        let high = vec4<f32>(unpack4xU8((raw.quants.x >> 4u) & 0x0f0f0f0fu)) - w0_ZERO;
        e = Eight(vec4<f32>(low.x, high.x, low.y, high.y) * scale, vec4<f32>(low.z, high.z, low.w, high.w) * scale);
    } else {
        e = Eight(vec4<f32>(unpack4xI8(raw.quants.x)) * scale, vec4<f32>(unpack4xI8(raw.quants.y)) * scale);
    }
    if w0_HAS_MIN {
        let group_min = unpack2x16float(raw.group_min)[group & 1u];
        e = Eight(e.a + group_min, e.b + group_min);
    }
    // A quant times an f16 scale that is too large for f16 becomes infinite; a power of two is too large more often.
    if w0_IN_F16 { return halves(e); }
    return rounded(e);
}
