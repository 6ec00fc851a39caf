// Epilogue as a kernel of its own, for products that another kernel or a library call left in memory: evaluates the expression
// tree of one output, with four adjacent elements of a row in each thread.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define N 4864
#define OUT ((float*)A.a3)
#include "problems.cuh"
// A product with a residual added.
template <> struct Problem<0, 0> {
    DEVICE static const float* product(const Args& A) { return (const float*)A.a4; }
};
template <> struct Epilogue<0> {
    static constexpr int PRODUCTS = 1;
    DEVICE static float value(const Args& A, u32 t, u32 row, const float* product) {
        return product[0] + ((const float*)A.a5)[(size_t)t * N + row];
    }
};
#endif

// Loads four elements of products PLACE .. PRODUCTS.
template <int PLACE, int PRODUCTS> DEVICE void load(const Args& A, size_t at, float4 (&q)[PRODUCTS]) {
    if constexpr (PLACE < PRODUCTS) {
        q[PLACE] = *(const float4*)(Problem<0, PLACE>::product(A) + at);
        load<PLACE + 1>(A, at, q);
    }
}

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 quad = block_index() * THREADS + threadIdx.x, t = quad / (N / 4);
    if (t >= ROWS) return;
    const size_t at = (size_t)quad * 4;
    const u32 row0 = quad % (N / 4) * 4;
    float4 q[Epilogue<0>::PRODUCTS];
    load<0>(A, at, q);
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 row = row0 + i;
        float product[Epilogue<0>::PRODUCTS];
#pragma unroll
        for (int p = 0; p < Epilogue<0>::PRODUCTS; p++) product[p] = i == 0 ? q[p].x : i == 1 ? q[p].y : i == 2 ? q[p].z : q[p].w;
        v[i] = Epilogue<0>::value(A, t, row, product);
    }
    *(float4*)(OUT + at) = make_float4(v[0], v[1], v[2], v[3]);
}
