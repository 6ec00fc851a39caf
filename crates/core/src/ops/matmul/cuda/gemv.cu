// GEMV: matmul of one row. Weights stream from memory to registers and are multiplied by activations that stay in registers.
//
// A block owns adjacent rows of the outputs. K_WARPS warps share a row and slice K (sliced-K); each thread holds the
// activations of its columns. WARP_GROUPS such groups of warps take the rows in turn, each with the loads of DEPTH rows in
// flight. The first rows are loaded before the dependency wait, and the following ones are prefetched to L2. The products need
// not wait for the reduction of the norm, since its factor is the same for the whole row and multiplies the sums at the end;
// the int8 quants of an activation do not depend on that factor.
//
// v1 (as `gemv_multi.cu`): activations in shared memory, a block reduction for the norm. Ticks on an H200: Qwen2.5-0.5B F16 759
//     µs, Q4_0 551, Llama-8B Q4_0 1862.
// v2: activations in registers, the norm's factor applied at the end, sums of several rows reduced together, residuals loaded
//     early: 615, 483, 1677 µs. Chains of one dispatch: q/k/v of the 0.5B in F16 from 3.0 to 1.8 µs, gate and up from 7.6 to
//     5.6, down from 4.6 to 3.1; of Llama-8B in Q4_0 gate and up from 19.2 to 16.8, down from 13.5 to 11.2, head from 78 to
//     64 (4.6 TB/s).
// v3: grid and block shape by measurement (`cuda/gemv.rs`): one chunk a thread where a block has few rows; several small blocks
//     an SM for float matrices of many rows; no prefetch where a block's weights exceed 100 KB. With attention at 4 to 5 µs
//     instead of 8: 493, 475, 1514 µs, Llama-8B Q8_0 2259.
//
// Tried and given up: a register limit for an occupancy of two blocks an SM (664 µs; registers spill); weights through shared
// memory with 50 to 140 KB of a block in flight (677 to 786, 540 to 632 and 1722 to 2155 µs: it is no faster by itself, and
// consecutive kernels overlap less, since kernels that need different splits of L1 and shared memory wait for each other).
#ifndef ONETRIP_LAUNCH
// Defaults: gate and up of Qwen2.5-0.5B in Q4_0, one row. GEMV_*: the launch's problems and epilogue, which the builder generates.
#define THREADS 512
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define K 896
#define X_IN ((const float*)A.a1)
#define NORM 1
#define NORM_EPS 1e-6f
#define NORM_WEIGHT ((const float*)A.a2)
#define W0 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a3 + 0, (const u8*)A.a3 + 2179072, (const u8*)A.a3 + 0}
#define W1 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a4 + 0, (const u8*)A.a4 + 2179072, (const u8*)A.a4 + 0}
#define OUT0 ((float*)A.a5)
#define K_WARPS 1
#define WARP_GROUPS 16
#define DEPTH 2
#define UNITS 4864
#define GRID_BLOCKS 132
#define BLOCK_ROWS 37
#define PRODUCTS 2
#define ACTIVATIONS_AT 368
#define NEED_INT8 1
#define NEED_Q 0
#define NEED_EO 1
#define GEMV_BEGIN const u32 from0 = min(max(first, 0u), 4864u), rows0 = min(max(end, 0u), 4864u) - from0; \
    const u32 from1 = min(max(first, 0u), 4864u), rows1 = min(max(end, 0u), 4864u) - from1; \
    typedef decltype(W0) T0; \
    auto find0 = [&](u32 i, u32& row, u32& at) { \
    if (i < rows0) { row = from0 - 0u + i, at = 0 * BLOCK_ROWS + from0 - first + i; return W0; } \
    i -= rows0; \
    row = from1 - 0u + i, at = 1 * BLOCK_ROWS + from1 - first + i; return W1; \
    }; \
    const u32 count0 = rows0 + rows1; \
    WeightStream<T0> s0; \
    s0.begin(find0, count0, warp_group, k_warp);
#define GEMV_FETCHES if (rows0 > 32u) { const u32 r = from0 - 0u; W0.fetch(r + 32u, r + rows0); } \
    if (rows1 > 0u) { const u32 r = from1 - 0u; W1.fetch(r + 0u, r + rows1); }
#define GEMV_NORMS T0::Mine mine0[WeightStream<T0>::EACH];
#define GEMV_EARLY 
#define GEMV_STREAMS float twice = 0; \
    { \
    hold_quants<T0>(view, k_warp, mine0); \
    s0.run(find0, mine0, count0, warp_group, k_warp, partials); \
    }
