// GEMM of 2 to 8 rows with quantized weights, on int8 tensor cores: an mma multiplies 16 rows of a weight by eight tokens.
//
// A block computes tiles of 16 rows; its K_WARPS warps slice K (sliced-K). Each warp copies its k-tiles (16 rows of 128 bytes
// of quants, with their scales and mins) to shared memory by cp.async, through a ring of RING stages of its own, so that a warp
// waits for no other warp's copies. The first copies start before the dependency wait. The integer sum of a block of 32
// elements is exact, and each such sum is scaled separately. Activations are in memory in the layout of mma B fragments
// (`quantize.cu`) and are loaded through L1.
//
// Before: 8 rows in the manner of a GEMV, with int8 dot products (Llama-8B Q4_0, 8 sequences: 6.1 ms a tick on an H200).
// v1: one warp tile of 16 rows at a time, 8 warps, one block an SM: 4.2 ms.
// v2: two blocks an SM: 2.9 ms (three blocks an SM 3.4, 16 warps 3.2, four k-tiles in flight 3.0).
// v3: the reduction needs a tenth of the shared memory: no change by itself. With the attention kernel of that day 2.6 ms.
// More rows use `gemm_skinny.cu`. A version of this kernel for up to 64 tokens, with a second warp tile at once so that it read
// each activation half as often, took 5.6 ms for 32 sequences, because the sum of each block of 32 is scaled separately for
// every token.
#ifndef ONETRIP_LAUNCH
// Defaults: gate and up of Qwen2.5-0.5B in Q4_0, 2 to 8 rows. INT8_MMA_RUN: the launch's problems and epilogue, which the builder generates.
#define THREADS 128
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define K 896
#define Q ((const u32*)A.a1)
#define EO ((const u32*)A.a2)
#define META ((const float*)A.a3)
#define W0 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a4 + 0, (const u8*)A.a4 + 2179072, (const u8*)A.a4 + 0}
#define W1 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a5 + 0, (const u8*)A.a5 + 2179072, (const u8*)A.a5 + 0}
#define OUT0 ((float*)A.a6)
#define K_WARPS 4
#define RING 3
#define GRID_BLOCKS 264
#define PARTIAL_BYTES 5120
#define RING_BYTES 7680
#define NEED_Q 0
#define NEED_EO 1
#define META_WORDS 2
#define INT8_MMA_RUN typedef decltype(W0) T0; \
    auto find0 = [&](u32 i, u32 s, u32& row0, u32& n) { \
    row0 = (i - 0u) * 16, n = 4864u; return s == 0 ? W0 : W1; \
    }; \
    auto finish0 = [&](u32 i) { for (u32 e = threadIdx.x; e < 16 * rows; e += THREADS) { const u32 t = e / 16, r = e % 16; \
    { const u32 row = (i - 0u) * 16 + r; if (row < 4864u) OUT0[(size_t)t * 4864u + row] = (silu(reduce_partials(partials, 0, t, r)) * reduce_partials(partials, 1, t, r)); } \
    } }; \
    const u32 first0 = (u32)((u64)304 * (group) / GRID_BLOCKS), count0 = (u32)((u64)304 * (group + 1) / GRID_BLOCKS) - first0; \
    WeightStream<T0, 2> b0{first0, count0, warp_index(), ring}; \
    b0.begin(find0); \
    wait_for_inputs(); \
    b0.run(find0, finish0, EO, META, partials);
#include "weights.cuh"
#endif

#define MAGIC 0x4b400000  // bits of the float 1.5 * 2^23: an int accumulator that starts there reads as the float 1.5 * 2^23 + sum

