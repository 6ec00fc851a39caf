// Activation quantization for `gemm_int8_mma.cu`: norms 2 to 8 rows and quantizes them to int8, in the fragment layout of its
// mma instructions. There is one thread block for each of 8 tokens; tokens beyond the last are zeros.
//
// The B fragment of each block of 32 elements is 64 adjacent words, two for each lane: lane 4 * token + i holds eight elements
// of that token. Which elements these are depends on the weight, because both factors of an mma must agree on their order
// along K:
// - `EO`, for 4-bit weights, whose words hold eight adjacent quants: of elements 8 * i .. 8 * i + 8, the four even ones, then
//   the four odd ones.
// - `Q`, for 8-bit weights: elements 4 * i .. 4 * i + 4 of the first half of the block, then the same four of the second half.
// `META` holds META_WORDS floats for each block and token: the scale, `scale * sum of the quants`, and, where a weight has
// groups of 16, that sum for each half of the block.
//
// v1: tiles for any number of tokens. v2: one tile, as more than 8 rows are converted to 16 bits instead.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#include "operands.cuh"
#define HELD 1
#define NEED_Q 1
#define NEED_EO 1
#define META_WORDS 2
#define Q ((u32*)A.a3)
#define EO ((u32*)A.a4)
#define META ((float*)A.a5)
#include "weights.cuh"
#endif

KERNEL {
    __shared__ float smem[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 t = block_index(), rows = ROWS;
    if (t >= 8) return;
    const float* x = X_IN + (size_t)t * K;
    const u32 lane = t * 4;
    float v[HELD][8], squares = 0;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 e = (r * WARPS + warp_index()) * 256 + lane_index() * 8;
        float4 lo = make_float4(0, 0, 0, 0), hi = lo;
        if (e < K && t < rows) lo = *(const float4*)(x + e), hi = *(const float4*)(x + e + 4);
        v[r][0] = lo.x, v[r][1] = lo.y, v[r][2] = lo.z, v[r][3] = lo.w;
        v[r][4] = hi.x, v[r][5] = hi.y, v[r][6] = hi.z, v[r][7] = hi.w;
        if (NORM) squares = dot4(lo, lo, dot4(hi, hi, squares));
    }
    const float factor = NORM ? 1.0f / sqrtf(block_sum<WARPS>(squares, smem) / (float)K + NORM_EPS) : 1.0f;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 first = (r * WARPS + warp_index()) * 256, e = first + lane_index() * 8;
        if (first >= K) break;
        if (NORM && e < K) {
            const float4 lo = *(const float4*)(NORM_WEIGHT + e), hi = *(const float4*)(NORM_WEIGHT + e + 4);
            const float g[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
            for (int i = 0; i < 8; i++) v[r][i] = v[r][i] * factor * g[i];
        }
        uint2 quants;
        float d;
        int sum16;
        quantize_int8(v[r], quants, d, sum16);
        const float sum = d * (float)sum16, other = __shfl_xor_sync(FULL, sum, 2);
        if (e >= K) continue;
        const u32 part = e / 8 % 4;
        const size_t block = e / 32, at = block * 64;
        if (NEED_EO) {
            *(uint2*)(EO + at + (lane + part) * 2) =
                make_uint2(__byte_perm(quants.x, quants.y, 0x6420), __byte_perm(quants.x, quants.y, 0x7531));
        }
        if (NEED_Q) {
            u32* to = Q + at + (lane + part % 2 * 2) * 2 + part / 2;
            to[0] = quants.x, to[2] = quants.y;
        }
        float* meta = META + (block * 8 + t) * META_WORDS;
        if (part == 0) meta[0] = d, meta[1] = sum + other;
        if (part == 0 && META_WORDS == 4) meta[2] = sum, meta[3] = other;
    }
}
