// Paged split-KV attention of many rows, each the one token of its sequence, over caches in f16, on tensor cores. The unit of work
// is a split: one row, HPB (at most 8) query heads of one key head, and a range of the visible positions. Where rows are fewer
// than resident blocks, or one row is far longer than the others, a row has several splits; their partials go to memory, and
// the block that finishes a row last combines them.
//
// A warp works on STEP positions at a time while cp.async brings the keys and values of the next ones to its shared-memory stage:
// as much of the cache as fits is requested before the dependency wait for this step's Q/K/V. Operands are split into two f16 numbers
// as in decode_split_kv_mma.cu. This step's key and value are computed in shared memory and placed into the tile that holds their
// position; no block reads from the cache what the same launch writes.
//
// On an H200, Llama-8B at 300 positions, in a chain of layers with dependent launch, the cache's write included: 9, 16, 32 and
// 64 rows; 32 rows of 4,096; 31 rows of 300 with one of 16,000. Bytes at 4.2 TB/s: 2.6, 4.7, 9.4, 18.7; 128; 25 µs.
// v1 (the cache's write, then prefill_mma.cu): 16.8, 18.7, 26.7, 52; 150; 354.
// v2 (decode_split_kv_mma.cu without clusters, not kept): 11.4, 12.7, 15.2, 32.5; 146; 388. Two tiles ahead: 9.8, 10.1, 14.1, 28.3; 132.
// v3: tiles in shared memory, four warps a block, more blocks than the device holds at once: 8.2, 10.1, 15.3, 31.1; 171; 46. Where
//     twice as many splits as rows did not fit the device at once, the second wave of blocks set the time.
// v4: eight warps, a persistent grid of resident blocks: 9.6, 12.2, 15.2, 29.0; 147; 50. Sixteen warps: 22.5 for 32 rows;
//     three blocks of eight warps an SM: 19.1.
// v5: where `gemm_skinny.cu` is the only consumer, the output is written in its MMA fragment layout: a dispatch less. Copies of a tile
//     within a page have fixed distances; the tile scheduler assigns splits once a block, by warp reductions.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define HPB 4
#define RESIDENT_BLOCKS 264
#define EXTRA 0
#define LEAST 128
#define COUNTERS 4096
#define OUT_FRAGMENT 0
#define HALF_BF16 0
#include "tensor.cuh"
#include "heads.cuh"
#include "half.cuh"
#include "step_kv.cuh"
#include "softmax.cuh"
#endif

typedef CacheRow<CACHE_F16, DIM> Row;
#define DP ((DIM + 15) / 16 * 16)
// 16-byte vectors in a row. Where the vectors of a row are swizzled, rows of a tile begin in the same bank; else rows are padded, so
// that they begin in different banks: either way there is no bank conflict.
#define VECTORS (DP / 8)
#define SWIZZLED (VECTORS % 8 == 0)
#define ROW_STRIDE (SWIZZLED ? DP : DP + 8)
// f16 elements of a warp's STEP keys, or values, in shared memory.
#define TILE (STEP * ROW_STRIDE)
// Floats from one head to the next in shared memory, padded against bank conflicts.
#define HEAD_STRIDE (DIM + 4)
// Four elements of the output each.
#define OUTPUTS ((HPB * DIM / 4 + THREADS - 1) / THREADS)

DEVICE u32 swizzled_index(u32 row, u32 vector) { return row * ROW_STRIDE + (SWIZZLED ? vector ^ row % 8 : vector) * 8; }

