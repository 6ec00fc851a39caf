// Conversion to the 16-bit types of tensor cores: bf16 (HALF_BF16), or f16, where values out of range become the largest finite
// f16.
DEVICE u16 to_half(float x) {
    if (HALF_BF16) {
        const u32 bits = __float_as_uint(x);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40);
        return (u16)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
    }
    return to_f16(fabsf(x) > 65504.0f ? copysignf(65504.0f, x) : x);
}
DEVICE u32 to_half2(float low, float high) { return (u32)to_half(low) | (u32)to_half(high) << 16; }
DEVICE uint4 to_half8(const float (&v)[8]) {
    return make_uint4(to_half2(v[0], v[1]), to_half2(v[2], v[3]), to_half2(v[4], v[5]), to_half2(v[6], v[7]));
}

// The index of a 16-byte vector (eight columns of a row) in the MMA fragment layout of 16-bit activations, `Role::MmaFragment`.
// Within every eight rows and every 128 columns the order is [4 groups of eight columns][8 rows][4 blocks of 32 columns].
DEVICE u32 fragment_index(u32 width, u32 row, u32 column) {
    const u32 eight = column / 8;
    return (row / 8 * ((width + 127) / 128) + eight / 16) * 128 + eight % 4 * 32 + row % 8 * 4 + eight / 4 % 4;
}
// Eight adjacent elements as one vector of the layout, which pairs elements i and i + 4 in a word.
DEVICE uint4 to_fragment(const float4& a, const float4& b) {
    return make_uint4(to_half2(a.x, b.x), to_half2(a.y, b.y), to_half2(a.z, b.z), to_half2(a.w, b.w));
}
