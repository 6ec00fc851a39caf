// A quantized weight $W in planes for `gemm_f16_mma`. `$W_raw` loads the words that hold quants 8i .. 8i + 8 of a row and those
// that hold their scale and min, two f16 in each word; `$W_halves` dequantizes them to f16.
struct $W_Raw { quants: vec2<u32>, scale: u32, group_min: u32 }

fn $W_raw(row: u32, i: u32) -> $W_Raw {
    let group = (row * K + i * 8u) / $W_GROUP;
    var raw: $W_Raw;
    let word = $W_AT_SCALES + (group >> 1u);
    raw.scale = $W[word >> 2u][word & 3u];
    if $W_HAS_MIN {
        let word = $W_AT_MINS + (group >> 1u);
        raw.group_min = $W[word >> 2u][word & 3u];
    }
    if $W_BITS == 4u {
        let at = row * (K / 8u) + i;
        raw.quants.x = $W[at >> 2u][at & 3u];
    } else {
        let at = row * (K / 4u) + 2u * i;
        raw.quants = vec2<u32>($W[at >> 2u][at & 3u], $W[at >> 2u][(at & 3u) + 1u]);
    }
    return raw;
}

fn $W_halves(raw: $W_Raw, row: u32, i: u32) -> Halves {
    let group = (row * K + i * 8u) / $W_GROUP;
    let scale = $W_scale_in(raw.scale, group);
    var e: Eight;
    if $W_BITS == 4u {
        let low = vec4<f32>(unpack4xU8(raw.quants.x & 0x0f0f0f0fu)) - $W_ZERO;
        let high = vec4<f32>(unpack4xU8((raw.quants.x >> 4u) & 0x0f0f0f0fu)) - $W_ZERO;
        e = Eight(vec4<f32>(low.x, high.x, low.y, high.y) * scale, vec4<f32>(low.z, high.z, low.w, high.w) * scale);
    } else {
        e = Eight(vec4<f32>(unpack4xI8(raw.quants.x)) * scale, vec4<f32>(unpack4xI8(raw.quants.y)) * scale);
    }
    if $W_HAS_MIN {
        let group_min = unpack2x16float(raw.group_min)[group & 1u];
        e = Eight(e.a + group_min, e.b + group_min);
    }
    // A quant times an f16 scale that is too large for f16 becomes infinite; a power of two is too large more often.
    if $W_IN_F16 { return halves(e); }
    return rounded(e);
}
