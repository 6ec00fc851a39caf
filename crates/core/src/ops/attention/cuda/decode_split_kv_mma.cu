// Attention of up to 8 rows over caches in f16, on tensor cores. A block is one token, HPB (at most 8) query heads of one key
// head, and a part of the visible positions; CLUSTER blocks reach into each other's shared memory to add their parts up, and
// where positions are many, CLUSTERS of those leave sums in memory for the last block of all.
//
// Keys and values go from memory straight into the registers that the tensor cores want: a product does not mind in which
// order its sum runs, so dimensions are counted as 16-byte loads bring them. Scores are keys x heads, outputs dimensions x
// heads; queries and weights are two f16 numbers each, the second what the first one's rounding left, which keeps f32's
// exactness. Keys and values of this step are made in shared memory where the op writes the cache; nobody reads from the
// cache what the same launch writes.
//
// v1, v2 (decode_split_kv_simt.cu): f32 multiply-adds, lanes that share keys; 11.5 µs at 256 positions (0.5B and 8B) in a whole tick on an
//     H200.
// v3: this kernel, at first 4.9 µs (8B), 3.9 (0.5B) and 7.1 (9B) at 256 positions where v2 has 7.8, 7.4 and 10.6 in the same
//     loop; 48 at 32,000 (8B) where v2 has 89. Clocks showed 1300 cycles for a last barrier that waited for stores and 1800 for
//     the reduction over warps, whose partials had bank conflicts; a long loop divided by a page's length for every row.
// v4: no order at the last barrier, heads padded by an odd number of banks, pages counted on: 4.3 to 4.8, 3.7 and 6.7; with five clusters, 320
//     blocks 41 at 32,000 (3.2 TB/s). Two tiles ahead: 11.4 instead of 13.8 (0.5B, 32,000), but 66 for heads of 128, whose
//     clusters then no longer fit. Eight rows of 8B: 12.6 with clusters of 8, 7.3 with 4. What is left at 256: 1200 cycles for
//     the batch's words one after the other (before the wait), then 600 for queries, 900 for the block that makes this step's
//     key, 900 for keys and values, 1400 for the reduction over warps, 700 for the one over blocks.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define HPB 4
#define CLUSTER 1
#define CLUSTERS 8
#define LEAST 64
#include "tensor.cuh"
#include "heads.cuh"
#include "step_kv.cuh"
#include "softmax.cuh"
#endif

typedef CacheRow<CACHE_F16, DIM> Row;
#define KB ((DIM + 31) / 32)
#define VB ((DIM + 63) / 64)
// Tiles on their way or at work; more would cost large heads a block.
#define AHEAD (DIM <= 64 ? 2 : 1)
// Floats from one head to the next in shared memory: other banks.
#define HEAD_STRIDE (DIM + 2)
#define QUERY_STRIDE (DIM + 4)
#define OUTPUTS ((HPB * DIM + CLUSTER * THREADS - 1) / (CLUSTER * THREADS))

DEVICE u32 word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

