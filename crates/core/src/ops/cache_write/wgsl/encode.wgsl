// Rounds or quantizes a vector to the type of cache $C: the caller fills $C_elements, then all threads call $C_prepare.
var<workgroup> $C_elements: array<f32, $C_DIM>;
var<workgroup> $C_scale: array<f32, ($C_DIM + 31u) / 32u>;

fn $C_prepare(lid: u32) {
    workgroupBarrier();
    if $C_KIND == 2u {
        for (var block = lid; block < $C_DIM / 32u; block += WG) {
            var largest = 0.0;
            for (var i = 0u; i < 32u; i++) { largest = max(largest, abs($C_elements[block * 32u + i])); }
            $C_scale[block] = divide(largest, 127.0);
        }
        workgroupBarrier();
    }
}

// Byte `i` of the vector in q8_0 blocks of 34 bytes.
fn $C_byte(i: u32) -> u32 {
    let scale = $C_scale[i / 34u];
    if i % 34u < 2u { return (f16_bits(scale) >> (8u * (i % 34u))) & 0xffu; }
    if scale == 0.0 { return 0u; }
    let y = $C_elements[i / 34u * 32u + i % 34u - 2u] * divide(1.0, scale);
    // WGSL's `round` takes ties to even; here they go away from zero.
    var code = round(y);
    if abs(y - code) == 0.5 { code = y + 0.5 * sign(y); }
    return u32(i32(clamp(code, -127.0, 127.0))) & 0xffu;
}

// 32-bit word `i` of the encoded vector.
fn $C_encoded(i: u32) -> u32 {
    if $C_KIND == 0u { return bitcast<u32>($C_elements[i]); }
    if $C_KIND == 1u { return f16_bits($C_elements[2u * i]) | (f16_bits($C_elements[2u * i + 1u]) << 16u); }
    var word = 0u;
    for (var b = 0u; b < 4u; b++) {
        if 4u * i + b < $C_BYTES { word |= $C_byte(4u * i + b) << (8u * b); }
    }
    return word;
}

// Stores the vector at byte `at` of the cache. All threads call it.
fn $C_store(at: u32, lid: u32) {
    for (var i = lid; i < ($C_BYTES + 3u) / 4u; i += WG) {
        let word = $C_encoded(i);
        let bytes = min(4u, $C_BYTES - 4u * i);
        if (at & 2u) == 0u {
            $C_put(at / 4u + i, word, select(0xffffffffu, 0xffffu, bytes == 2u));
        } else {
            $C_put(at / 4u + i, word << 16u, 0xffff0000u);
            if bytes == 4u { $C_put(at / 4u + i + 1u, word >> 16u, 0xffffu); }
        }
    }
}
