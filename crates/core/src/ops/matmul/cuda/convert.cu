// Norms activations and converts them to 16 bits, once for all blocks of the matmul that follows. Each thread block converts
// one row and holds it in registers as vectors of eight elements, so that the row is read from memory once.
//
// The output is row-major or, with FRAGMENT_LAYOUT, in the MMA fragment layout that `gemm_skinny.cu` loads (`half.cuh`). In
// that layout the number of rows is padded to a multiple of eight and the number of columns to a multiple of 128, with zeros.
//
// v1: the norm's weight was loaded after the sum of squares. v2: it is loaded before the dependency wait: the 65 launches of a
// tick of 32 sequences of Llama-8B take 82 µs less on an H200.
#ifndef ONETRIP_LAUNCH
#define THREADS 64
#include "defaults.cuh"
#include "operands.cuh"
#define FRAGMENT_LAYOUT 0
#define ROUNDED ((u16*)A.a3)
#include "half.cuh"
#endif

#define WIDTH (FRAGMENT_LAYOUT ? (K + 127) / 128 * 128 : K)
#define HELD ((WIDTH / 8 + THREADS - 1) / THREADS)
KERNEL {
    __shared__ float smem[WARPS];
    const Args A = ARGS;
    allow_next();
    const u32 row = block_index(), rows = ROWS;
    // The norm's weight is loaded before the dependency wait, which then hides the latency; no kernel writes it.
    float4 weight[HELD][2];
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        const bool is_there = NORM && i < K / 8;
        weight[r][0] = is_there ? ((const float4*)NORM_WEIGHT)[i * 2] : make_float4(1, 1, 1, 1);
        weight[r][1] = is_there ? ((const float4*)NORM_WEIGHT)[i * 2 + 1] : make_float4(1, 1, 1, 1);
    }
    wait_for_inputs();
    if (row >= (FRAGMENT_LAYOUT ? (rows + 7) / 8 * 8 : rows)) return;
    const float4* x = (const float4*)(X_IN + (size_t)row * K);
    float4 v[HELD][2];
    float s = 0;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        const bool is_there = i < K / 8 && row < rows;
        v[r][0] = is_there ? x[i * 2] : make_float4(0, 0, 0, 0);
        v[r][1] = is_there ? x[i * 2 + 1] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) s = dot4(v[r][0], v[r][0], dot4(v[r][1], v[r][1], s));
    const float factor = NORM ? 1.0f / sqrtf(block_sum<WARPS>(s, smem) / (float)K + NORM_EPS) : 1.0f;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        if (i >= WIDTH / 8) continue;
        if (NORM && i < K / 8) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float4 g = weight[r][h];
                v[r][h].x = v[r][h].x * factor * g.x, v[r][h].y = v[r][h].y * factor * g.y;
                v[r][h].z = v[r][h].z * factor * g.z, v[r][h].w = v[r][h].w * factor * g.w;
            }
        }
        const float4 a = v[r][0], b = v[r][1];
        if (FRAGMENT_LAYOUT) {
            ((uint4*)ROUNDED)[fragment_index(K, row, i * 8)] = to_fragment(a, b);
        } else {
            ((uint4*)ROUNDED)[(size_t)row * (K / 8) + i] =
                make_uint4(to_half2(a.x, a.y), to_half2(a.z, a.w), to_half2(b.x, b.y), to_half2(b.z, b.w));
        }
    }
}
