// Skinny GEMM: matmul of 9 to 64 rows with quantized weights. Each tile of 32 tokens streams the weights from memory once,
// while its activations stay in shared memory.
//
// A warp tile is 16 rows of a weight. A unit is 16 rows of an output and has one warp tile for each product of that output. A
// block computes WARP_TILES warp tiles, distributed over its N warps so that the schedulers of an SM get as equal shares as
// possible. Inside a block, K_WARPS warps slice K (sliced-K, round-robin over k-tiles); across blocks, the CLUSTER blocks of a
// cluster split K (split-K). All partial sums are reduced at the end, those of other blocks through distributed shared memory.
//
// A k-tile is 128 bytes of quants of each row. One k-tile is in flight (cp.async) to the warp's shared-memory stage while the
// k-tile before it is in registers. A lane dequantizes whole blocks of 32 elements of a row to 16 bits, so that it needs few
// scales: one or two for each block.
//
// Activations of 8 * NT tokens are in shared memory in MMA fragment layout (`half.cuh`), in which their producer or
// `convert.cu` wrote them. Where they do not fit at once, they are copied in phases of PHASE k-tiles a warp, and only between
// phases do the warps of a block wait for each other. The first k-tiles are requested before the dependency wait. More than 32
// tokens take a second block, or cluster, for each tile of weights. Where a quant times its f16 scale exceeds the range of f16,
// the product becomes infinite here; other kernels, and scales that are powers of two, clamp it to the largest f16.
//
// Times below are of gate and up of Llama-8B Q4_0 for 32 rows (66 MB of weights), launched one after the other on an H200,
// where reading these bytes takes 16 us. Ticks are of 32 sequences at 300 positions.
//
// Before: int8 mma with a scale for each block of 32, as `gemm_int8_mma.cu` does for up to 8 rows: 60 us.
// v1: 64 bytes of each row at a time through a ring of shared-memory stages that also held the activations of those columns, a
//     barrier every 128 columns, clusters of eight blocks (of which the device holds only 15 at once): 52 us.
// v2: 128 bytes of each row at a time; the mask that extracts quants hidden from the compiler, which had materialized the
//     constant anew for every word (a sixth of all instructions); sums accumulated four at a time: 38 us. Interleaving the
//     copies with the mma instructions brought nothing.
// v3: weights loaded straight to registers, all activations copied at once: 34.9 us; with loads that request whole L2 lines:
//     33.5 us. A tick: 5.6 ms before, 3.81 ms with this and `attention/decode_batched.cu`.
// v4: k-tiles by cp.async to shared-memory stages. A load to registers touches an L1 line for each of its eight rows, for
//     quants and scales alike; leaving out the loads of scales alone saved 3 us. Sixteen warps with one or two warp tiles,
//     seven warp tiles a scheduler, instead of fourteen warps with two, which left two schedulers with four warps: together
//     30.5 us, down 24.7 -> 21.7 us, head 140 -> 133 us; a tick 3.50 ms.
// v5: activations copied at constant strides, epilogue operands loaded before the partial sums of other blocks: a tick 45 us
//     less. Activations and outputs in MMA fragment layout: two dispatches a layer fewer and 176 us less (`convert.cu` then
//     loaded the norm's weight before its inputs: 82 us). The code for more than 16 rows placed in front of the code for fewer:
//     55 us less, although chains of this kernel take as long as before: in a tick, instructions are fetched from memory, since
//     its weights evict them from the caches.
// What did not help: three or four k-blocks in flight in registers (37 and 45 us); three warp tiles for each of twelve warps
// (31.7 us), or four (37 us); one instruction for zero point and scale (36 us); wgmma (a warpgroup of four warps, one
// operand in registers: without loads of weights 27 us instead of 37, but with them 36 to 43 us, and with weights through a
// ring of shared-memory stages 36 us); a barrier for each quarter of the activations, so that work begins earlier (1.7 us
// more); bulk prefetch of weights to L2 (all: 38 us, half: 35 us) or two k-tiles ahead (31.1 us); dequantizing ahead of the mma
// instructions, in program order or for all warp tiles at once; a block's own partial sums read without distributed shared
// memory.
// What is left: of the 30.5 us, 9.0 remain without weights and products: launch 1.4, reduction and epilogue 4.5 (1.4 of them
// for the partial sums of the other block), activations 1.7, the first k-tile 1.3. The rest is mma.sync, one of 16 x 8 x 16 in
// ten cycles of a scheduler, with dequantization in between. The whole kernel takes 29.8 us without dequantization, 28.7
// without loads of weights, and 24.7 without both.
#ifndef ONETRIP_LAUNCH
// Defaults: gate and up of Qwen2.5-0.5B in Q4_0, 9 to 64 rows. SKINNY_RUN: the launch's problems and epilogue, which the builder generates.
#define THREADS 384
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define K 896
#define HALF_BF16 0
#define ROUNDED ((const u16*)A.a1)
#define W0 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a2 + 0, (const u8*)A.a2 + 2179072, (const u8*)A.a2 + 0}
#define W1 Planes<4, 32, 8, false, ScaleF16, true>{(const u8*)A.a3 + 0, (const u8*)A.a3 + 2179072, (const u8*)A.a3 + 0}
#define OUT0 ((float*)A.a4)
#define WARP_TILES 10
#define MOST 2
#define FULL 4
#define K_WARPS 2
#define CLUSTER 2
#define TILES 61
#define STAGES_AT 32768
#define K_TILE_BLOCKS 2
#define PHASE_2 1
#define BUFFERS_2 1
#define PHASE_4 1
#define BUFFERS_4 1
#define SKINNY_RUN if (tile < 61u) { \
    auto find = [&](u32 u, u32 p, u32& row0, u32& n) -> decltype(W0) { \
    { row0 = (u - 0u) * 16, n = 4864u; return p == 0 ? W0 : W1; } \
    }; \
    auto finish = [&](u32 u, u32 r, u32 t, const float* sums) { \
    { \
    const u32 row0 = (u - 0u) * 16 + r; \
    float p0[8]; reduce_partials<NT>(sums + 0, p0); \
    float p1[8]; reduce_partials<NT>(sums + 16, p1); \
    float v[8]; \
    _Pragma("unroll") \
    for (u32 i = 0; i < 8; i++) v[i] = (silu(p0[i]) * p1[i]); \
    if (row0 < 4864u) for (u32 i = 0; i < 8; i += 4) *(float4*)(OUT0 + (size_t)t * 4864u + row0 + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]); \
    return; \
    } \
    }; \
    run<decltype(W0), 2, NT, PHASE, BUFFERS>(A, find, finish, tile, 304u, t0, rows, shared); \
    return; \
    } \
    tile -= 61u;
