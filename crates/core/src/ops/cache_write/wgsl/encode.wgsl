// Rounds or quantizes a vector to the type of cache kc: the caller fills kc_elements, then all threads call kc_prepare.
// header: defaults
const WG: u32 = 64u;
const kc_KIND: u32 = 1u;
const kc_DIM: u32 = 64u;
const kc_BYTES: u32 = 128u;
fn kc_put(i: u32, word: u32, mask: u32) {}
fn divide(a: f32, b: f32) -> f32 { return a / b; }
fn f16_bits(x: f32) -> u32 { return pack2x16float(vec2<f32>(x, 0.0)); }
// header: end

var<workgroup> kc_elements: array<f32, kc_DIM>;
var<workgroup> kc_scale: array<f32, (kc_DIM + 31u) / 32u>;

fn kc_prepare(lid: u32) {
    workgroupBarrier();
    if kc_KIND == 2u {
        for (var block = lid; block < kc_DIM / 32u; block += WG) {
            var largest = 0.0;
            for (var i = 0u; i < 32u; i++) { largest = max(largest, abs(kc_elements[block * 32u + i])); }
            kc_scale[block] = divide(largest, 127.0);
        }
        workgroupBarrier();
    }
}

// Byte `i` of the vector in q8_0 blocks of 34 bytes.
fn kc_byte(i: u32) -> u32 {
    let scale = kc_scale[i / 34u];
    if i % 34u < 2u { return (f16_bits(scale) >> (8u * (i % 34u))) & 0xffu; }
    if scale == 0.0 { return 0u; }
    let y = kc_elements[i / 34u * 32u + i % 34u - 2u] * divide(1.0, scale);
    // WGSL's `round` takes ties to even; here they go away from zero.
    var code = round(y);
    if abs(y - code) == 0.5 { code = y + 0.5 * sign(y); }
    return u32(i32(clamp(code, -127.0, 127.0))) & 0xffu;
}

// 32-bit word `i` of the encoded vector.
fn kc_encoded(i: u32) -> u32 {
    if kc_KIND == 0u { return bitcast<u32>(kc_elements[i]); }
    if kc_KIND == 1u { return f16_bits(kc_elements[2u * i]) | (f16_bits(kc_elements[2u * i + 1u]) << 16u); }
    var word = 0u;
    for (var b = 0u; b < 4u; b++) {
        if 4u * i + b < kc_BYTES { word |= kc_byte(4u * i + b) << (8u * b); }
    }
    return word;
}

// Stores the vector at byte `at` of the cache. All threads call it.
fn kc_store(at: u32, lid: u32) {
    for (var i = lid; i < (kc_BYTES + 3u) / 4u; i += WG) {
        let word = kc_encoded(i);
        let bytes = min(4u, kc_BYTES - 4u * i);
        if (at & 2u) == 0u {
            kc_put(at / 4u + i, word, select(0xffffffffu, 0xffffu, bytes == 2u));
        } else {
            kc_put(at / 4u + i, word << 16u, 0xffff0000u);
            if bytes == 4u { kc_put(at / 4u + i + 1u, word >> 16u, 0xffffu); }
        }
    }
}
