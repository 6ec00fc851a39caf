// Multi-row GEMV: matmul of up to 8 rows that share one pass over the weights (planes, or floats as stored).
//
// A block first stages the activations of its tokens in shared memory; the norm and the activation quantization happen on the
// way there. Its warps then compute units. A unit is UNIT_ROWS rows of one output, with all products of that output's
// expression tree. Where there are fewer rows than warps, K_WARPS warps share a unit and slice K (sliced-K). Each block owns
// adjacent units and prefetches their weights to L2 before the dependency wait, since no kernel writes weights.
//
// v1: 16-byte loads, int8 dot products for planes, the block's range of weights prefetched to L2 before the dependency wait.
// v2: with one token, its row is read once and stays in registers from the norm to the quantization; after each chunk is
//     consumed, the next load into its registers is issued; the first loads of all products of a unit are issued together;
//     narrow matrices have 32 warps a block.
#ifndef ONETRIP_LAUNCH
// Defaults: gate and up of Qwen2.5-0.5B in Q4_0, up to 8 rows, f32 activations. UNIT_*: the launch's problems and epilogue, which the builder generates.
#define THREADS 512
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define K 896
#define X_IN ((const float*)A.a1)
#define NORM 1
#define NORM_EPS 1e-6f
#define NORM_WEIGHT ((const float*)A.a2)
#define W0 Planes<4, 32, 8, false, ScaleF16, false>{(const u8*)A.a3 + 0, (const u8*)A.a3 + 2179072, (const u8*)A.a3 + 0}
#define W1 Planes<4, 32, 8, false, ScaleF16, false>{(const u8*)A.a4 + 0, (const u8*)A.a4 + 2179072, (const u8*)A.a4 + 0}
#define OUT0 ((float*)A.a5)
#define UNIT_ROWS 1
#define K_WARPS 1
#define UNROLL 1
#define UNITS 4864
#define GRID_BLOCKS 132
#define MOST_TOKENS 8
#define MOST_PRODUCTS 2
#define ACTIVATIONS_AT 512
#define NEED_F32 1
#define NEED_Q 0
#define NEED_EO 0
#define UNIT_PRODUCTS if (unit < 4864u) { \
    const u32 row = (unit - 0u) * UNIT_ROWS; \
    auto b0 = begin_rows(W0, row, 4864u, k_warp); \
    auto b1 = begin_rows(W1, row, 4864u, k_warp); \
    { float acc[UNIT_ROWS][N]; dot_rows<N>(W0, b0, x, row, 4864u, k_warp, acc); sums[0] = collect<N>(acc); } \
    { float acc[UNIT_ROWS][N]; dot_rows<N>(W1, b1, x, row, 4864u, k_warp, acc); sums[1] = collect<N>(acc); } \
    }
#define UNIT_OUTPUTS if (unit < 4864u) { const u32 row = (unit - 0u) * UNIT_ROWS + lane_row; if (row < 4864u) OUT0[(size_t)t * 4864u + row] = (silu(sums[0]) * sums[1]); }
#define UNIT_FETCHES { const u32 a = max(first, 0u), b = min(min(end, 4864u), a + 162u); if (a < b) { W0.fetch((a - 0u) * UNIT_ROWS, min((b - 0u) * UNIT_ROWS, 4864u)); W1.fetch((a - 0u) * UNIT_ROWS, min((b - 0u) * UNIT_ROWS, 4864u)); } }
#include "weights.cuh"
#endif