#include "weights.cuh"
#include "tensor.cuh"
#include "half.cuh"
#endif

// Rows of a unit of outputs, as many as a warp tile has.
#define UNIT 16
// Row stride of a block's partial sums [K_WARPS][tokens][PARTIAL_ROW], which has all warp tiles side by side and is padded.
#define PARTIAL_ROW (WARP_TILES * 16 + 4)

DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// The M (one or two) warp tiles of a warp: one k-tile of each is in flight to a shared-memory stage while the k-tile before it
// is in registers.
template <class W, int M> struct WarpTiles;
template <int BITS, int GROUP, int ZERO, bool HAS_MIN, class Scale, bool INT8, int M>
struct WarpTiles<Planes<BITS, GROUP, ZERO, HAS_MIN, Scale, INT8>, M> {
    // k-blocks of 128 columns in a k-tile.
    static const int K_BLOCKS = 8 / BITS;
    static const u32 ROW_BYTES = K / 8 * BITS, SCALE_BYTES = K / GROUP * 2, TILE_SCALES = 1024 / BITS / GROUP * 2;
    static const int SCALES = 32 / GROUP;
    // Bytes of scales of one copy: the widest one that the alignment of a row of scales allows.
    static const u32 COPY = SCALE_BYTES % 16 == 0 && TILE_SCALES % 16 == 0 ? 16 : SCALE_BYTES % 8 == 0 ? 8 : SCALE_BYTES % 4 == 0 ? 4 : 2;
    // Stage of a warp tile: quants [row][128], swizzled so that even and odd rows cause no bank conflict; then the scales, and
    // the mins, [row][TILE_SCALES].
    static const u32 STAGE_BYTES = 16 * (128 + TILE_SCALES * (HAS_MIN ? 2 : 1)), SWIZZLE = BITS == 4 ? 4 : 1;
    const u8 *quants[M], *scales[M], *mins[M];
    u32 row0[M], n[M];
    u8* stage;