// A k-tile in a shared-memory stage of a warp: quants [16][K_TILE_ROW bytes], then f16 scales [16][SCALES], then f16 mins
// likewise.
#define K_TILE_ROW 144  // 128 bytes, padded against bank conflicts
template <class W> struct KTile;
template <int BITS, int GROUP, int ZERO, bool HAS_MIN, class Scale, bool INT8>
struct KTile<Planes<BITS, GROUP, ZERO, HAS_MIN, Scale, INT8>> {
    typedef Planes<BITS, GROUP, ZERO, HAS_MIN, Scale, INT8> W;
    static const int BLOCKS = 32 / BITS;  // blocks of 32 elements in a row of a k-tile
    static const int ROW_BYTES = K / 8 * BITS, COUNT = (ROW_BYTES + 127) / 128;
    static const int SCALES = BLOCKS * 32 / GROUP;  // scales of a row of a k-tile
    static const int BYTES = 16 * K_TILE_ROW + 16 * SCALES * 2 * (HAS_MIN ? 2 : 1);

    // Starts the copy of k-tile `k_tile` of the rows from row0 of a weight of n rows.
    DEVICE static void ask(const W& w, u32 row0, u32 n, u32 k_tile, u8* to) {
        const u32 lane = lane_index(), c = lane % 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 r = i * 4 + lane / 8;
            const size_t row = min(row0 + r, n - 1);
            const u32 at = k_tile * 128 + c * 16;
            if (at < ROW_BYTES) cp_async16(to + r * K_TILE_ROW + c * 16, w.quants + row * ROW_BYTES + at);
        }
        for (u32 i = lane; i < 16 * SCALES / 2; i += 32) {
            const u32 r = i / (SCALES / 2), s = i % (SCALES / 2) * 2;
            const size_t row = min(row0 + r, n - 1), at = row * (K / GROUP) + k_tile * SCALES + s;
            if (k_tile * SCALES + s < K / GROUP) {
                cp_async4(to + 16 * K_TILE_ROW + i * 4, w.scales + at * 2);
                if (HAS_MIN) cp_async4(to + 16 * K_TILE_ROW + 16 * SCALES * 2 + i * 4, w.mins + at * 2);
            }
        }
    }

    // acc += a k-tile times eight tokens; acc is an mma C fragment: weight rows lane / 4 and lane / 4 + 8, tokens lane % 4 * 2
    // and + 1.
    DEVICE static void mma(const u8* at, const u32* x, const float* meta, u32 k_tile, float (&acc)[4]) {
        const u32 lane = lane_index(), g = lane / 4, t = lane % 4;
        const int each = 32 / GROUP;  // scales of a block
        const u32* low = (const u32*)(at + g * K_TILE_ROW) + t;
        const u32* high = low + 8 * K_TILE_ROW / 4;
        const u16* scales = (const u16*)(at + 16 * K_TILE_ROW);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const u32 block = k_tile * BLOCKS + b;
            if (K % (BLOCKS * 32) != 0 && block >= K / 32) break;
            u32 a[4];
            float scale[2][each], group_min[2][each];
            if (BITS == 4) {
                const u32 p = low[b * 4], q = high[b * 4];
                a[0] = p & 0x0f0f0f0f, a[1] = q & 0x0f0f0f0f, a[2] = p >> 4 & 0x0f0f0f0f, a[3] = q >> 4 & 0x0f0f0f0f;
            } else {
                a[0] = low[b * 8], a[1] = high[b * 8], a[2] = low[b * 8 + 4], a[3] = high[b * 8 + 4];
            }
#pragma unroll
            for (int h = 0; h < 2 * each; h++) {
                const u32 s = (g + h / each * 8) * SCALES + b * each + h % each;
                scale[h / each][h % each] = Scale::of(scales[s]);
                group_min[h / each][h % each] = HAS_MIN ? from_f16(scales[16 * SCALES + s]) : 0.0f;
            }
            const uint2 quants = *(const uint2*)(x + ((size_t)block * 32 + lane) * 2);
            const float* m0 = meta + (size_t)(block * 8 + t * 2) * META_WORDS;
            float d[2], z[2][2];
            if (META_WORDS == 2) {
                const float4 both = *(const float4*)m0;
                d[0] = both.x, z[0][0] = both.y, d[1] = both.z, z[1][0] = both.w;
            } else {
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const float4 one = *(const float4*)(m0 + c * 4);
                    d[c] = one.x, z[c][0] = each == 1 ? one.y : one.z, z[c][1] = one.w;
                }
            }