#define GEMV_OUTPUTS for (u32 u = unit; u < end; u += THREADS) { \
    if (u < 4864u) OUT0[u - 0u] = (silu((factor * warp_group_sum(partials, 0 * BLOCK_ROWS + u - first))) * (factor * warp_group_sum(partials, 1 * BLOCK_ROWS + u - first))); \
    }
#include "weights.cuh"
#endif

// A weight stream: the rows that a block owns of all products whose weights have one type, numbered through. `find(i, row, at)`
// returns the weight of the i-th of them and sets `row` to its row in that weight and `at` to the index of its sum in the
// partials.
template <class W> struct WeightStream {
    static const int CHUNKS = K / W::ELEMENTS;
    static const int EACH = (CHUNKS + 32 * K_WARPS - 1) / (32 * K_WARPS);  // chunks of a row for each thread
    static const bool EXACT = CHUNKS % (32 * K_WARPS) == 0;
    typename W::Chunk ring[DEPTH][EACH];

    DEVICE static u32 chunk(u32 k_warp, int c) { return (k_warp + c * K_WARPS) * 32 + lane_index(); }
    DEVICE static bool inside(u32 k_warp, int c) { return EXACT || chunk(k_warp, c) < CHUNKS; }

    template <class Find> DEVICE void ask(const Find& find, int d, u32 i, u32 n, u32 k_warp) {
        if (i >= n) return;
        u32 row, at;
        const W w = find(i, row, at);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            if (inside(k_warp, c)) ring[d][c] = w.load(row, chunk(k_warp, c));
        }
    }
    template <class Find> DEVICE void begin(const Find& find, u32 n, u32 warp_group, u32 k_warp) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) ask(find, d, warp_group + d * WARP_GROUPS, n, k_warp);
    }
    // Goes through all rows of this warp group and stores their partial sums over this warp's columns in `partials`.
    template <class Find>
    DEVICE void run(const Find& find, const typename W::Mine (&mine)[EACH], u32 n, u32 warp_group, u32 k_warp, float* partials) {
        for (u32 base = warp_group; base < n; base += WARP_GROUPS * DEPTH) {
            float sums[DEPTH];
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                sums[d] = 0;
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    if (inside(k_warp, c)) sums[d] = W::mac(ring[d][c], mine[c], sums[d]);
                }
                ask(find, d, base + (DEPTH + d) * WARP_GROUPS, n, k_warp);
            }
            const float sum = warp_sums<DEPTH>(sums);
            const u32 i = base + lane_index() * WARP_GROUPS;
            if (lane_index() < DEPTH && i < n) {
                u32 row, at;
                find(i, row, at);
                partials[k_warp * (PRODUCTS * BLOCK_ROWS) + at] = sum;
            }
        }
    }
};

// Loads the norm's weight for this thread's columns to registers. No kernel writes it, so this may happen before the dependency
// wait.
template <class W> DEVICE void hold_norm(const float* g, u32 k_warp, typename W::Mine (&mine)[WeightStream<W>::EACH]) {
#pragma unroll
    for (int c = 0; c < WeightStream<W>::EACH; c++) {
        mine[c] = W::nothing();
        if (NORM && WeightStream<W>::inside(k_warp, c)) mine[c] = W::mine(g, WeightStream<W>::chunk(k_warp, c));
    }
}
// Loads the activations of this thread's columns as floats and multiplies them by the norm's weight, which `mine` holds before.
// Adds their squares, without that weight, to `squares`.
template <class W>
DEVICE void hold_floats(const float* row, u32 k_warp, typename W::Mine (&mine)[WeightStream<W>::EACH], float& squares) {
    typename W::Mine x[WeightStream<W>::EACH];
#pragma unroll
    for (int c = 0; c < WeightStream<W>::EACH; c++) {
        x[c] = WeightStream<W>::inside(k_warp, c) ? W::mine(row, WeightStream<W>::chunk(k_warp, c)) : W::nothing();
    }
#pragma unroll
    for (int c = 0; c < WeightStream<W>::EACH; c++) {
#pragma unroll
        for (int i = 0; i < W::ELEMENTS; i++) {
            if (NORM) squares = fmaf(x[c].x[i], x[c].x[i], squares), x[c].x[i] *= mine[c].x[i];
        }
        mine[c] = x[c];
    }
}
// Loads the quantized activations of this thread's columns from shared memory, where `quantize_row` stored them.
template <class W> DEVICE void hold_quants(const X& x, u32 k_warp, typename W::Mine (&mine)[WeightStream<W>::EACH]) {
#pragma unroll
    for (int c = 0; c < WeightStream<W>::EACH; c++) {
        mine[c] = WeightStream<W>::inside(k_warp, c) ? W::mine(x, 0, WeightStream<W>::chunk(k_warp, c)) : W::nothing();
    }
}

