// A softmax in parts: of a warp's keys as tensor cores give their scores, and of blocks that meet in memory.
#define LOG2E 1.4426950408889634f
// Positions of a warp at a time.
#define STEP 16
// Floats of a part: the output not yet divided, its maximum and its sum.
#define PARTIAL (DIM + 4)

// Where a softmax with maximum `m` stands, seen from one with maximum `most`, which may have seen nothing.
DEVICE float scale_to(float m, float most) { return exp2_fast(m - (most == -INFINITE ? 0.0f : most)); }

// Maxima and sums of a lane's two heads so far.
struct Softmax {
    float m[2], sum[2];
};
// Over the lanes that have the same heads.
DEVICE float keys_max(float x) {
#pragma unroll
    for (int o = 4; o < 32; o <<= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, o));
    return x;
}
DEVICE float keys_sum(float x) {
#pragma unroll
    for (int o = 4; o < 32; o <<= 1) x += __shfl_xor_sync(FULL, x, o);
    return x;
}
// Weights of STEP keys, of which the first `there` count, at least one: as factors of products with values, two f16 numbers
// each. Their scores are the sums over `s`. `f` is what the output so far is worth from now on.
DEVICE void weigh(const float (&s)[4][4], u32 there, Softmax& of, float (&f)[2], u32 (&high)[2], u32 (&low)[2]) {
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = (s[0][i] + s[1][i]) + (s[2][i] + s[3][i]);
        if (HAS_SOFTCAP) w[i] = (SOFTCAP * LOG2E) * tanh_clamped(w[i] / (SOFTCAP * LOG2E));
        if (lane_index() / 4 + i / 2 * 8 >= there) w[i] = -INFINITE;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float top = fmaxf(of.m[h], keys_max(fmaxf(w[h], w[2 + h])));
        f[h] = exp2_fast(of.m[h] - top);
        of.m[h] = top;
        w[h] = exp2_fast(w[h] - top), w[2 + h] = exp2_fast(w[2 + h] - top);
        of.sum[h] = of.sum[h] * f[h] + (w[h] + w[2 + h]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        split_f16(w[2 * i], w[2 * i + 1], high[i], low[i]);
        high[i] = transposed(high[i]), low[i] = transposed(low[i]);
    }
}

// Four elements from `d` on of a head's `n` parts in memory, `apart` floats from one to the next, and their sums.
DEVICE float4 combine_splits(const float* partial, u32 n, u32 apart, u32 d, float& sum) {
    float top = -INFINITE;
    float4 y = make_float4(0, 0, 0, 0);
    sum = 0;
#pragma unroll 8
    for (u32 c = 0; c < n; c++) top = fmaxf(top, __ldcg(partial + (size_t)c * apart + DIM));
#pragma unroll 8
    for (u32 c = 0; c < n; c++) {
        const float* of = partial + (size_t)c * apart;
        const float f = scale_to(__ldcg(of + DIM), top);
        const float4 x = __ldcg((const float4*)(of + d));
        sum += f * __ldcg(of + DIM + 1);
        y.x = fmaf(f, x.x, y.x), y.y = fmaf(f, x.y, y.y), y.z = fmaf(f, x.z, y.z), y.w = fmaf(f, x.w, y.w);
    }
    return y;
}
