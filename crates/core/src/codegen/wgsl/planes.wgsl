// A quantized weight $W [rows, K] in planes, bound as vec4<u32>. $W_BITS: of a quant. $W_GROUP: elements to a scale. $W_ZERO:
// the zero point. $W_HAS_MIN: there is a plane of mins. $W_AT_SCALES, $W_AT_MINS: where these planes begin, in 32-bit words.
// `$W_scale_in(word, i)` is the scale of group i in the word that holds it and its neighbour's, of the format's kind.
fn $W_scale(i: u32) -> f32 {
    let word = $W_AT_SCALES + (i >> 1u);
    return $W_scale_in($W[word >> 2u][word & 3u], i);
}

// The min of group i.
fn $W_min(i: u32) -> f32 {
    let word = $W_AT_MINS + (i >> 1u);
    return unpack2x16float($W[word >> 2u][word & 3u])[i & 1u];
}

// Dequantizes elements 8i to 8i + 7 of a row.
fn $W_eight(row: u32, i: u32) -> Eight {
    let group = (row * K + i * 8u) / $W_GROUP;
    let scale = $W_scale(group);
    var e: Eight;
    if $W_BITS == 4u {
        let at = row * (K / 8u) + i;
        let word = $W[at >> 2u][at & 3u];
        let low = vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - $W_ZERO;
        let high = vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)) - $W_ZERO;
        e = Eight(vec4<f32>(low.x, high.x, low.y, high.y) * scale, vec4<f32>(low.z, high.z, low.w, high.w) * scale);
    } else {
        let at = row * (K / 4u) + 2u * i;
        let four = $W[at >> 2u];
        let words = select(four.zw, four.xy, (at & 3u) == 0u);
        e = Eight(vec4<f32>(unpack4xI8(words.x)) * scale, vec4<f32>(unpack4xI8(words.y)) * scale);
    }
    if $W_HAS_MIN {
        let group_min = $W_min(group);
        e = Eight(e.a + group_min, e.b + group_min);
    }
    return e;
}

// Dequantizes element c of a row.
fn $W_element(row: u32, c: u32) -> f32 {
    let i = row * K + c;
    var quant: f32;
    if $W_BITS == 4u {
        quant = f32(($W[i >> 5u][(i >> 3u) & 3u] >> (4u * (i & 7u))) & 15u) - $W_ZERO;
    } else {
        quant = f32(extractBits(i32($W[i >> 4u][(i >> 2u) & 3u]), 8u * (i & 3u), 8u));
    }
    let x = $W_scale(i / $W_GROUP) * quant;
    if $W_HAS_MIN { return x + $W_min(i / $W_GROUP); }
    return x;
}