// Stores eight elements of token t, from element e, to shared memory in the forms that the weights need. All lanes of a warp
// must call it, because the quantization reduces over lanes; lanes beyond the row pass zeros and store nothing.
DEVICE void put(const X& x, const float (&v)[8], u32 t, u32 e, bool inside) {
    if (NEED_F32 && inside) {
        *(float4*)((float*)x.f + t * K + f32_group(e / 4)) = make_float4(v[0], v[1], v[2], v[3]);
        *(float4*)((float*)x.f + t * K + f32_group(e / 4 + 1)) = make_float4(v[4], v[5], v[6], v[7]);
    }
    if (NEED_Q || NEED_EO) {
        uint2 quants;
        float d;
        int sum16;
        quantize_int8(v, quants, d, sum16);
        if (inside) {
            if (NEED_Q) *(uint2*)((u8*)x.q + t * K + e) = quants;
            if (NEED_EO) {
                *(u32*)((u8*)x.eo + t * K + e / 2) = __byte_perm(quants.x, quants.y, 0x6420);
                *(u32*)((u8*)x.eo + t * K + K / 2 + e / 2) = __byte_perm(quants.x, quants.y, 0x7531);
            }
            if (e % 32 == 0) ((float*)x.scale)[t * (K / 32) + e / 32] = d;
            if (e % 16 == 0) ((float*)x.sum)[t * (K / 16) + e / 16] = d * (float)sum16;
        }
    }
}

// Stages the activations of a single token. The block keeps the row in registers between the norm's sum of squares and the
// stores, so that it is read from memory once. HELD is the number of vectors of eight elements that a thread holds.
#define HELD ((K + 8 * THREADS - 1) / (8 * THREADS))
DEVICE void stage_one(const Args& A, u32 t0, float* smem, const X& view) {
    const float* x = X_IN + (size_t)t0 * K;
    float v[HELD][8], g[HELD][8], s = 0;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 e = (r * WARPS + warp_index()) * 256 + lane_index() * 8;
        float4 lo = make_float4(0, 0, 0, 0), hi = lo, g_lo = lo, g_hi = lo;
        if (e < K) {
            lo = *(const float4*)(x + e), hi = *(const float4*)(x + e + 4);
            if (NORM) g_lo = *(const float4*)(NORM_WEIGHT + e), g_hi = *(const float4*)(NORM_WEIGHT + e + 4);
        }
        v[r][0] = lo.x, v[r][1] = lo.y, v[r][2] = lo.z, v[r][3] = lo.w;
        v[r][4] = hi.x, v[r][5] = hi.y, v[r][6] = hi.z, v[r][7] = hi.w;
        g[r][0] = g_lo.x, g[r][1] = g_lo.y, g[r][2] = g_lo.z, g[r][3] = g_lo.w;
        g[r][4] = g_hi.x, g[r][5] = g_hi.y, g[r][6] = g_hi.z, g[r][7] = g_hi.w;
        if (NORM) s = dot4(lo, lo, dot4(hi, hi, s));
    }
    const float factor = NORM ? 1.0f / sqrtf(block_sum<WARPS>(s, smem) / (float)K + NORM_EPS) : 1.0f;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 first = (r * WARPS + warp_index()) * 256, e = first + lane_index() * 8;
        if (first >= K) break;
        if (NORM) {
#pragma unroll
            for (int i = 0; i < 8; i++) v[r][i] = v[r][i] * factor * g[r][i];
        }
        put(view, v[r], 0, e, e < K);
    }
}

// Stages the activations of tokens t0 .. t0 + N of `rows` in shared memory, with zeros for tokens beyond the last.
template <int N> DEVICE void stage(const Args& A, u32 t0, u32 rows, u8* shared, float* smem, X& view) {
    float* f = (float*)shared;
    u8* q = shared + (NEED_F32 ? N * K * 4 : 0);
    u8* eo = q + (NEED_Q ? N * K : 0);
    // The sums come before the scales: they are read as pairs (8-byte aligned), and the number of scales may be odd.
    float* sum = (float*)(eo + (NEED_EO ? N * K : 0));
    float* scale = sum + N * (K / 16);
    view.f = f, view.q = q, view.eo = eo, view.scale = scale, view.sum = sum;
    if (N == 1 && K % 8 == 0 && HELD <= 4) {
        stage_one(A, t0, smem, view);
        return;
    }

    float factor[N];
    if (NORM) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            float s = 0;
            if (t0 + t < rows) {
                const float* x = X_IN + (size_t)(t0 + t) * K;
                if (K % 4 == 0) {
                    for (u32 i = threadIdx.x * 4; i < K; i += THREADS * 4) {
                        const float4 v = *(const float4*)(x + i);
                        s = dot4(v, v, s);
                    }
                } else {
                    for (u32 i = threadIdx.x; i < K; i += THREADS) s += x[i] * x[i];
                }
            }
            factor[t] = s;
        }
        // The sums of squares of all tokens are reduced with a single barrier.
        float* part = smem;