    // Warp tile m gets the 16 rows from row r of a weight of `rows` rows.
    DEVICE void set(int m, const Planes<BITS, GROUP, ZERO, HAS_MIN, Scale, INT8>& w, u32 r, u32 rows) {
        quants[m] = w.quants, scales[m] = w.scales, mins[m] = w.mins, row0[m] = r, n[m] = rows;
    }
    DEVICE static void copy_scales(u8* to, const u8* from) {
        if (COPY == 16) cp_async16(to, from);
        if (COPY == 8) cp_async8(to, from);
        if (COPY == 4) cp_async4(to, from);
        if (COPY == 2) *(u16*)to = stream2(from);
    }
    // Starts the copies of a k-tile of each warp tile to the stage. Beyond the end of a row they read its beginning instead,
    // whose products do not count, since the activations of these columns are zero.
    DEVICE void ask(u32 k_tile) const {
        const u32 lane = lane_index();
#pragma unroll
        for (int m = 0; m < M; m++) {
            const u32 chunk = lane % 8, at = k_tile * 128 + chunk * 16;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 r = i * 4 + lane / 8, row = min(row0[m] + r, n[m] - 1);
                const u8* from = quants[m] + (row * ROW_BYTES + (ROW_BYTES % 128 == 0 || at < ROW_BYTES ? at : 0));
                cp_async16(stage + m * STAGE_BYTES + r * 128 + (chunk ^ r % 2 * SWIZZLE) * 16, from);
            }
        }
        const u32 each = TILE_SCALES / COPY;
#pragma unroll
        for (u32 i = 0; i < (M * 16 * each + 31) / 32; i++) {
            const u32 u = i * 32 + lane, m = u / (16 * each), r = u / each % 16, at = k_tile * TILE_SCALES + u % each * COPY;
            if (m >= M) continue;
            const u32 row = min((m == 0 ? row0[0] : row0[M - 1]) + r, (m == 0 ? n[0] : n[M - 1]) - 1);
            const u32 from = row * SCALE_BYTES + (SCALE_BYTES % TILE_SCALES == 0 || at < SCALE_BYTES ? at : 0);
            u8* to = stage + m * STAGE_BYTES + 16 * 128 + r * TILE_SCALES + u % each * COPY;
            copy_scales(to, (m == 0 ? scales[0] : scales[M - 1]) + from);
            if (HAS_MIN) copy_scales(to + 16 * TILE_SCALES, (m == 0 ? mins[0] : mins[M - 1]) + from);
        }
    }

    // A lane's registers of a k-block (128 columns): of rows lane / 4 and lane / 4 + 8 of each warp tile, 32 adjacent elements
    // with their scales and mins.
    struct KBlock {
        uint4 quants[M][2][BITS / 4];
        u16 scale[M][2][SCALES], group_min[M][2][SCALES];
    };
    DEVICE void take(KBlock (&to)[K_BLOCKS]) const {
        const u32 g = lane_index() / 4, p = lane_index() % 4;
#pragma unroll
        for (int q = 0; q < K_BLOCKS; q++) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    const u32 row = h * 8 + g;
                    const u8* from = stage + m * STAGE_BYTES;
#pragma unroll
                    for (u32 i = 0; i < BITS / 4; i++) {
                        to[q].quants[m][h][i] = *(const uint4*)(from + row * 128 + (((q * 4 + p) * (BITS / 4) + i) ^ g % 2 * SWIZZLE) * 16);
                    }
#pragma unroll
                    for (u32 i = 0; i < SCALES; i++) {
                        const u8* scale = from + 16 * 128 + row * TILE_SCALES + ((q * 4 + p) * SCALES + i) * 2;
                        to[q].scale[m][h][i] = *(const u16*)scale;
                        if (HAS_MIN) to[q].group_min[m][h][i] = *(const u16*)(scale + 16 * TILE_SCALES);
                    }
                }
            }
        }
    }

    // Dequantizes elements j * 8 .. j * 8 + 8 of a lane's block of 32 to 16-bit pairs (0, 4), (1, 5), (2, 6), (3, 7). `mask` is
    // 0x000f000f, computed at run time: as a constant, the compiler would materialize it again for each use.
    DEVICE static void dequantize(const uint4 (&quants)[BITS / 4], int j, u32 scale, u32 group_min, u32 mask, u32 (&p)[4]) {
        const u32 a = word_of(quants[BITS == 4 ? 0 : j / 2], BITS == 4 ? j : j % 2 * 2);
        const u32 b = word_of(quants[BITS == 4 ? 0 : j / 2], BITS == 4 ? j : j % 2 * 2 + 1);
        // Where arithmetic on pairs of f16 cannot hold the result or the scale.
        if (HALF_BF16 || !Scale::FITS_F16) {
            const float s = Scale::of((u16)scale), o = HAS_MIN ? from_f16((u16)group_min) : 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float x = BITS == 4 ? (float)((int)(a >> (4 * i) & 15) - ZERO) : (float)(signed char)(a >> (8 * i));
                const float y = BITS == 4 ? (float)((int)(a >> (4 * i + 16) & 15) - ZERO) : (float)(signed char)(b >> (8 * i));
                p[i] = HAS_MIN ? to_half2(fmaf(x, s, o), fmaf(y, s, o)) : to_half2(x * s, y * s);
            }
            return;
        }
        if (BITS == 4) {
            // The quant becomes the low mantissa bits of the f16 number 1024, which then is 1024 + quant, or 1024 + 16 * quant
            // where the quant is in bits 4 to 7. The subtraction, or the multiply-add by 1 / 16, removes 1024 and the zero
            // point.
            const u32 low = 0x64006400 + ZERO * 0x10001, high = 0xd400d400 + ZERO * 0x100010;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 v = a >> (8 * i);
                p[i * 2] = sub_pairs((v & mask) | 0x64006400, low);
                p[i * 2 + 1] = fma_pairs((v & mask << 4) | 0x64006400, 0x2c002c00, high);
            }
        } else {
            // The quant plus 128 becomes the low mantissa bits of the f16 number 1024; the subtraction removes 1024 + 128.
            const u32 u = a ^ 0x80808080, v = b ^ 0x80808080;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 both = __byte_perm(u, v, i == 0 ? 0x5140 : 0x7362);
                p[i * 2] = sub_pairs(__byte_perm(both, 0x64646464, 0x4140), 0x64806480);
                p[i * 2 + 1] = sub_pairs(__byte_perm(both, 0x64646464, 0x4342), 0x64806480);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = HAS_MIN ? fma_pairs(p[i], scale, group_min) : mul_pairs(p[i], scale);
    }

    // acc += a k-block times the activations of NT tiles of eight tokens.
    template <int NT> DEVICE static void mma(const KBlock& w, const u8* x, u32 mask, float (&acc)[M][NT][4]) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 y[NT];
