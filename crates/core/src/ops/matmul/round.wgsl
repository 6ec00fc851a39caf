// The prologue as a dispatch of its own, one workgroup a row: norm, and rounding to int8 in blocks of 32.
//
// x_at, norm_at: activations [T][K] and the norm's weight; NORM, EPS. FLOATS: writes the normed row to `floats`.
// ROUNDED: writes rows of ROUNDED_ROW words to `rounded`: the codes in order (where NATURAL), the codes of every eight as
// four even and four odd ones (where PERMUTED, for codes of 4 bits), a scale for 32, and the sums of every 16 codes.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = wid.x + wid.y * nwg.x;
    if row >= rows() { return; }
    var factor = 1.0;
    if NORM {
        var sum = 0.0;
        for (var i = lid; i < K; i += WG) { let x = x_at(row * K + i); sum += x * x; }
        factor = divide(1.0, sqrt(workgroup_sum(sum, lid) / f32(K) + EPS));
    }
    if FLOATS {
        for (var i = lid; i < K; i += WG) { put_float(row * K + i, x_at(row * K + i) * factor * norm_at(i)); }
    }
    if ROUNDED {
        for (var block = lid; block < K / 32u; block += WG) { round_block(row, block, factor); }
    }
}

fn round_block(row: u32, block: u32, factor: f32) {
    var largest = 0.0;
    var x: array<f32, 32>;
    for (var i = 0u; i < 32u; i++) {
        let at = block * 32u + i;
        x[i] = x_at(row * K + at) * factor * norm_at(at);
        largest = max(largest, abs(x[i]));
    }
    var inverse = 0.0;
    var scale = 0.0;
    // Below this a block counts as zero: the inverse would overflow.
    if largest >= 1e-30 {
        scale = divide(largest, 127.0);
        inverse = divide(127.0, largest);
    }
    var words: array<u32, 8>;
    for (var half = 0u; half < 2u; half++) {
        var sum = 0;
        for (var i = 0u; i < 4u; i++) {
            let at = half * 16u + i * 4u;
            let code = vec4<i32>(round(vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]) * inverse));
            sum += code.x + code.y + code.z + code.w;
            words[half * 4u + i] = pack4xI8(code);
        }
        put_rounded(row * ROUNDED_ROW + AT_SUMS + block * 2u + half, bitcast<u32>(sum));
    }
    put_rounded(row * ROUNDED_ROW + AT_SCALES + block, bitcast<u32>(scale));
    for (var i = 0u; i < 4u; i++) {
        let a = words[2u * i];
        let b = words[2u * i + 1u];
        if NATURAL {
            put_rounded(row * ROUNDED_ROW + block * 8u + 2u * i, a);
            put_rounded(row * ROUNDED_ROW + block * 8u + 2u * i + 1u, b);
        }
        if PERMUTED {
            let at = row * ROUNDED_ROW + AT_PERMUTED + block * 8u + 2u * i;
            put_rounded(at, (a & 0xffu) | ((a >> 8u) & 0xff00u) | ((b & 0xffu) << 16u) | ((b << 8u) & 0xff000000u));
            put_rounded(at + 1u, ((a >> 8u) & 0xffu) | ((a >> 16u) & 0xff00u) | ((b << 8u) & 0xff0000u) | (b & 0xff000000u));
        }
    }
}
