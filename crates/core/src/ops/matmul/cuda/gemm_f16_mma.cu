// GEMM on tensor cores from f16 or bf16 factors with f32 accumulators. A block computes a tile of TILE_N rows of one output by
// TILE_T tokens, with all products of that output's expression tree. STAGES shared-memory stages of COLUMNS columns each are
// filled by cp.async while an earlier stage is multiplied; weights that are not 16-bit are loaded to registers, dequantized
// and stored to the stage instead.
//
// v1: STAGES stages of 32 columns in flight to shared memory (16-bit weights and activations by cp.async; other weights
//     dequantized in registers), eight warps of mma.sync m16n8k16, fragments by plain shared-memory loads: 190 TFLOP/s for
//     2048 tokens of 4096 x 4096 f16 on an H200, where cuBLASLt has 725.
// v2: fragments by ldmatrix (1.2 times as fast), 64 columns a stage instead of 32 (1.1), two blocks an SM (1.2; with quantized
//     weights 1.3 to 1.4): 300 TFLOP/s. More than two stages bring nothing; tiles of 256 tokens help only quantized weights
//     with long rows.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define TILE_T 128
#define TILE_N 64
#define STAGES 2
#define COLUMNS 64
#define TILES 76
#define X_HALF ((const u16*)A.a3)
#define PRODUCT_X X_HALF
#include "weights.cuh"
#include "half.cuh"
#include "swiglu.cuh"
#endif

// WARPS_T warps share the tokens of a tile and WARPS_N warps its rows. A warp computes SQUARES_T x SQUARES_N mma tiles of 16
// tokens and 8 rows.
#define WARPS_T 4
#define WARPS_N 2
#define SQUARES_T (TILE_T / WARPS_T / 16)
#define SQUARES_N (TILE_N / WARPS_N / 8)

// Row stride of a stage in 16-bit elements. The padding of 8 makes the eight rows of an ldmatrix 8 x 8 matrix fall into 32
// different banks, so that there is no bank conflict.
#define ROW (COLUMNS + 8)
#define X_WORDS (TILE_T * ROW / 2)
#define STAGE_WORDS ((TILE_T + TILE_N) * ROW / 2)

// The accumulators that a thread holds of a tile, in the mma C fragment layout; `element_t` and `element_n` give the token and
// the row within the tile of element i of an mma tile.
struct Sums {
    float at[SQUARES_T][SQUARES_N][4];
};
DEVICE u32 element_t(int a, int i) {
    return warp_index() / WARPS_N * (TILE_T / WARPS_T) + a * 16 + lane_index() / 4 + i / 2 * 8;
}
DEVICE u32 element_n(int b, int i) {
    return warp_index() % WARPS_N * (TILE_N / WARPS_N) + b * 8 + lane_index() % 4 * 2 + i % 2;
}
#define EACH_ELEMENT \
    _Pragma("unroll") for (int a = 0; a < SQUARES_T; a++) _Pragma("unroll") for (int b = 0; b < SQUARES_N; b++) \
        _Pragma("unroll") for (int i = 0; i < 4; i++)

// A stage is copied in 16-byte vectors of eight elements: vectors in a row, and vectors that a thread copies of the weights (N)
// and of the activations (T).
#define VECTORS_ROW (COLUMNS / 8)
#define VECTORS_N (TILE_N * VECTORS_ROW / THREADS)
#define VECTORS_T (TILE_T * VECTORS_ROW / THREADS)

// Copies eight elements from column k of a row to shared memory, or stores zeros beyond the end of the row.
DEVICE void bring(u32* to, const u16* row, u32 k) {
    if (K % COLUMNS == 0 || k < K) {
        cp_async16(to, row + k);
    } else {
        *(uint4*)to = make_uint4(0, 0, 0, 0);
    }
}

