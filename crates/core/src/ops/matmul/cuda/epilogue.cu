// Epilogue as a kernel of its own, for products that another kernel or a library call left in memory: evaluates the expression
// tree of one output, with four adjacent elements of a row in each thread.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
// Defaults: gate and up of Qwen2.5-0.5B in Q4_0, many rows, products of a library. LOADS and VALUE: the launch's problems and epilogue, which the builder generates.
#define THREADS 256
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define K 896
#define HALF_BF16 0
#define PRODUCT0 ((const float*)A.a1)
#define PRODUCT1 ((const float*)A.a2)
#define OUT ((float*)A.a3)
#define N 4864
#define VALUE (silu(p0[i]) * p1[i])
#define LOADS const float4 q0 = *(const float4*)(PRODUCT0 + at); \
    const float p0[4] = {q0.x, q0.y, q0.z, q0.w}; \
    const float4 q1 = *(const float4*)(PRODUCT1 + at); \
    const float p1[4] = {q1.x, q1.y, q1.z, q1.w};
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 quad = block_index() * THREADS + threadIdx.x, t = quad / (N / 4);
    if (t >= ROWS) return;
    const size_t at = (size_t)quad * 4;
    const u32 row0 = quad % (N / 4) * 4;
    LOADS
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 row = row0 + i;
        v[i] = VALUE;
    }
    *(float4*)(OUT + at) = make_float4(v[0], v[1], v[2], v[3]);
}