#pragma unroll
        for (int t = 0; t < N; t++) {
            const float s = warp_sum(factor[t]);
            if (lane_index() == 0) part[warp_index() * N + t] = s;
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < N; t++) {
            float s = 0;
            for (int w = 0; w < WARPS; w++) s += part[w * N + t];
            factor[t] = 1.0f / sqrtf(s / (float)K + NORM_EPS);
        }
    }
    if (K % 8 != 0) {
        // Rows whose width is no multiple of 8 are staged as f32 in their plain order.
        for (int t = 0; t < N; t++) {
            for (u32 i = threadIdx.x; i < K; i += THREADS) {
                float v = t0 + t < rows ? X_IN[(size_t)(t0 + t) * K + i] : 0.0f;
                if (NORM) v *= factor[t] * NORM_WEIGHT[i];
                f[t * K + i] = v;
            }
        }
        return;
    }
#pragma unroll
    for (int t = 0; t < N; t++) {
        const float* x = X_IN + (size_t)(t0 + t) * K;
        // The loop is uniform over a warp, as `put` needs: lanes beyond the row pass zeros.
        for (u32 first = warp_index() * 256; first < K; first += WARPS * 256) {
            const u32 e = first + lane_index() * 8;
            const bool inside = e < K;
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (inside && t0 + t < rows) {
                const float4 lo = *(const float4*)(x + e), hi = *(const float4*)(x + e + 4);
                v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
                v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
                if (NORM) {
#pragma unroll
                    for (int i = 0; i < 8; i++) v[i] = v[i] * factor[t] * NORM_WEIGHT[e + i];
                }
            }
            put(view, v, t, e, inside);
        }
    }
}

// The first UNROLL chunks of each of UNIT_ROWS rows, whose loads are in flight.
template <class W> struct Begun {
    typename W::Chunk part[UNROLL][UNIT_ROWS];
};
template <class W> DEVICE Begun<W> begin_rows(const W w, u32 row, u32 n, u32 k_warp) {
    Begun<W> b;
    if (K % 8 != 0) return b;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const u32 c = (u * K_WARPS + k_warp) * 32 + lane_index();
#pragma unroll
        for (int r = 0; r < UNIT_ROWS; r++) {
            if (c < K / W::ELEMENTS) b.part[u][r] = w.load(min(row + r, n - 1), c);
        }
    }
    return b;
}

// acc[r][t] = this lane's partial sum of row `row + r` of a weight of `n` rows times token t, over the columns of K warp
// `k_warp`.
template <int N, class W>
DEVICE void dot_rows(const W w, Begun<W>& b, const X& x, u32 row, u32 n, u32 k_warp, float (&acc)[UNIT_ROWS][N]) {
#pragma unroll
    for (int r = 0; r < UNIT_ROWS; r++) {
#pragma unroll
        for (int t = 0; t < N; t++) acc[r][t] = 0;
    }
    const u32 lane = k_warp * 32 + lane_index();
    if (K % 8 != 0) {
        for (u32 e = lane; e < K; e += 32 * K_WARPS) {
#pragma unroll
            for (int r = 0; r < UNIT_ROWS; r++) {
                const float v = w.at(min(row + r, n - 1), e);
#pragma unroll
                for (int t = 0; t < N; t++) acc[r][t] = fmaf(v, x.f[t * K + e], acc[r][t]);
            }
        }
        return;
    }
    const u32 chunks = K / W::ELEMENTS;
    for (u32 c = lane; c < chunks; c += 32 * K_WARPS * UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const u32 here = c + u * 32 * K_WARPS, next = here + UNROLL * 32 * K_WARPS;
            if (here < chunks) W::template dot<UNIT_ROWS, N>(b.part[u], x, here, acc);
#pragma unroll
            for (int r = 0; r < UNIT_ROWS; r++) {
                if (next < chunks) b.part[u][r] = w.load(min(row + r, n - 1), next);
            }
        }
    }
}