#pragma unroll
            for (int n = 0; n < NT; n++) y[n] = *(const uint4*)(x + n * 2048 + j * 512 + lane_index() * 16);
#pragma unroll
            for (int m = 0; m < M; m++) {
                u32 a[2][4];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int s = SCALES == 1 ? 0 : j / 2;
                    u32 p[4];
                    dequantize(w.quants[m][h], j, w.scale[m][h][s] * 0x10001u, HAS_MIN ? w.group_min[m][h][s] * 0x10001u : 0, mask, p);
                    a[0][h] = p[0], a[0][2 + h] = p[1], a[1][h] = p[2], a[1][2 + h] = p[3];
                }
#pragma unroll
                for (int q = 0; q < 2; q++) {
#pragma unroll
                    for (int n = 0; n < NT; n++) {
                        const u32 b[2] = {q ? y[n].z : y[n].x, q ? y[n].w : y[n].y};
                        if (HALF_BF16) {
                            mma_bf16(acc[m][n], a[q], b);
                        } else {
                            mma_f16(acc[m][n], a[q], b);
                        }
                    }
                }
            }
        }
    }
};

// A block's range of K, which is k-tiles first .. end of TILE_BLOCKS k-blocks each, and the activations of that range: tokens
// from t0, copied in phases of PHASE k-tiles a warp, of which shared memory holds BUFFERS.
template <int NT, int PHASE, int BUFFERS, int TILE_BLOCKS> struct Share {
    u32 first, end, t0, tiles;
    u8* shared;
    static const u32 K_BLOCKS = (K + 127) / 128, K_TILES = (K_BLOCKS + TILE_BLOCKS - 1) / TILE_BLOCKS, BYTES = K_WARPS * PHASE * TILE_BLOCKS * NT * 2048;

    DEVICE u32 rounds() const { return (end - first + K_WARPS - 1) / K_WARPS; }
    DEVICE u32 phases() const { return (rounds() + PHASE - 1) / PHASE; }
    // Starts the copies of a phase. A warp copies, for one tile of eight tokens, a fixed quarter (512 bytes) of each k-block in
    // a quarter of the phase's k-blocks. Clusters start with different quarters of the k-blocks, so that they do not all read
    // the same lines at once.
    DEVICE void ask(const Args& A, u32 phase) const {
        const u32 all = K_WARPS * PHASE * TILE_BLOCKS, each = (all + 3) / 4, lane = lane_index();
        const u32 begin = (first + phase * (K_WARPS * PHASE)) * TILE_BLOCKS, there = min(min(end * TILE_BLOCKS, K_BLOCKS) - begin, all);
        u8* to = shared + phase % BUFFERS * BYTES + lane * 16;
        for (u32 u = warp_index(); u < NT * 16; u += WARPS) {
            const u32 n = u / 4 % NT, quarter = u % 4, of = (u / (NT * 4) + block_index() / CLUSTER) % 4 * each;
            // Tiles of tokens beyond the last are computed as well, from the last tile's activations; their results are not
            // stored.
            const u32 eight = min(t0 / 8 + n, tiles - 1);
            const u8* from = (const u8*)ROUNDED + (size_t)(eight * K_BLOCKS + begin) * 2048 + quarter * 512 + lane * 16;
            u8* there_to = to + n * 2048 + quarter * 512;
#pragma unroll 4
            for (u32 k_block = of; k_block < min(of + each, there); k_block++) cp_async16(there_to + k_block * (NT * 2048), from + k_block * 2048);
        }
    }
};