#pragma unroll
            for (int s = 0; s < each; s++) {
                u32 y[2] = {quants.x, quants.y};
                if (GROUP == 16 && BITS == 4) y[0] = t / 2 == s ? y[0] : 0, y[1] = t / 2 == s ? y[1] : 0;
                if (GROUP == 16 && BITS == 8) y[1 - s] = 0;
                int sum[4] = {MAGIC, MAGIC, MAGIC, MAGIC};
                mma_s8(sum, a, y);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float whole = __int_as_float(sum[i]) - 12582912.0f, zero = z[i % 2][s];
                    const float v = ZERO != 0 ? d[i % 2] * whole - (float)ZERO * zero : d[i % 2] * whole;
                    acc[i] = fmaf(scale[i / 2][s], v, acc[i]);
                    if (HAS_MIN) acc[i] = fmaf(group_min[i / 2][s], zero, acc[i]);
                }
            }
        }
    }
};

// A grouped problem: the tiles of all outputs that have WARP_TILES products of one format, numbered through. A tile has 16 rows
// of each of these products' weights. `find(i, s, row0, n)` returns the weight of warp tile s of tile i, and sets row0 to the
// first row of that warp tile and n to the number of rows of the weight. `finish(i)` computes the outputs of tile i from the
// sums in `partials`.
#define PARTIAL_ROW 20  // stride of a token's partial sums: 16 rows of a warp tile, padded against bank conflicts
template <class W, int WARP_TILES> struct WeightStream {
    typedef KTile<W> P;
    static const int EACH = (P::COUNT + K_WARPS - 1) / K_WARPS;  // k-tiles of a row for each warp
    u32 first, count, warp;
    u8* ring;

    template <class Find> DEVICE void ask(const Find& find, u32 j) {
        const u32 k_tile = j % EACH * K_WARPS + warp;
        if (j < count * WARP_TILES * EACH && k_tile < P::COUNT) {
            u32 row0, n;
            const W w = find(first + j / (WARP_TILES * EACH), j / EACH % WARP_TILES, row0, n);
            P::ask(w, row0, n, k_tile, ring + j % RING * P::BYTES);
        }
        cp_async_commit();
    }
    template <class Find> DEVICE void begin(const Find& find) {
#pragma unroll
        for (u32 j = 0; j + 1 < RING; j++) ask(find, j);
    }
    template <class Find, class Finish>
    DEVICE void run(const Find& find, const Finish& finish, const u32* x, const float* meta, float* partials) {
        const u32 lane = lane_index();
        u32 j = 0;
        for (u32 i = 0; i < count; i++) {
            for (int s = 0; s < WARP_TILES; s++) {
                float acc[4] = {0, 0, 0, 0};
                for (int e = 0; e < EACH; e++, j++) {
                    cp_async_wait<RING - 2>();
                    __syncwarp();
                    ask(find, j + RING - 1);
                    const u32 k_tile = e * K_WARPS + warp;
                    if (k_tile < P::COUNT) P::mma(ring + j % RING * P::BYTES, x, meta, k_tile, acc);
                }
                float* to = partials + (s * K_WARPS + warp) * (8 * PARTIAL_ROW);
#pragma unroll
                for (int c = 0; c < 4; c++) to[(lane % 4 * 2 + c % 2) * PARTIAL_ROW + lane / 4 + c / 2 * 8] = acc[c];
            }
            __syncthreads();
            finish(first + i);
            __syncthreads();
        }
        cp_async_wait<0>();
    }
};

// Reduces the sliced-K partial sums of one row of a warp tile and one token over the block's warps.
DEVICE float reduce_partials(const float* partials, u32 warp_tile, u32 token, u32 row) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < K_WARPS; w++) sum += partials[((warp_tile * K_WARPS + w) * 8 + token) * PARTIAL_ROW + row];
    return sum;
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    const u32 group = block_index();
    if (group >= GRID_BLOCKS) {
        wait_for_inputs();
        return;
    }
    const u32 rows = ROWS;
    float* partials = (float*)dynamic;
    u8* ring = (u8*)dynamic + PARTIAL_BYTES + warp_index() * RING_BYTES;
    INT8_MMA_RUN
}