// A weight that is stored in the 16-bit type of the mma: cp.async copies it straight to the stage.
struct Direct {
    const u16* data;
    struct Held {};
    DEVICE void begin(Held&, u32* to, u32 row0, u32 n, u32 k) const {
#pragma unroll
        for (int i = 0; i < VECTORS_N; i++) {
            const u32 vector = i * THREADS + threadIdx.x, tile_row = vector / VECTORS_ROW, e = vector % VECTORS_ROW * 8;
            bring(to + (tile_row * ROW + e) / 2, data + (size_t)min(row0 + tile_row, n - 1) * K, k + e);
        }
    }
    DEVICE void end(const Held&, u32*) const {}
};
// Any other weight: `begin` loads and dequantizes it into registers before the current stage is multiplied, and `end` stores it
// to shared memory afterwards.
template <class W> struct Dequantized {
    W w;
    struct Held {
        uint4 vector[VECTORS_N];
    };
    DEVICE void begin(Held& held, u32*, u32 row0, u32 n, u32 k) const {
#pragma unroll
        for (int i = 0; i < VECTORS_N; i++) {
            const u32 vector = i * THREADS + threadIdx.x, tile_row = vector / VECTORS_ROW, e = vector % VECTORS_ROW * 8;
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (K % COLUMNS == 0 || k + e < K) w.load8(min(row0 + tile_row, n - 1), k + e, v);
            held.vector[i] = to_half8(v);
        }
    }
    DEVICE void end(const Held& held, u32* to) const {
#pragma unroll
        for (int i = 0; i < VECTORS_N; i++) {
            const u32 vector = i * THREADS + threadIdx.x, tile_row = vector / VECTORS_ROW, e = vector % VECTORS_ROW * 8;
            *(uint4*)(to + (tile_row * ROW + e) / 2) = held.vector[i];
        }
    }
};
DEVICE Direct staged(const u16* data) { return Direct{data}; }
template <class W> DEVICE Dequantized<W> staged(const W& w) { return Dequantized<W>{w}; }

DEVICE void begin_x(const u16* x, u32* to, u32 t0, u32 rows, u32 k) {
#pragma unroll
    for (int i = 0; i < VECTORS_T; i++) {
        const u32 vector = i * THREADS + threadIdx.x, tile_row = vector / VECTORS_ROW, e = vector % VECTORS_ROW * 8;
        bring(to + (tile_row * ROW + e) / 2, x + (size_t)min(t0 + tile_row, rows - 1) * K, k + e);
    }
}

