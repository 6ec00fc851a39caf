// Norm of groups of DIM elements, ROW_THREADS threads (a warp, or the block) each: root mean square, or L2 (L2_NORM 1).
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define DIM 896
#define PER_ROW 1
#define ROW_THREADS 256
#define EPS 1e-6f
#define L2_NORM 0
#define HAS_WEIGHT 1
#define WITH 1
#define X_STRIDE DIM
#define X_PLACE(c) (c)
#define X_IN ((const float*)A.a1)
#define WEIGHT ((const float*)A.a2)
#define OTHER ((const float*)A.a3)
#define SUM_OUT ((float*)A.a4)
#define OUT ((float*)A.a5)
#endif

#define WITH_RESIDUAL 1
#define WITH_GATE 2
#define WITH_SUM 3

KERNEL {
    __shared__ float smem[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 group = (u64)block_index() * (THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    if (group >= (u64)ROWS * PER_ROW) return;
    const u32 lane = threadIdx.x % ROW_THREADS, first = (u32)(group % PER_ROW) * DIM;
    const float* x = X_IN + (size_t)(group / PER_ROW) * X_STRIDE + X_PLACE(first);
    const float* other = OTHER + group * DIM;
    float s = 0;
    for (u32 i = lane; i < DIM; i += ROW_THREADS) {
        const float v = WITH == WITH_SUM ? x[i] + other[i] : x[i];
        s += v * v;
    }
    s = block_sum<ROW_THREADS / 32>(s, smem);
    const float factor = 1.0f / sqrtf((L2_NORM ? s : s / (float)DIM) + EPS);
    for (u32 i = lane; i < DIM; i += ROW_THREADS) {
        float y = WITH == WITH_SUM ? x[i] + other[i] : x[i];
        if (WITH == WITH_SUM) SUM_OUT[group * DIM + i] = y;
        y *= factor;
        if (HAS_WEIGHT) y *= WEIGHT[i];
        if (WITH == WITH_RESIDUAL) y += other[i];
        if (WITH == WITH_GATE) y *= silu(other[i]);
        OUT[group * DIM + i] = y;
    }
}
