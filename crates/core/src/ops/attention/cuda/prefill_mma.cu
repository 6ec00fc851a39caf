// Attention of many rows on tensor cores. A block has ROWS rows, each a query and one of HPB heads of a
// key head (they share its keys), and streams over KEYS_TILE keys at a time with a running maximum and sum; a warp has 16 of
// the rows. With SPLIT_KEYS (few rows) all warps have the same 16 rows and each has keys of its own; they meet at the end.
// The cache holds this step's keys already.
//
// Queries and weights are two f16 numbers each, the second what the first one's rounding left: products with the cache's f16
// are then as exact as in f32, for twice the multiplications but no more reads of shared memory.
//
// On an H200, for a prompt of 2048 (Llama-8B, Qwen2.5-0.5B, Qwen3.5-9B), and for one row each of 32 texts at 256 (Llama-8B):
// v1 (prefill_simt.cu): f32 multiply-adds, eight threads a query: 3062, 774 and 3397 µs a layer; 222.
// v2: this kernel: 232, 63 and 315; 21. Slower were four warps a block (262 and 92 µs), tiles of 32 keys (259 and 75) and two
//     blocks an SM (no difference). Without the second parts of queries and weights it would be 178 and 48, with an
//     error of 2e-4 instead of 1e-6.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#include "operands.cuh"
#define ROWS 64
#define HPB 4
#define QUERIES 16
#define KEYS_TILE 64
#define SPLIT_KEYS 0
#define QUERIES_STAY 1
#include "tensor.cuh"
#include "heads.cuh"
#include "softmax.cuh"
#endif

#define DP ((DIM + 15) / 16 * 16)
// Halves from one row to the next: rows begin in different banks.
#define ROW_STRIDE (DP + 8)
#define RPL ((DIM + 31) / 32)
#define KEY_THREADS (SPLIT_KEYS ? 32 : THREADS)
// A tile of keys or of values: f16, and what rounding left if the cache holds something else.
#define PARTS (KEY_TYPE == CACHE_F16 && VALUE_TYPE == CACHE_F16 ? 1 : 2)
#define TILE (KEYS_TILE * ROW_STRIDE)
#define HELD (PARTS * TILE)

// Eight elements from element `e` of a row of a cache (row `at` of all) to a tile.
template <int TYPE> DEVICE void bring(u16* to, const u8* cache, size_t at, u32 e, bool is_there) {
    typedef CacheRow<TYPE, DIM> Row;
    if (TYPE == CACHE_F16) {
        copy16(to, cache + (is_there ? at * Row::BYTES + e * 2 : 0), is_there);
        if (PARTS == 2) copy16(to + TILE, cache, false);
        return;
    }
    float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (is_there) Row::load8(cache + at * Row::BYTES, e, v);
    uint4 high, low;
    split_f16(v[0], v[1], high.x, low.x), split_f16(v[2], v[3], high.y, low.y);
    split_f16(v[4], v[5], high.z, low.z), split_f16(v[6], v[7], high.w, low.w);
    *(uint4*)to = high;
    *(uint4*)(to + TILE) = low;
}

DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL, x, 1));
    return fmaxf(x, __shfl_xor_sync(FULL, x, 2));
}
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(FULL, x, 1);
    return x + __shfl_xor_sync(FULL, x, 2);
}

// Four rows of queries from row `r`: normed, rotated, scaled, and split. `smem`: [4][DP] floats of this warp.
DEVICE void make_queries(const Args& A, const Batch& batch, u32 r, u32 row0, u32 n, u32 head0, float* smem, u16* high, u16* low) {
    const u32 lane = lane_index();
    float x[4][RPL];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const u32 query = (r + j) / HPB;
        const float* from = X_IN + ((size_t)(row0 + query) * HEADS + head0 + (r + j) % HPB) * Q_STRIDE;
#pragma unroll
        for (int c = 0; c < RPL; c++) x[j][c] = query < n && c * 32 + lane < DIM ? from[c * 32 + lane] : 0.0f;
    }
    if (ROTATE_Q && Q_NORM_WEIGHT) {
        float s[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            s[j] = 0;
#pragma unroll
            for (int c = 0; c < RPL; c++) s[j] += x[j][c] * x[j][c];
        }
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = 1.0f / sqrtf(warp_sum(s[j]) / (float)DIM + Q_NORM_EPS);
#pragma unroll
        for (int c = 0; c < RPL; c++) {
            const float w = c * 32 + lane < DIM ? Q_NORM_WEIGHT[c * 32 + lane] : 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++) x[j][c] *= s[j] * w;
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int c = 0; c < RPL; c++) {
            if (c * 32 + lane < DP) smem[j * DP + c * 32 + lane] = x[j][c];
        }
    }
    __syncwarp();