// Computes the M warp tiles of a warp and leaves their partial sums in shared memory. `find(unit, product, row0, n)` returns
// the weight of a product, and sets row0 to the first row of the unit and n to the number of rows of the weight.
template <class W, int PRODUCTS, int M, int NT, int PHASE, int BUFFERS, int TILE_BLOCKS, class Find>
DEVICE void products(const Args& A, const Find& find, const Share<NT, PHASE, BUFFERS, TILE_BLOCKS>& share, u32 tile, u32 units, u32 warp_tile0) {
    typedef WarpTiles<W, M> Mine;
    const u32 k_warp = warp_index() % K_WARPS, rounds = share.rounds(), first = share.first + k_warp, last = share.end - 1;
    const u32 mask = 0x000f000f | BATCH[2] >> 31 << 4;
    Mine mine;
    mine.stage = share.shared + STAGES_AT + warp_index() * (MOST * Mine::STAGE_BYTES);
#pragma unroll
    for (int m = 0; m < M; m++) {
        u32 row0, n;
        const u32 unit = min(tile * (WARP_TILES / PRODUCTS) + (warp_tile0 + m) / PRODUCTS, units - 1);
        const W w = find(unit, (warp_tile0 + m) % PRODUCTS, row0, n);
        mine.set(m, w, row0, n);
    }
    mine.ask(min(first, last));
    cp_async_commit();
    wait_for_inputs();
#pragma unroll
    for (u32 b = 0; b < BUFFERS; b++) {
        if (b < share.phases()) share.ask(A, b);
        cp_async_commit();
    }
    float acc[M][NT][4];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
    typename Mine::KBlock held[TILE_BLOCKS];
    cp_async_wait<BUFFERS>();
    __syncwarp();
    mine.take(held);
    __syncwarp();
    mine.ask(min(first + K_WARPS, last));
    cp_async_commit();
#pragma unroll 1
    for (u32 i = 0; i < rounds; i++) {
        const u32 phase = i / PHASE;
        if (i % PHASE == 0) {
            // After this barrier, every thread's copies of this phase have arrived, and no warp reads the phase before it any
            // more: its buffer may be refilled.
            if (phase == 0) {
                cp_async_wait<BUFFERS>();
            } else {
                cp_async_wait<0>();
            }
            __syncthreads();
            if (phase > 0 && phase + BUFFERS - 1 < share.phases()) share.ask(A, phase + BUFFERS - 1);
            cp_async_commit();
        }
        const u32 k_tile = first + i * K_WARPS;
        const u8* x = share.shared + phase % BUFFERS * share.BYTES + (i % PHASE * K_WARPS + k_warp) * (TILE_BLOCKS * NT * 2048);
#pragma unroll
        for (u32 q = 0; q < TILE_BLOCKS; q++) {
            if (k_tile <= last && (share.K_BLOCKS % TILE_BLOCKS == 0 || k_tile * TILE_BLOCKS + q < share.K_BLOCKS)) {
                Mine::template mma<NT>(held[q], x + q * (NT * 2048), mask, acc);
            }
        }
        // Near the end the last k-tile is copied again without being used, which avoids a branch.
        cp_async_wait<0>();
        __syncwarp();
        mine.take(held);
        __syncwarp();
        mine.ask(min(k_tile + 2 * K_WARPS, last));
        cp_async_commit();
    }
    cp_async_wait<0>();
    __syncthreads();
    const u32 lane = lane_index();
    float* partials = (float*)share.shared + (k_warp * NT * 8 + lane % 4 * 2) * PARTIAL_ROW + warp_tile0 * 16 + lane / 4;
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) partials[(n * 8 + i % 2) * PARTIAL_ROW + m * 16 + i / 2 * 8] = acc[m][n][i];
        }
    }
}