struct Work {
    u32 row, block, split, splits, first;
};
// What part number `place` of all is, where there are so many; the number of all. Parts beyond one a row and group of heads go
// to rows by their lengths, as many as fill RESIDENT_BLOCKS blocks, and EXTRA at least.
DEVICE u32 schedule(const Batch& batch, u32 place, Work& work) {
    const u32 lane = lane_index(), rows = batch.t(), groups = HEADS / HPB;
    auto steps = [&](u32 row) { return row < rows ? (min(batch.position(row), WINDOW - 1) + STEP) / STEP : 0; };
    u32 all = 0;
    for (u32 r = lane; r < rows; r += 32) all += steps(r);
    all = warp_total(all);
    // Without a counter for every row and group, each has one part.
    const u32 more = rows * groups > COUNTERS ? 0 : max((RESIDENT_BLOCKS - min(rows * groups, (u32)RESIDENT_BLOCKS)) / groups, (u32)EXTRA / groups);
    u32 first = 0;
    for (u32 begin = 0; begin < rows; begin += 32) {
        const u32 lane_steps = steps(begin + lane);
        const u32 splits = lane_steps == 0 ? 0 : min(1 + lane_steps * more / all, max(lane_steps / (LEAST / STEP), 1));
        u32 end = splits;
#pragma unroll
        for (u32 o = 1; o < 32; o <<= 1) {
            const u32 before = __shfl_sync(FULL, end, lane - o);
            if (lane >= o) end += before;
        }
        const u32 found = lanes_with((first + end) * groups <= place);
        if (found < 32 && first * groups <= place) {
            work.row = begin + found, work.splits = __shfl_sync(FULL, splits, found);
            work.first = (first + __shfl_sync(FULL, end, found) - work.splits) * groups;
            const u32 rest = place - work.first;
            work.block = work.splits == 1 ? rest : rest / work.splits, work.split = rest - work.block * work.splits;
            work.first += work.block * work.splits;
        }
        first += __shfl_sync(FULL, end, 31);
    }
    return first * groups;
}
// Four elements of the output from number `at` of a row on, divided and gated. Of pieces a lane writes half a one: of eight
// numbers the lane beside it has the other four, which make pairs with its own. All lanes of a warp come here, with or without
// numbers.
DEVICE void finish(const Args& A, bool is_there, u32 row, u32 at, float4 y, float sum, const float4& gate) {
    y.x /= sum, y.y /= sum, y.z /= sum, y.w /= sum;
    if (GATE) y.x *= sigmoid(gate.x), y.y *= sigmoid(gate.y), y.z *= sigmoid(gate.z), y.w *= sigmoid(gate.w);
    if (OUT_FRAGMENT) {
        // A head begins at a multiple of eight, so the second four are an odd lane's.
        const bool is_second = lane_index() % 2 == 1;
        const u32 xy = to_half2(y.x, y.y), zw = to_half2(y.z, y.w);
        const u32 others = __shfl_xor_sync(FULL, is_second ? xy : zw, 1);
        const u32 first = is_second ? others : xy, second = is_second ? zw : others;
        uint2* half = (uint2*)OUT + fragment_index(HEADS * DIM, row, at) * 2 + is_second;
        if (is_there) *half = make_uint2(__byte_perm(first, second, 0x5410), __byte_perm(first, second, 0x7632));
    } else if (is_there) {
        *(float4*)(OUT + (size_t)row * (HEADS * DIM) + at) = y;
    }
}