#if ROTATE_Q
#pragma unroll 4
    for (u32 at = lane; at < 4 * Q_PAIRS; at += 32) {
        const u32 j = at / Q_PAIRS, i = at % Q_PAIRS, query = (r + j) / HPB;
        if (query >= n) continue;
        const float* turns = batch.turns(Q_TABLE, row0 + query, Q_PAIRS);
        float* head = smem + j * DP;
        const u32 a = Q_NEOX ? i : 2 * i, b = Q_NEOX ? i + Q_PAIRS : 2 * i + 1;
        const float c = turns[i], s = turns[Q_PAIRS + i], p = head[a], q = head[b];
        head[a] = p * c - q * s;
        head[b] = p * s + q * c;
    }
    __syncwarp();
#endif
    for (u32 at = lane; at < 4 * (DP / 2); at += 32) {
        const u32 j = at / (DP / 2), d = at % (DP / 2) * 2;
        u32 first, second;
        split_f16(smem[j * DP + d] * (SCALE * LOG2E), smem[j * DP + d + 1] * (SCALE * LOG2E), first, second);
        *(u32*)(high + (r + j) * ROW_STRIDE + d) = first;
        *(u32*)(low + (r + j) * ROW_STRIDE + d) = second;
    }
    __syncwarp();
}