// Loads eight elements of an operand, of which p is the first, in column `row` of n; elements beyond n are zeros. WHOLE: n is a
// multiple of eight, and the loads are of 16 bytes.
template <bool WHOLE> DEVICE void eight(const float* p, u32 row, u32 n, float (&v)[8]) {
#pragma unroll
    for (u32 i = 0; i < 8; i += WHOLE ? 4 : 1) {
        if (WHOLE) {
            const float4 x = row < n ? *(const float4*)(p + i) : make_float4(0, 0, 0, 0);
            v[i] = x.x, v[i + 1] = x.y, v[i + 2] = x.z, v[i + 3] = x.w;
        } else {
            v[i] = row + i < n ? p[i] : 0;
        }
    }
}

// Reduces eight adjacent elements over the K warps of each block and the blocks of the cluster, in a fixed order.
template <int NT> DEVICE void reduce_partials(const float* partials, float (&sums)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) sums[i] = 0;
#pragma unroll
    for (int rank = 0; rank < CLUSTER; rank++) {
#pragma unroll
        for (int k = 0; k < K_WARPS; k++) {
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const float* p = partials + k * (NT * 8 * PARTIAL_ROW) + i;
                const float4 v = CLUSTER == 1 ? *(const float4*)p : four_of_block(p, rank);
                sums[i] += v.x, sums[i + 1] += v.y, sums[i + 2] += v.z, sums[i + 3] += v.w;
            }
        }
    }
}