// sums += the products over the columns of a stage.
DEVICE void multiply(const u32* xs, const u32* ws, Sums& sums) {
    // ldmatrix.x4 loads four 8 x 8 matrices, and each lane passes the address of one of their 32 rows. For activations the four
    // matrices cover 16 tokens and 16 columns, for weights 16 rows and 16 columns.
    const u32 lane = lane_index();
    xs += ((warp_index() / WARPS_N * (TILE_T / WARPS_T) + lane % 16) * ROW + lane / 16 * 8) / 2;
    ws += ((warp_index() % WARPS_N * (TILE_N / WARPS_N) + lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8) / 2;
#pragma unroll
    for (int k = 0; k < COLUMNS / 2; k += 8) {
        u32 x[SQUARES_T][4], w[SQUARES_N][2];
#pragma unroll
        for (int a = 0; a < SQUARES_T; a++) load_squares(x[a], xs + a * 16 * (ROW / 2) + k);
#pragma unroll
        for (int b = 0; b < SQUARES_N; b += 2) {
            u32 both[4];
            load_squares(both, ws + b * 8 * (ROW / 2) + k);
            w[b][0] = both[0], w[b][1] = both[1], w[b + 1][0] = both[2], w[b + 1][1] = both[3];
        }
#pragma unroll
        for (int a = 0; a < SQUARES_T; a++) {
#pragma unroll
            for (int b = 0; b < SQUARES_N; b++) {
                if (HALF_BF16) {
                    mma_bf16(sums.at[a][b], x[a], w[b]);
                } else {
                    mma_f16(sums.at[a][b], x[a], w[b]);
                }
            }
        }
    }
}

// sums = rows row0 .. row0 + TILE_N of a weight of `n` rows times tokens t0 .. t0 + TILE_T of `rows`.
template <class W>
DEVICE void product(const W& w, const u16* x, u32 row0, u32 n, u32 t0, u32 rows, u32* smem, Sums& sums) {
    const u32 steps = (K + COLUMNS - 1) / COLUMNS;
    typename W::Held held;
    EACH_ELEMENT sums.at[a][b][i] = 0;
#pragma unroll
    for (u32 s = 0; s < STAGES - 1; s++) {
        u32* stage = smem + s * STAGE_WORDS;
        if (s < steps) {
            begin_x(x, stage, t0, rows, s * COLUMNS);
            w.begin(held, stage + X_WORDS, row0, n, s * COLUMNS);
            w.end(held, stage + X_WORDS);
        }
        cp_async_commit();
    }
    for (u32 s = 0; s < steps; s++) {
        cp_async_wait<STAGES - 2>();
        // After this barrier, every thread's copies to stage s have arrived, and no warp reads stage s - 1 any more: its memory
        // is refilled next.
        __syncthreads();
        const u32 next = s + STAGES - 1;
        u32* stage = smem + next % STAGES * STAGE_WORDS;
        if (next < steps) {
            begin_x(x, stage, t0, rows, next * COLUMNS);
            w.begin(held, stage + X_WORDS, row0, n, next * COLUMNS);
        }
        cp_async_commit();
        const u32* here = smem + s % STAGES * STAGE_WORDS;
        multiply(here, here + X_WORDS, sums);
        if (next < steps) w.end(held, stage + X_WORDS);
    }
    cp_async_wait<0>();
    __syncthreads();
}

// Products PLACE .. PRODUCTS of an output.
template <int OUTPUT, int PLACE, int PRODUCTS>
DEVICE void products(const Args& A, u32 row0, u32 t0, u32 rows, u32* smem, Sums (&sums)[PRODUCTS]) {
    if constexpr (PLACE < PRODUCTS) {
        typedef Problem<OUTPUT, PLACE> P;
        product(staged(P::weight(A)), P::x(A), row0, Epilogue<OUTPUT>::WIDTH, t0, rows, smem, sums[PLACE]);
        products<OUTPUT, PLACE + 1>(A, row0, t0, rows, smem, sums);
    }
}

// Computes tile `tile` of outputs OUTPUT .. OUTPUTS, numbered through.
template <int OUTPUT> DEVICE void compute(const Args& A, u32 tile, u32 t0, u32 rows, u32* smem) {
    if constexpr (OUTPUT < OUTPUTS) {
        typedef Epilogue<OUTPUT> E;
        constexpr u32 N = E::WIDTH, HERE = (N + TILE_N - 1) / TILE_N;
        if (tile >= HERE) {
            compute<OUTPUT + 1>(A, tile - HERE, t0, rows, smem);
            return;
        }
        const u32 row0 = tile * TILE_N;
        Sums sums[E::PRODUCTS];
        products<OUTPUT, 0>(A, row0, t0, rows, smem, sums);
        EACH_ELEMENT {
            const u32 t = t0 + element_t(a, i), row = row0 + element_n(b, i);
            float product[E::PRODUCTS];
#pragma unroll
            for (int p = 0; p < E::PRODUCTS; p++) product[p] = sums[p].at[a][b][i];
            if (t < rows && row < N) E::out(A)[(size_t)t * N + row] = E::value(A, t, row, product);
        }
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 rows = ROWS, along = (rows + TILE_T - 1) / TILE_T;
    // Adjacent blocks share a tile of weights, so that those that load it later can find it in L2.
    const u32 tile = block_index() / along, t0 = block_index() % along * TILE_T;
    if (tile >= TILES) return;
    u32* smem = (u32*)dynamic;
    compute<0>(A, tile, t0, rows, smem);
}
