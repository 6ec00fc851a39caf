// GEMM of many rows in f32 without tensor cores (SIMT). A block computes a tile of 64 rows of one output by 64 tokens, with all
// products of that output's expression tree.
//
// v1: tiles of both factors, 32 columns at a time, in shared memory; 4 x 4 elements a thread; fused multiply-adds. Products and
//     sums are f32. This kernel is the fallback where a faster one does not apply.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define TILES 76
#define PRODUCT_X X_IN
#include "weights.cuh"
#include "swiglu.cuh"
#endif

// acc = the thread's 4 x 4 elements of rows row0 .. row0 + 64 of a weight of `n` rows times tokens t0 .. t0 + 64 of `rows`.
template <class W>
DEVICE void tile_product(const W w, const float* x, u32 row0, u32 n, u32 t0, u32 rows, float* ws, float* xs, float (&acc)[16]) {
    const u32 tile_row = threadIdx.x / 4, part = (threadIdx.x % 4) * 8;
    const u32 ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
#pragma unroll
    for (int i = 0; i < 16; i++) acc[i] = 0;
    for (u32 k = 0; k < K; k += 32) {
        const u32 e = k + part;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0}, u[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (K % 8 == 0) {
            if (e < K && row0 + tile_row < n) w.load8(row0 + tile_row, e, v);
            if (e < K && t0 + tile_row < rows) {
                const float4* p = (const float4*)(x + (size_t)(t0 + tile_row) * K + e);
                const float4 lo = p[0], hi = p[1];
                u[0] = lo.x, u[1] = lo.y, u[2] = lo.z, u[3] = lo.w;
                u[4] = hi.x, u[5] = hi.y, u[6] = hi.z, u[7] = hi.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (e + i < K && row0 + tile_row < n) v[i] = w.at(row0 + tile_row, e + i);
                if (e + i < K && t0 + tile_row < rows) u[i] = x[(size_t)(t0 + tile_row) * K + e + i];
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            ws[(part + i) * 68 + tile_row] = v[i];
            xs[(part + i) * 68 + tile_row] = u[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const float4 a = *(const float4*)(ws + i * 68 + tx), b = *(const float4*)(xs + i * 68 + ty);
            const float am[4] = {a.x, a.y, a.z, a.w}, bm[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int t = 0; t < 4; t++) {
#pragma unroll
                for (int r = 0; r < 4; r++) acc[t * 4 + r] = fmaf(am[r], bm[t], acc[t * 4 + r]);
            }
        }
    }
}

// Products PLACE .. PRODUCTS of an output.
template <int OUTPUT, int PLACE, int PRODUCTS>
DEVICE void tile_products(const Args& A, u32 row0, u32 t0, u32 rows, float* ws, float* xs, float (&acc)[PRODUCTS][16]) {
    if constexpr (PLACE < PRODUCTS) {
        typedef Problem<OUTPUT, PLACE> P;
        tile_product(P::weight(A), P::x(A), row0, Epilogue<OUTPUT>::WIDTH, t0, rows, ws, xs, acc[PLACE]);
        tile_products<OUTPUT, PLACE + 1>(A, row0, t0, rows, ws, xs, acc);
    }
}

// Computes tile `tile` of outputs OUTPUT .. OUTPUTS, numbered through.
template <int OUTPUT> DEVICE void compute(const Args& A, u32 tile, u32 t0, u32 rows, float* ws, float* xs) {
    if constexpr (OUTPUT < OUTPUTS) {
        typedef Epilogue<OUTPUT> E;
        if (tile >= (E::WIDTH + 63) / 64) {
            compute<OUTPUT + 1>(A, tile - (E::WIDTH + 63) / 64, t0, rows, ws, xs);
            return;
        }
        const u32 row0 = tile * 64;
        float acc[E::PRODUCTS][16];
        tile_products<OUTPUT, 0>(A, row0, t0, rows, ws, xs, acc);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const u32 t = t0 + threadIdx.x / 16 * 4 + i / 4, row = row0 + threadIdx.x % 16 * 4 + i % 4;
            float product[E::PRODUCTS];
#pragma unroll
            for (int p = 0; p < E::PRODUCTS; p++) product[p] = acc[p][i];
            if (t < rows && row < E::WIDTH) E::out(A)[(size_t)t * E::WIDTH + row] = E::value(A, t, row, product);
        }
    }
}

KERNEL {
    __shared__ __align__(16) float ws[32 * 68];
    __shared__ __align__(16) float xs[32 * 68];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 rows = ROWS;
    const u32 tile = block_index() % TILES, t0 = block_index() / TILES * 64;
    if (t0 >= rows) return;
    compute<0>(A, tile, t0, rows, ws, xs);
}
