// Prologue of a matmul of many rows, in one block for each row: applies the norm, and quantizes the row to int8 and dequantizes
// it again. It runs once, so that the tiles of the matmul that share a row do not each repeat it.
//
// v1: two passes over the row, the second from L1.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define NEED_F32 1
#define NEED_INT8 1
#define ROUNDED ((float*)A.a3)
#define NORMED ((float*)A.a4)
#include "weights.cuh"
#endif

KERNEL {
    __shared__ float smem[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 row = block_index();
    if (row >= ROWS) return;
    const float* x = X_IN + (size_t)row * K;
    float factor = 1;
    if (NORM) {
        float s = 0;
        for (u32 i = threadIdx.x; i < K; i += THREADS) s += x[i] * x[i];
        factor = 1.0f / sqrtf(block_sum<WARPS>(s, smem) / (float)K + NORM_EPS);
    }
    for (u32 first = warp_index() * 256; first < K; first += WARPS * 256) {
        const u32 e = first + lane_index() * 8;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = e + i < K ? x[e + i] : 0.0f;
            if (NORM && e + i < K) v[i] = v[i] * factor * NORM_WEIGHT[e + i];
            if (NEED_F32 && e + i < K) NORMED[(size_t)row * K + e + i] = v[i];
        }
        if (NEED_INT8) {
            uint2 quants;
            float d;
            int sum16;
            quantize_int8(v, quants, d, sum16);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const u32 word = i < 4 ? quants.x : quants.y;
                const int quant = (int)(signed char)(word >> (8 * (i % 4)));
                if (e + i < K) ROUNDED[(size_t)row * K + e + i] = d * (float)quant;
            }
        }
    }
}