// Reduces acc over the warp: lane i gets the sum of acc[i / N][i % N], and lanes beyond the last element get 0.
template <int N> DEVICE float collect(const float (&acc)[UNIT_ROWS][N]) {
    float mine = 0;
#pragma unroll
    for (int r = 0; r < UNIT_ROWS; r++) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            const float s = warp_sum(acc[r][t]);
            if (lane_index() == r * N + t) mine = s;
        }
    }
    return mine;
}

// Computes this block's units first .. end for tokens t0 .. t0 + N.
template <int N> DEVICE void run(const Args& A, u32 first, u32 end, u32 t0, u32 rows, u8* shared, float* smem) {
    X x;
    stage<N>(A, t0, rows, shared, smem, x);
    __syncthreads();
    const u32 warp_group = warp_index() / K_WARPS, k_warp = warp_index() % K_WARPS;
    for (u32 at = first; at < end; at += WARPS / K_WARPS) {
        const u32 unit = at + warp_group;
        float sums[MOST_PRODUCTS] = {0};
        if (unit < end) {
            UNIT_PRODUCTS
        }
        if (K_WARPS > 1) {
            float* mine = smem + warp_index() * (MOST_PRODUCTS * 32) + lane_index();
            if (unit < end) {
                for (int p = 0; p < MOST_PRODUCTS; p++) mine[p * 32] = sums[p];
            }
            __syncthreads();
            if (unit < end && k_warp == 0) {
                for (int p = 0; p < MOST_PRODUCTS; p++) {
                    float s = 0;
                    for (int w = 0; w < K_WARPS; w++) s += mine[(w * MOST_PRODUCTS + p) * 32];
                    sums[p] = s;
                }
            }
        }
        const u32 lane_row = lane_index() / N, t = t0 + lane_index() % N;
        if (unit < end && k_warp == 0 && lane_index() < UNIT_ROWS * N && t < rows) {
            UNIT_OUTPUTS
        }
        if (K_WARPS > 1) __syncthreads();
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    const u32 group = block_index();
    const u32 first = (u32)((u64)UNITS * group / GRID_BLOCKS), end = (u32)((u64)UNITS * (group + 1) / GRID_BLOCKS);
    if (group < GRID_BLOCKS) {
        UNIT_FETCHES
        if (NORM) {
            for (u32 i = threadIdx.x * 32; i < K; i += THREADS * 32) fetch_line(NORM_WEIGHT + i);
        }
    }
    wait_for_inputs();
    if (group >= GRID_BLOCKS) return;
    const u32 rows = ROWS;
    u8* shared = (u8*)dynamic + ACTIVATIONS_AT;
    float* smem = (float*)dynamic;
    for (u32 t0 = 0; t0 < rows; t0 += MOST_TOKENS) {
        const u32 left = rows - t0;
        if (t0 > 0) __syncthreads();
        if (MOST_TOKENS >= 8 && left > 4) {
            run<8>(A, first, end, t0, rows, shared, smem);
        } else if (MOST_TOKENS >= 4 && left > 2) {
            run<4>(A, first, end, t0, rows, shared, smem);
        } else if (MOST_TOKENS >= 2 && left > 1) {
            run<2>(A, first, end, t0, rows, shared, smem);
        } else {
            run<1>(A, first, end, t0, rows, shared, smem);
        }
    }
}