// What is left to do with two numbers of the output.
DEVICE void finish(const Args& A, size_t at, u32 d, float a, float b) {
    if (GATE) {
        const float* gate = GATE_IN + at * (2 * DIM) + DIM + d;
        a *= sigmoid(gate[0]), b *= sigmoid(gate[1]);
    }
    *(float2*)(OUT + at * DIM + d) = float2{a, b};
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    u16* high = (u16*)dynamic;           // [ROWS][ROW_STRIDE]
    u16* low = high + ROWS * ROW_STRIDE;       // [ROWS][ROW_STRIDE]
    u16* tiles = low + ROWS * ROW_STRIDE;      // [warp groups][2][keys, values][PARTS][KEYS_TILE][ROW_STRIDE]
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 head0 = block_index() % (HEADS / HPB) * HPB;
    u32 block = block_index() / (HEADS / HPB), seq = 0, row0 = 0, n = 0;
    // The grid counts blocks as if every sequence had a broken one; the surplus finds none. The last block of a sequence sees
    // the most keys and comes first.
    for (; seq < batch.s(); seq++) {
        const u32 count = batch.span(seq, 1), blocks = (count + QUERIES - 1) / QUERIES;
        if (block < blocks) {
            const u32 before = (blocks - 1 - block) * QUERIES;
            row0 = batch.span(seq, 0) + before;
            n = min(count - before, (u32)QUERIES);
            break;
        }
        block -= blocks;
    }
    if (n == 0) return;
    const u32 kvh = head0 / (HEADS / KV_HEADS), pos0 = batch.position(row0);
    const u32 warp = warp_index(), lane = lane_index();
    const u32 member = SPLIT_KEYS ? lane : threadIdx.x;
    const u32 first = pos0 + 1 > WINDOW ? pos0 + 1 - WINDOW : 0, end = pos0 + n;
    const u32 stride = SPLIT_KEYS ? WARPS * KEYS_TILE : KEYS_TILE;
    const u32 page_len = batch.page_len();
    const u32* pages = batch.w + batch.w[8] + seq * batch.w[9];
    if (SPLIT_KEYS) tiles += warp * (4 * HELD);

    auto fetch = [&](u32 tile, u32 buffer) {
        u16* keys = tiles + buffer * (2 * HELD);
        const u32 first_page = tile / page_len, first_offset = tile - first_page * page_len;
#pragma unroll
        for (u32 at = member; at < KEYS_TILE * (DP / 8); at += KEY_THREADS) {
            const u32 j = at / (DP / 8), e = at % (DP / 8) * 8;
            u32 page = first_page, offset = first_offset + j;
            while (offset >= page_len) offset -= page_len, page++;
            const bool is_there = tile + j < end && e < DIM;
            const size_t place = is_there ? ((size_t)pages[page] * KV_HEADS + kvh) * page_len + offset : 0;
            bring<KEY_TYPE>(keys + j * ROW_STRIDE + e, KEYS, place, e, is_there);
            bring<VALUE_TYPE>(keys + HELD + j * ROW_STRIDE + e, VALUES, place, e, is_there);
        }
        copies_end();
    };
    u32 tile = first + (SPLIT_KEYS ? warp * KEYS_TILE : 0);
    fetch(tile, 0);

    // Queries: the second buffer is free until the first tile is there.
    float* smem = (float*)(tiles + 2 * HELD) + (SPLIT_KEYS ? 0 : warp * (4 * DP));
    const u32 own_rows = ROWS / WARPS;
#pragma unroll 1
    for (u32 r = 0; r < own_rows; r += 4) make_queries(A, batch, warp * own_rows + r, row0, n, head0, smem, high, low);
    if (SPLIT_KEYS) __syncthreads();
    const u32 base = SPLIT_KEYS ? 0 : warp * 16;
    const u32 query_place = (base + lane % 16) * ROW_STRIDE + lane / 16 * 8;
#if QUERIES_STAY
    u32 first_part[DP / 16][4], second_part[DP / 16][4];
#pragma unroll
    for (int k = 0; k < DP / 16; k++) {
        load_matrices(first_part[k], high + query_place + k * 16);
        load_matrices(second_part[k], low + query_place + k * 16);
    }
#endif
    const u32 row_a = base + lane / 4, row_b = row_a + 8;
    const u32 own_a = pos0 + row_a / HPB, own_b = pos0 + row_b / HPB;
    const u32 low_a = own_a + 1 > WINDOW ? own_a + 1 - WINDOW : 0, low_b = own_b + 1 > WINDOW ? own_b + 1 - WINDOW : 0;
    // Tiles that every row of the block sees whole need no look at positions.
    const u32 last = pos0 + n - 1, all_from = last + 1 > WINDOW ? last + 1 - WINDOW : 0;
    float most_a = -INFINITE, most_b = -INFINITE, total_a = 0, total_b = 0;
    float acc[DP / 8][4];
#pragma unroll
    for (int i = 0; i < DP / 8; i++) acc[i][0] = 0, acc[i][1] = 0, acc[i][2] = 0, acc[i][3] = 0;

    for (u32 buffer = 0; tile < end; tile += stride, buffer ^= 1) {
        copies_wait<0>();
        if (SPLIT_KEYS) __syncwarp();
        else __syncthreads();
        if (tile + stride < end) fetch(tile + stride, buffer ^ 1);
        const u16* keys = tiles + buffer * (2 * HELD);
        const u16* values = keys + HELD;
        float s[KEYS_TILE / 8][4];
#pragma unroll
        for (int i = 0; i < KEYS_TILE / 8; i++) s[i][0] = 0, s[i][1] = 0, s[i][2] = 0, s[i][3] = 0;
#pragma unroll
        for (int k = 0; k < DP / 16; k++) {
#if QUERIES_STAY
            const u32(&q)[4] = first_part[k];
            const u32(&rest)[4] = second_part[k];
#else
            u32 q[4], rest[4];
            load_matrices(q, high + query_place + k * 16);
            load_matrices(rest, low + query_place + k * 16);
#endif
#pragma unroll
            for (int i = 0; i < KEYS_TILE / 16; i++) {
                u32 b[4];
                const u16* from = keys + (i * 16 + lane / 16 * 8 + lane % 8) * ROW_STRIDE + k * 16 + lane / 8 % 2 * 8;
                load_matrices(b, from);
                mma_f16(s[2 * i], q, b[0], b[1]);
                mma_f16(s[2 * i + 1], q, b[2], b[3]);
                mma_f16(s[2 * i], rest, b[0], b[1]);
                mma_f16(s[2 * i + 1], rest, b[2], b[3]);
                if (PARTS == 1) continue;
                load_matrices(b, from + TILE);
                mma_f16(s[2 * i], q, b[0], b[1]);
                mma_f16(s[2 * i + 1], q, b[2], b[3]);
            }
        }
        if (HAS_SOFTCAP) {
#pragma unroll
            for (int i = 0; i < KEYS_TILE / 8; i++) {
#pragma unroll
                for (int c = 0; c < 4; c++) s[i][c] = (SOFTCAP * LOG2E) * tanh_clamped(s[i][c] / (SOFTCAP * LOG2E));
            }
        }
        if (tile + KEYS_TILE > pos0 + 1 || tile < all_from) {
#pragma unroll
            for (int i = 0; i < KEYS_TILE / 8; i++) {
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const u32 at = tile + i * 8 + lane % 4 * 2 + c;
                    if (at > own_a || at < low_a) s[i][c] = -INFINITE;
                    if (at > own_b || at < low_b) s[i][2 + c] = -INFINITE;
                }
            }
        }
        float top_a = most_a, top_b = most_b;
#pragma unroll
        for (int i = 0; i < KEYS_TILE / 8; i++) {
            top_a = fmaxf(top_a, fmaxf(s[i][0], s[i][1]));
            top_b = fmaxf(top_b, fmaxf(s[i][2], s[i][3]));
        }
        top_a = quad_max(top_a), top_b = quad_max(top_b);
        const float f_a = scale_to(most_a, top_a), f_b = scale_to(most_b, top_b);
        most_a = top_a, most_b = top_b;
        total_a *= f_a, total_b *= f_b;
        // A tile may hold nothing that a row sees.
        const float base_a = top_a == -INFINITE ? 0.0f : top_a, base_b = top_b == -INFINITE ? 0.0f : top_b;
#pragma unroll
        for (int i = 0; i < KEYS_TILE / 8; i++) {
#pragma unroll
            for (int c = 0; c < 2; c++) {
                s[i][c] = exp2_fast(s[i][c] - base_a), s[i][2 + c] = exp2_fast(s[i][2 + c] - base_b);
                total_a += s[i][c], total_b += s[i][2 + c];
            }
        }
#pragma unroll
        for (int i = 0; i < DP / 8; i++) acc[i][0] *= f_a, acc[i][1] *= f_a, acc[i][2] *= f_b, acc[i][3] *= f_b;
#pragma unroll
        for (int k = 0; k < KEYS_TILE / 16; k++) {
            u32 p[4], rest[4];
            split_f16(s[2 * k][0], s[2 * k][1], p[0], rest[0]);
            split_f16(s[2 * k][2], s[2 * k][3], p[1], rest[1]);
            split_f16(s[2 * k + 1][0], s[2 * k + 1][1], p[2], rest[2]);
            split_f16(s[2 * k + 1][2], s[2 * k + 1][3], p[3], rest[3]);
#pragma unroll
            for (int i = 0; i < DP / 16; i++) {
                u32 b[4];
                const u16* from = values + (k * 16 + lane % 16) * ROW_STRIDE + i * 16 + lane / 16 * 8;
                load_transposed(b, from);
                mma_f16(acc[2 * i], p, b[0], b[1]);
                mma_f16(acc[2 * i + 1], p, b[2], b[3]);
                mma_f16(acc[2 * i], rest, b[0], b[1]);
                mma_f16(acc[2 * i + 1], rest, b[2], b[3]);
                if (PARTS == 1) continue;
                load_transposed(b, from + TILE);
                mma_f16(acc[2 * i], p, b[0], b[1]);
                mma_f16(acc[2 * i + 1], p, b[2], b[3]);
            }
        }
    }
    total_a = quad_sum(total_a), total_b = quad_sum(total_b);