KERNEL {
    extern __shared__ uint4 dynamic[];
    __shared__ float most[WARPS][8], total[WARPS][8], top_here[8], all_here[8];
    __shared__ bool is_last;
    uint4* q_fragments = dynamic;                      // [KB * 2][32]: a lane's two pairs, high and low
    float* q = (float*)(q_fragments + KB * 2 * 32);    // [HPB][QUERY_STRIDE]; in the end this block's output, not yet divided
    float* smem = q + HPB * QUERY_STRIDE;               // [WARPS][HPB][HEAD_STRIDE]; before that a head a warp
    float* turns = smem + WARPS * HPB * HEAD_STRIDE;    // [2][Q_PAIRS], a multiple of 4 floats
    u8* step_k = (u8*)(turns + (2 * Q_PAIRS + 3) / 4 * 4);
    u8* step_v = step_k + (WRITE ? 8 * Row::BYTES : 0);
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    const u32 split = block_index() % (CLUSTER * CLUSTERS), rank = split % CLUSTER, cluster = split / CLUSTER;
    const u32 block = block_index() / (CLUSTER * CLUSTERS) % (HEADS / HPB);
    const u32 row = block_index() / (CLUSTER * CLUSTERS) / (HEADS / HPB);
    const u32 head0 = block * HPB, kv = head0 / (HEADS / KV_HEADS);
    const bool has_row = row < batch.t();
    const u32 seq = has_row ? batch.seq(row) : 0, pos = has_row ? batch.position(row) : 0;
    const u32 start = batch.span(seq, 2) - batch.span(seq, 1);
    const u32 first = pos + 1 > WINDOW ? pos + 1 - WINDOW : 0;
    const u32 step_first = WRITE ? max(start, first) : pos + 1;
    const u32 visible = pos + 1 - first;
    // No more clusters than give each block LEAST positions.
    const u32 clusters = min((u32)CLUSTERS, (visible + CLUSTER * LEAST - 1) / (CLUSTER * LEAST));
    const u32 share = ((visible + clusters * CLUSTER - 1) / (clusters * CLUSTER) + STEP - 1) / STEP * STEP;
    // All blocks of a cluster go, or none.
    if (!has_row || cluster >= clusters) {
        wait_for_inputs();
        return;
    }
    const u32 from = first + split * share, to = min(from + share, pos + 1);
    const u32 warp = warp_index(), lane = lane_index(), g = lane / 4, p = lane % 4;
    const u32 page_len = batch.page_len();
    const u32* pages = batch.w + batch.w[8] + seq * batch.w[9];

    // A lane's keys g and g + 8, eight elements of each 32; its values 2p, 2p + 1 and 8 more, eight of each 64; of AHEAD tiles.
    uint4 k[AHEAD][2][KB], v[AHEAD][4][VB];
    // Keys and values of tile `coming` lie from `offset` of its page on, and on the pages that follow.
    auto row_of = [&](u32 page, u32 offset, const u8* cache) {
        while (offset >= page_len) offset -= page_len, page++;
        return cache + (((size_t)pages[page] * KV_HEADS + kv) * page_len + offset) * Row::BYTES;
    };
    u32 coming = from + warp * STEP, page = coming / page_len, offset = coming % page_len;
    auto take_keys = [&](uint4 (&k)[2][KB], u32 tile, bool is_step) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const u32 at = tile + g + 8 * i;
            const bool is_mine = at < to && (at >= step_first) == is_step;
            const u8* from_row = is_step ? step_k + (at - step_first) * Row::BYTES : is_mine ? row_of(page, offset + g + 8 * i, KEYS) : KEYS;
#pragma unroll
            for (int b = 0; b < KB; b++) {
                if (!is_step) k[i][b] = make_uint4(0, 0, 0, 0);
                if (is_mine && b * 32 + p * 8 < DIM) k[i][b] = *(const uint4*)(from_row + (b * 32 + p * 8) * 2);
            }
        }
    };
    auto take_values = [&](uint4 (&v)[4][VB], u32 tile, bool is_step) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 at = tile + 2 * p + i % 2 + i / 2 * 8;
            const bool is_mine = at < to && (at >= step_first) == is_step;
            const u8* from_row = is_step ? step_v + (at - step_first) * Row::BYTES : is_mine ? row_of(page, offset + 2 * p + i % 2 + i / 2 * 8, VALUES) : VALUES;
#pragma unroll
            for (int b = 0; b < VB; b++) {
                if (!is_step) v[i][b] = make_uint4(0, 0, 0, 0);
                if (is_mine && b * 64 + g * 8 < DIM) v[i][b] = *(const uint4*)(from_row + (b * 64 + g * 8) * 2);
            }
        }
    };
    if (!WRITE) wait_for_inputs();
    auto go_on = [&]() {
        coming += WARPS * STEP, offset += WARPS * STEP;
        while (offset >= page_len) offset -= page_len, page++;
    };