// Reduces the sliced-K partial sums of one row over the K warps of its warp group.
DEVICE float warp_group_sum(const float* partials, u32 at) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < K_WARPS; w++) sum += partials[w * (PRODUCTS * BLOCK_ROWS) + at];
    return sum;
}

// The row in the registers of the block, as HELD vectors of eight adjacent elements a thread: the form that `quantize_int8`
// takes.
#define HELD ((K + 8 * THREADS - 1) / (8 * THREADS))
struct Eights {
    float v[HELD][8];
    DEVICE static u32 element(int r) { return (r * WARPS + warp_index()) * 256 + lane_index() * 8; }
    DEVICE void read(const float* x) {
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            float4 lo = make_float4(0, 0, 0, 0), hi = lo;
            const u32 e = element(r);
            if (e < K) lo = *(const float4*)(x + e), hi = *(const float4*)(x + e + 4);
            v[r][0] = lo.x, v[r][1] = lo.y, v[r][2] = lo.z, v[r][3] = lo.w;
            v[r][4] = hi.x, v[r][5] = hi.y, v[r][6] = hi.z, v[r][7] = hi.w;
        }
    }
};

// Multiplies the row by the norm's weight, quantizes it to int8 and stores it in shared memory in the forms that the weights
// need. Adds the squares of the row, without that weight, to `squares`.
DEVICE void quantize_row(Eights& x, const Eights& g, const X& to, float& squares) {
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        if ((r * WARPS + warp_index()) * 256 >= K) break;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (NORM) squares = fmaf(x.v[r][i], x.v[r][i], squares), x.v[r][i] *= g.v[r][i];
        }
        uint2 quants;
        float d;
        int sum16;
        quantize_int8(x.v[r], quants, d, sum16);
        const u32 e = Eights::element(r);
        if (e >= K) continue;
        if (NEED_Q) *(uint2*)((u8*)to.q + e) = quants;
        if (NEED_EO) {
            *(u32*)((u8*)to.eo + e / 2) = __byte_perm(quants.x, quants.y, 0x6420);
            *(u32*)((u8*)to.eo + K / 2 + e / 2) = __byte_perm(quants.x, quants.y, 0x7531);
        }
        if (e % 32 == 0) ((float*)to.scale)[e / 32] = d;
        if (e % 16 == 0) ((float*)to.sum)[e / 16] = d * (float)sum16;
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    const u32 group = block_index(), warp_group = warp_index() / K_WARPS, k_warp = warp_index() % K_WARPS;
    const u32 first = (u32)((u64)UNITS * group / GRID_BLOCKS), end = (u32)((u64)UNITS * (group + 1) / GRID_BLOCKS);
    float* partials = (float*)dynamic;
    float* squares_of = partials + K_WARPS * PRODUCTS * BLOCK_ROWS;
    u8* q = (u8*)dynamic + ACTIVATIONS_AT;
    u8* eo = q + (NEED_Q ? K : 0);
    // The sums come before the scales: they are read as pairs (8-byte aligned), and the number of scales may be odd.
    float* sum = (float*)(eo + (NEED_EO ? K : 0));
    const X view{0, q, eo, sum + K / 16, sum};
    if (group >= GRID_BLOCKS) {
        wait_for_inputs();
        return;
    }
    GEMV_BEGIN
    GEMV_FETCHES
    Eights g;
    if (NORM && NEED_INT8) g.read(NORM_WEIGHT);
    float squares = 0;
    GEMV_NORMS
    wait_for_inputs();
    const u32 unit = first + threadIdx.x;
    GEMV_EARLY
    if (NEED_INT8) {
        Eights x;
        x.read(X_IN);
        quantize_row(x, g, view, squares);
        __syncthreads();
    }
    GEMV_STREAMS
    if (NORM) {
        squares = warp_sum(squares);
        if (lane_index() == 0) squares_of[warp_index()] = squares;
    }
    __syncthreads();
    float factor = 1;
    if (NORM) {
        float s = 0;
        // The squares of a quantized row are spread over all warps of the block. Otherwise each warp group holds the whole row,
        // and the warps of one group suffice.
        for (int w = 0; w < (NEED_INT8 ? WARPS : K_WARPS); w++) s += squares_of[w];
        factor = 1.0f / sqrtf(s / (float)K + NORM_EPS);
    }
    GEMV_OUTPUTS
}
