// Elements 4i .. 4i + 4 of a vector that begins at byte `at` of the memory that kc_word reads.
// header: defaults
const kc_KIND: u32 = 1u;
fn kc_word(i: u32) -> u32 { return 0u; }
// header: end

fn kc_four(at: u32, i: u32) -> vec4<f32> {
    if kc_KIND == 0u {
        let word = at / 4u + 4u * i;
        return bitcast<vec4<f32>>(vec4<u32>(kc_word(word), kc_word(word + 1u), kc_word(word + 2u), kc_word(word + 3u)));
    }
    if kc_KIND == 1u {
        let word = at / 4u + 2u * i;
        return vec4<f32>(unpack2x16float(kc_word(word)), unpack2x16float(kc_word(word + 1u)));
    }
    // A q8_0 block is an f16 scale and 32 signed bytes; it may begin in the middle of a word.
    let block = at + i / 8u * 34u;
    let scale = unpack2x16float(kc_word(block >> 2u) >> (8u * (block & 2u))).x;
    let code = block + 2u + 4u * (i % 8u);
    var word = kc_word(code >> 2u);
    if (code & 2u) != 0u { word = (word >> 16u) | (kc_word((code >> 2u) + 1u) << 16u); }
    return vec4<f32>(unpack4xI8(word)) * scale;
}