#pragma unroll
    for (int b = 0; b < AHEAD; b++) take_keys(k[b], coming, false), take_values(v[b], coming, false), go_on();
    if (ROTATE_Q) {
        const float* angles = batch.turns(Q_TABLE, row, Q_PAIRS);
        for (u32 i = threadIdx.x; i < 2 * Q_PAIRS; i += THREADS) turns[i] = angles[i];
    }
    __syncthreads();
    if (WRITE) wait_for_inputs();

    float gates[OUTPUTS];
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        const u32 i = (o * CLUSTER + rank) * THREADS + threadIdx.x;
        gates[o] = 0;
        if (GATE && i < HPB * DIM) gates[o] = GATE_IN[((size_t)row * HEADS + head0 + i / DIM) * (2 * DIM) + DIM + i % DIM];
    }
    take_queries<QUERY_STRIDE>(A, turns, row, head0, q);
    if (WRITE) {
        write_step_kv<Row, Row>(A, batch, turns, smem + warp * HEAD_STRIDE, step_k, step_v, {row, seq, pos, kv, step_first, max(from, step_first), to, head0 % (HEADS / KV_HEADS) == 0});
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < KB * 2 * 32; i += THREADS) {
        const u32 h = i % 32 / 4, d = i / 64 * 32 + i % 4 * 8 + i / 32 % 2 * 4;
        float4 x = make_float4(0, 0, 0, 0);
        if (h < HPB && d < DIM) x = *(const float4*)(q + h * QUERY_STRIDE + d);
        x.x *= SCALE * LOG2E, x.y *= SCALE * LOG2E, x.z *= SCALE * LOG2E, x.w *= SCALE * LOG2E;
        uint4 y;
        split_f16(x.x, x.y, y.x, y.z);
        split_f16(x.z, x.w, y.y, y.w);
        q_fragments[i] = y;
    }
    __syncthreads();

    float acc[VB * 4][4];
    Softmax of = {{-INFINITE, -INFINITE}, {0, 0}};
#pragma unroll
    for (int i = 0; i < VB * 4; i++) acc[i][0] = 0, acc[i][1] = 0, acc[i][2] = 0, acc[i][3] = 0;
    auto see = [&](u32 tile, uint4 (&k)[2][KB], uint4 (&v)[4][VB]) {
        if (WRITE && tile + STEP > step_first) take_keys(k, tile, true), take_values(v, tile, true);
        // Four sums, so that few products wait for each other.
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) s[i][0] = 0, s[i][1] = 0, s[i][2] = 0, s[i][3] = 0;
#pragma unroll
        for (int b = 0; b < KB; b++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 a[4] = {word(k[0][b], 2 * i), word(k[1][b], 2 * i), word(k[0][b], 2 * i + 1), word(k[1][b], 2 * i + 1)};
                const uint4 x = q_fragments[(b * 2 + i) * 32 + lane];
                mma_f16(s[i], a, x.x, x.y);
                mma_f16(s[2 + i], a, x.z, x.w);
            }
        }
        if (coming < to) take_keys(k, coming, false);
        float f[2];
        u32 high[2], low[2];
        // The warp's first position is always one.
        weigh(s, to - tile, of, f, high, low);
#pragma unroll
        for (int i = 0; i < VB * 4; i++) acc[i][0] *= f[0], acc[i][1] *= f[1], acc[i][2] *= f[0], acc[i][3] *= f[1];