#if SPLIT_KEYS
    // Every warp's part lies where its own tiles were.
    float* part = (float*)tiles;  // [16][DP], then 16 maxima and 16 sums
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < DP / 8; i++) {
        const u32 d = i * 8 + lane % 4 * 2;
        *(float2*)(part + row_a * DP + d) = float2{acc[i][0], acc[i][1]};
        *(float2*)(part + row_b * DP + d) = float2{acc[i][2], acc[i][3]};
    }
    if (lane % 4 == 0) {
        part[16 * DP + row_a] = most_a, part[16 * DP + row_b] = most_b;
        part[16 * DP + 16 + row_a] = total_a, part[16 * DP + 16 + row_b] = total_b;
    }
    __syncthreads();
    const float* parts = (const float*)(low + ROWS * ROW_STRIDE);
    for (u32 at = threadIdx.x; at < n * HPB * (DIM / 2); at += THREADS) {
        const u32 r = at / (DIM / 2), d = at % (DIM / 2) * 2;
        float top = -INFINITE, all = 0, x = 0, y = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) top = fmaxf(top, parts[w * 2 * HELD + 16 * DP + r]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float* of = parts + w * 2 * HELD;
            const float f = scale_to(of[16 * DP + r], top);
            all += f * of[16 * DP + 16 + r];
            x += f * of[r * DP + d], y += f * of[r * DP + d + 1];
        }
        finish(A, (size_t)(row0 + r / HPB) * HEADS + head0 + r % HPB, d, x / all, y / all);
    }
#else
    const float by_a = 1.0f / total_a, by_b = 1.0f / total_b;
    const bool has_a = row_a / HPB < n, has_b = row_b / HPB < n;
    const size_t at_a = (size_t)(row0 + row_a / HPB) * HEADS + head0 + row_a % HPB;
    const size_t at_b = (size_t)(row0 + row_b / HPB) * HEADS + head0 + row_b % HPB;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        const u32 d = i * 8 + lane % 4 * 2;
        if (has_a) finish(A, at_a, d, acc[i][0] * by_a, acc[i][1] * by_a);
        if (has_b) finish(A, at_b, d, acc[i][2] * by_b, acc[i][3] * by_b);
    }
#endif
}