// Computes one tile of a grouped problem, that is of outputs that have PRODUCTS products of one format, for tokens from t0.
// `finish(unit, r, t, sums)` computes rows r .. r + 7 of a unit for token t.
template <class W, int PRODUCTS, int NT, int PHASE, int BUFFERS, class Find, class Finish>
DEVICE void run(const Args& A, const Find& find, const Finish& finish, u32 tile, u32 units, u32 t0, u32 rows, u8* shared) {
    const u32 n_warp = warp_index() / K_WARPS, rank = CLUSTER == 1 ? 0 : block_index() % CLUSTER;
    constexpr int TILE_BLOCKS = WarpTiles<W, 1>::K_BLOCKS;
    Share<NT, PHASE * K_TILE_BLOCKS / TILE_BLOCKS, BUFFERS, TILE_BLOCKS> share;
    share.first = share.K_TILES * rank / CLUSTER, share.end = share.K_TILES * (rank + 1) / CLUSTER;
    share.t0 = t0, share.tiles = (rows + 7) / 8, share.shared = shared;
    // The first FULL N warps have MOST warp tiles, the others one fewer.
    if (FULL == WARPS / K_WARPS || n_warp < FULL) {
        products<W, PRODUCTS, MOST>(A, find, share, tile, units, n_warp * MOST);
    } else {
        products<W, PRODUCTS, MOST == 1 ? 1 : MOST - 1>(A, find, share, tile, units, n_warp * (MOST - 1) + FULL);
    }
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    const u32 row = WARP_TILES / PRODUCTS * (UNIT / 8), all = min(rows - t0, (u32)NT * 8) * row;
    for (u32 e = all * rank / CLUSTER + threadIdx.x; e < all * (rank + 1) / CLUSTER; e += THREADS) {
        const u32 t = e / row, u = e % row / 2, r = e % 2 * 8, unit = tile * (WARP_TILES / PRODUCTS) + u;
        if (unit < units) finish(unit, r, t0 + t, (const float*)shared + t * PARTIAL_ROW + u * (PRODUCTS * UNIT) + r);
    }
    if (CLUSTER > 1) cluster_leave();
}

template <int NT, int PHASE, int BUFFERS> DEVICE void outputs(const Args& A, u32 tile, u32 t0, u32 rows, u8* shared) {
    SKINNY_RUN
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    // Adjacent clusters share a tile of weights, so that the later of them can find it in L2.
    const u32 rows = ROWS, token_tiles = (rows + 31) / 32, tile = block_index() / CLUSTER / token_tiles;
    if (tile >= TILES) {
        wait_for_inputs();
        return;
    }
    const u32 t0 = block_index() / CLUSTER % token_tiles * 32;
    if (rows > 16) {
        outputs<4, PHASE_4, BUFFERS_4>(A, tile, t0, rows, (u8*)dynamic);
    } else {
        outputs<2, PHASE_2, BUFFERS_2>(A, tile, t0, rows, (u8*)dynamic);
    }
}