#pragma unroll
        for (int b = 0; b < VB; b++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 v0 = word(v[0][b], i), v1 = word(v[1][b], i), v2 = word(v[2][b], i), v3 = word(v[3][b], i);
                const u32 a[4] = {__byte_perm(v0, v1, 0x5410), __byte_perm(v0, v1, 0x7632), __byte_perm(v2, v3, 0x5410),
                                  __byte_perm(v2, v3, 0x7632)};
                mma_f16(acc[b * 4 + i], a, high[0], high[1]);
                mma_f16(acc[b * 4 + i], a, low[0], low[1]);
            }
        }
        if (coming < to) take_values(v, coming, false), go_on();
    };
    for (u32 tile = from + warp * STEP; tile < to; tile += AHEAD * WARPS * STEP) {
#pragma unroll
        for (int b = 0; b < AHEAD; b++) {
            if (tile + b * (WARPS * STEP) < to) see(tile + b * (WARPS * STEP), k[b], v[b]);
        }
    }
    // Over the warps.
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float sum = keys_sum(of.sum[h]);
        const u32 head = 2 * p + h;
        if (lane < 4) most[warp][head] = of.m[h], total[warp][head] = sum;
        if (head < HPB) {
#pragma unroll
            for (int b = 0; b < VB; b++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const u32 d = b * 64 + g * 8 + 2 * i;
                    if (d < DIM) *(float2*)(smem + (warp * HPB + head) * HEAD_STRIDE + d) = float2{acc[b * 4 + i][h], acc[b * 4 + i][2 + h]};
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < HPB * DIM; i += THREADS) {
        const u32 h = i / DIM, d = i % DIM;
        float top = -INFINITE, all = 0, y = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) top = fmaxf(top, most[w][h]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float f = scale_to(most[w][h], top);
            all += f * total[w][h];
            y += f * smem[(w * HPB + h) * HEAD_STRIDE + d];
        }
        q[h * QUERY_STRIDE + d] = y;
        if (d == 0) top_here[h] = top, all_here[h] = all;
    }
    // Over the blocks of a cluster: each has some of the numbers.
    if (CLUSTER > 1) cluster_sync();
    else __syncthreads();
    float* partials = KV_PARTIALS + ((size_t)row * HEADS + head0) * CLUSTERS * PARTIAL;
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        const u32 i = (o * CLUSTER + rank) * THREADS + threadIdx.x, h = i / DIM, d = i % DIM;
        if (i >= HPB * DIM) continue;
        float tops[CLUSTER], alls[CLUSTER], ys[CLUSTER], top = -INFINITE, all = 0, y = 0;
#pragma unroll
        for (int c = 0; c < CLUSTER; c++) {
            if (CLUSTER > 1) tops[c] = of_block(top_here + h, c), alls[c] = of_block(all_here + h, c), ys[c] = of_block(q + h * QUERY_STRIDE + d, c);
            else tops[c] = top_here[h], alls[c] = all_here[h], ys[c] = q[h * QUERY_STRIDE + d];
        }
#pragma unroll
        for (int c = 0; c < CLUSTER; c++) top = fmaxf(top, tops[c]);
#pragma unroll
        for (int c = 0; c < CLUSTER; c++) {
            const float f = scale_to(tops[c], top);
            all += f * alls[c], y += f * ys[c];
        }
        if (clusters == 1) {
            y /= all;
            OUT[((size_t)row * HEADS + head0) * DIM + i] = GATE ? y * sigmoid(gates[o]) : y;
        } else {
            float* partial = partials + ((size_t)h * CLUSTERS + cluster) * PARTIAL;
            partial[d] = y;
            if (d == 0) partial[DIM] = top, partial[DIM + 1] = all;
        }
    }
    // Nobody's shared memory goes before the others have read it.
    if (CLUSTER > 1) cluster_leave();
    if (clusters == 1) return;
    __threadfence();
    __syncthreads();
    u32* counter = SEMAPHORES + row * (HEADS / HPB) + block;
    if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == clusters * CLUSTER - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
    for (u32 i = threadIdx.x; i < HPB * DIM / 4; i += THREADS) {
        const u32 h = i / (DIM / 4), d = i % (DIM / 4) * 4;
        float all;
        const float4 y = combine_splits(partials + (size_t)h * CLUSTERS * PARTIAL, clusters, PARTIAL, d, all);
        float z[4] = {y.x / all, y.y / all, y.z / all, y.w / all};
        const size_t head = (size_t)row * HEADS + head0 + h;
#pragma unroll
        for (int o = 0; o < 4; o++) {
            if (GATE) z[o] *= sigmoid(GATE_IN[head * (2 * DIM) + DIM + d + o]);
            OUT[head * DIM + d + o] = z[o];
        }
    }
}