// The last block of a row's parts adds them up.
COLD void combine_last(const Args A, const Work work, u32 row, u32 head0, const float4 (&gates)[OUTPUTS]) {
    __shared__ bool is_last;
    const float* partials = KV_PARTIALS + (size_t)work.first * (HPB * PARTIAL);
    __threadfence();
    __syncthreads();
    u32* counter = SEMAPHORES + row * (HEADS / HPB) + work.block;
    if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == work.splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        const u32 i = (o * THREADS + threadIdx.x) * 4, h = i / DIM, d = i % DIM;
        const bool is_there = i < HPB * DIM;
        float all = 0;
        float4 y = make_float4(0, 0, 0, 0);
        if (is_there) y = combine_splits(partials + h * PARTIAL, work.splits, HPB * PARTIAL, d, all);
        finish(A, is_there, row, head0 * DIM + i, y, all, gates[o]);
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    __shared__ float most[WARPS][8], total[WARPS][8];
    u16* const keys = (u16*)dynamic + warp_index() * (2 * TILE);  // [WARPS][keys, values][STEP][ROW_STRIDE]
    u16* const values = keys + TILE;
    uint4* q_fragments = dynamic + WARPS * 2 * TILE / 8;           // [DP / 16][32]: a lane's two pairs, high and low
    u8* step_k = (u8*)(q_fragments + DP / 16 * 32);
    u8* step_v = step_k + (WRITE ? Row::BYTES : 0);
    float* q = (float*)(step_v + (WRITE ? Row::BYTES : 0));        // [HPB][HEAD_STRIDE], and room for a key
    float* turns = q + (HPB + 1) * HEAD_STRIDE;                     // [2][Q_PAIRS]
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    const u32 warp = warp_index(), lane = lane_index(), g = lane / 4, p = lane % 4;
    const u32 page_len = batch.page_len();
    Work work;
    if (!WRITE) wait_for_inputs();
    u32 place = block_index();
    const u32 places = schedule(batch, place, work);
    auto next = [&] {
        place += RESIDENT_BLOCKS;
        if (place < places) schedule(batch, place, work);
    };
    for (; place < places; next()) {
        const u32 row = work.row, pos = batch.position(row), head0 = work.block * HPB, kv = head0 / (HEADS / KV_HEADS);
        const u32 first = pos + 1 > WINDOW ? pos + 1 - WINDOW : 0, step_first = WRITE ? pos : pos + 1;
        const u32 share = ((pos - first + STEP) / STEP + work.splits - 1) / work.splits * STEP;
        const u32 from = first + work.split * share, to = min(from + share, pos + 1);
        // Row i is sequence i's.
        const u32* pages = batch.w + batch.w[8] + row * batch.w[9];

        // A lane's vectors of a tile lie a whole number of rows apart where the vectors of a row divide the lanes.
        auto fetch = [&](u32 tile, u16* to_tile, const u8* cache) {
            if (tile < to) {
                const u32 first_page = tile / page_len, first_offset = tile - first_page * page_len;
                const u8* begin = cache + (((size_t)pages[first_page] * KV_HEADS + kv) * page_len + first_offset) * Row::BYTES;
                if (first_offset + STEP <= page_len) {
#pragma unroll
                    for (u32 i = 0; i < STEP * VECTORS / 32; i++) {
                        const u32 j = (i * 32 + lane) / VECTORS, vector = (i * 32 + lane) % VECTORS;
                        const bool is_there = tile + j < to && tile + j != step_first && vector * 8 < DIM;
                        copy16(to_tile + swizzled_index(j, vector), is_there ? begin + j * Row::BYTES + vector * 16 : cache, is_there);
                    }
                } else {
#pragma unroll 1
                    for (u32 i = 0; i < STEP * VECTORS / 32; i++) {
                        const u32 j = (i * 32 + lane) / VECTORS, vector = (i * 32 + lane) % VECTORS;
                        const bool is_there = tile + j < to && tile + j != step_first && vector * 8 < DIM;
                        const u32 page = (tile + j) / page_len, offset = (tile + j) % page_len;
                        const size_t at = is_there ? ((size_t)pages[page] * KV_HEADS + kv) * page_len + offset : 0;
                        copy16(to_tile + swizzled_index(j, vector), cache + (is_there ? at * Row::BYTES + vector * 16 : 0), is_there);
                    }
                }
            }
            copies_end();
        };
        u32 tile = from + warp * STEP;
        fetch(tile, keys, KEYS);
        fetch(tile, values, VALUES);
        if (ROTATE_Q) {
            const float* angles = batch.turns(Q_TABLE, row, Q_PAIRS);
#pragma unroll 1
            for (u32 i = threadIdx.x; i < 2 * Q_PAIRS; i += THREADS) turns[i] = angles[i];
        }
        __syncthreads();
        if (WRITE) wait_for_inputs();

        float4 gates[OUTPUTS];
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            const u32 i = (o * THREADS + threadIdx.x) * 4;
            if (GATE && i < HPB * DIM) gates[o] = *(const float4*)(GATE_IN + ((size_t)row * HEADS + head0 + i / DIM) * (2 * DIM) + DIM + i % DIM);
        }
        take_queries<HEAD_STRIDE>(A, turns, row, head0, q);
        if (WRITE) {
            write_step_kv<Row, Row>(A, batch, turns, q + HPB * HEAD_STRIDE, step_k, step_v, {row, row, pos, kv, step_first, max(from, step_first), to, head0 % (HEADS / KV_HEADS) == 0});
        }
        __syncthreads();
#pragma unroll 1
        for (u32 i = threadIdx.x; i < DP / 16 * 32; i += THREADS) {
            const u32 h = i % 32 / 4, d = i / 32 * 16 + i % 4 * 2;
            float2 x[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                x[c] = float2{0, 0};
                if (h < HPB && d + 8 * c < DIM) x[c] = *(const float2*)(q + h * HEAD_STRIDE + d + 8 * c);
                x[c].x *= SCALE * LOG2E, x[c].y *= SCALE * LOG2E;
            }
            uint4 y;
            split_f16(x[0].x, x[0].y, y.x, y.z);
            split_f16(x[1].x, x[1].y, y.y, y.w);
            q_fragments[i] = y;
        }
        __syncthreads();

        float acc[DP / 16][4];
        Softmax of = {{-INFINITE, -INFINITE}, {0, 0}};
#pragma unroll
        for (int i = 0; i < DP / 16; i++) acc[i][0] = 0, acc[i][1] = 0, acc[i][2] = 0, acc[i][3] = 0;
        // This step's key or value comes in its place.
        auto add_step_kv = [&](u16* to_tile, const u8* from_row) {
            if (WRITE && tile + STEP > step_first) {
                __syncwarp();
                for (u32 i = lane; i < DIM / 8; i += 32) *(uint4*)(to_tile + swizzled_index(step_first - tile, i)) = *(const uint4*)(from_row + i * 16);
            }
            __syncwarp();
        };
#pragma unroll 1
        for (; tile < to; tile += WARPS * STEP) {
            copies_wait<1>();
            add_step_kv(keys, step_k);
            // Four sums, so that few products wait for each other.
            float s[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) s[i][0] = 0, s[i][1] = 0, s[i][2] = 0, s[i][3] = 0;
#pragma unroll
            for (int b = 0; b < DP / 16; b++) {
                u32 a[4];
                load_matrices(a, keys + swizzled_index(lane % 16, b * 2 + lane / 16));
                const uint4 x = q_fragments[b * 32 + lane];
                mma_f16(s[b % 2], a, x.x, x.y);
                mma_f16(s[2 + b % 2], a, x.z, x.w);
            }
            __syncwarp();
            fetch(tile + WARPS * STEP, keys, KEYS);
            float f[2];
            u32 high[2], low[2];
            // The warp's first position is always one.
            weigh(s, to - tile, of, f, high, low);
            copies_wait<1>();
            add_step_kv(values, step_v);
#pragma unroll
            for (int i = 0; i < DP / 16; i++) {
                acc[i][0] *= f[0], acc[i][1] *= f[1], acc[i][2] *= f[0], acc[i][3] *= f[1];
                u32 a[4];
                load_transposed(a, values + swizzled_index(lane % 8 + lane / 16 * 8, 2 * i + lane / 8 % 2));
                mma_f16(acc[i], a, high[0], high[1]);
                mma_f16(acc[i], a, low[0], low[1]);
            }
            __syncwarp();
            fetch(tile + WARPS * STEP, values, VALUES);
        }
        // Over the warps: each leaves its part where its tiles were.
        float* mine = (float*)keys;  // [HPB][HEAD_STRIDE]
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float sum = keys_sum(of.sum[h]);
            const u32 head = 2 * p + h;
            if (lane < 4) most[warp][head] = of.m[h], total[warp][head] = sum;
            if (head < HPB) {
#pragma unroll
                for (int i = 0; i < DP / 16; i++) {
                    if (i * 16 + g < DIM) mine[head * HEAD_STRIDE + i * 16 + g] = acc[i][h];
                    if (i * 16 + 8 + g < DIM) mine[head * HEAD_STRIDE + i * 16 + 8 + g] = acc[i][2 + h];
                }
            }
        }
        __syncthreads();
        float* partials = KV_PARTIALS + (size_t)work.first * (HPB * PARTIAL);  // [splits][HPB][PARTIAL]
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            const u32 i = (o * THREADS + threadIdx.x) * 4, h = i / DIM, d = i % DIM;
            const bool is_there = i < HPB * DIM;
            float top = -INFINITE, all = 0;
            float4 y = make_float4(0, 0, 0, 0);
            if (is_there) {
#pragma unroll
                for (int w = 0; w < WARPS; w++) top = fmaxf(top, most[w][h]);
#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    const float f = scale_to(most[w][h], top);
                    const float4 x = *(const float4*)((const float*)((const u16*)dynamic + w * (2 * TILE)) + h * HEAD_STRIDE + d);
                    all += f * total[w][h];
                    y.x = fmaf(f, x.x, y.x), y.y = fmaf(f, x.y, y.y), y.z = fmaf(f, x.z, y.z), y.w = fmaf(f, x.w, y.w);
                }
            }
            if (work.splits == 1) {
                finish(A, is_there, row, head0 * DIM + i, y, all, gates[o]);
            } else if (is_there) {
                float* partial = partials + (work.split * HPB + h) * PARTIAL;
                *(float4*)(partial + d) = y;
                if (d == 0) partial[DIM] = top, partial[DIM + 1] = all;
            }
        }
        __syncthreads();
        // What follows is rare and far from here: a block whose parts are all done leaves without passing it.
        if (work.splits == 1 && place + RESIDENT_BLOCKS >= places) return;
        if (work.splits > 1) combine_last(A, work, row, head0, gates);
    }
    wait_for_inputs();
}
