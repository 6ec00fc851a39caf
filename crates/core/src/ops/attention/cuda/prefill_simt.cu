// Attention of many rows: a block is QUERIES adjacent queries of one sequence and one head, streaming over KEYS_TILE keys
// at a time with a running maximum and sum. The cache holds this step's keys already.
//
// v1: both tiles in shared memory as f32, eight threads a query, plain multiply-adds.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define QUERIES 32
#define KEYS_TILE 32
#include "heads.cuh"
#endif

typedef CacheRow<KEY_TYPE, DIM> KeyRow;
typedef CacheRow<VALUE_TYPE, DIM> ValueRow;
#define ROW_STRIDE (DIM + 4)

KERNEL {
    extern __shared__ uint4 dynamic[];
    float* q = (float*)dynamic;           // [QUERIES][ROW_STRIDE]
    float* kv = q + QUERIES * ROW_STRIDE;       // [KEYS_TILE][ROW_STRIDE]
    float* p = kv + KEYS_TILE * ROW_STRIDE;     // [QUERIES][KEYS_TILE]
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 head = block_index() % HEADS;
    u32 block = block_index() / HEADS, seq = 0, row0 = 0, n = 0;
    // The grid counts blocks as if every sequence had a broken one; the surplus finds none.
    for (; seq < batch.s(); seq++) {
        const u32 count = batch.span(seq, 1), blocks = (count + QUERIES - 1) / QUERIES;
        if (block < blocks) {
            row0 = batch.span(seq, 0) + block * QUERIES;
            n = min(count - block * QUERIES, (u32)QUERIES);
            break;
        }
        block -= blocks;
    }
    if (n == 0) return;
    const u32 kvh = head / (HEADS / KV_HEADS), pos0 = batch.position(row0);
    for (u32 i = warp_index(); i < QUERIES; i += WARPS) {
        float* to = q + i * ROW_STRIDE;
        if (i >= n) {
            for (u32 d = lane_index(); d < DIM; d += 32) to[d] = 0;
            continue;
        }
        const float* x = X_IN + ((size_t)(row0 + i) * HEADS + head) * Q_STRIDE;
        if (ROTATE_Q) {
            rotate_head<DIM, Q_PAIRS, Q_NEOX>(batch, Q_TABLE, row0 + i, x, Q_NORM_WEIGHT, Q_NORM_EPS, to);
            for (u32 d = lane_index(); d < DIM; d += 32) to[d] *= SCALE;
        } else {
            for (u32 d = lane_index(); d < DIM; d += 32) to[d] = x[d] * SCALE;
        }
    }
    const u32 i = threadIdx.x / 8, part = threadIdx.x % 8;
    const u32 own = pos0 + i, low = own + 1 > WINDOW ? own + 1 - WINDOW : 0;
    const u32 first = pos0 + 1 > WINDOW ? pos0 + 1 - WINDOW : 0, end = pos0 + n;
    float most = -INFINITE, total = 0;
    float4 acc[(DIM + 31) / 32];
#pragma unroll
    for (int c = 0; c < (DIM + 31) / 32; c++) acc[c] = make_float4(0, 0, 0, 0);
    for (u32 tile = first; tile < end; tile += KEYS_TILE) {
        const u32 keys = min((u32)KEYS_TILE, end - tile);
        __syncthreads();
        for (u32 at = threadIdx.x; at < KEYS_TILE * (DIM / 8); at += THREADS) {
            const u32 j = at / (DIM / 8), e = at % (DIM / 8) * 8;
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (j < keys) KeyRow::load8(KEYS + cache_at(batch, seq, tile + j, KV_HEADS, kvh, KeyRow::BYTES), e, v);
            *(float4*)(kv + j * ROW_STRIDE + e) = make_float4(v[0], v[1], v[2], v[3]);
            *(float4*)(kv + j * ROW_STRIDE + e + 4) = make_float4(v[4], v[5], v[6], v[7]);
        }
        __syncthreads();
        float s[KEYS_TILE / 8];
#pragma unroll
        for (int c = 0; c < KEYS_TILE / 8; c++) s[c] = 0;
        for (u32 d = 0; d < DIM; d += 4) {
            const float4 a = *(const float4*)(q + i * ROW_STRIDE + d);
#pragma unroll
            for (int c = 0; c < KEYS_TILE / 8; c++) s[c] = dot4(a, *(const float4*)(kv + (part + 8 * c) * ROW_STRIDE + d), s[c]);
        }
        float m = most;
#pragma unroll
        for (int c = 0; c < KEYS_TILE / 8; c++) {
            const u32 at = tile + part + 8 * c;
            if (HAS_SOFTCAP) s[c] = SOFTCAP * tanh_clamped(s[c] / SOFTCAP);
            if (at > own || at < low || at >= end) s[c] = -INFINITE;
            m = fmaxf(m, s[c]);
        }
#pragma unroll
        for (int o = 4; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
        // A tile may hold nothing that this query sees.
        const float base = m == -INFINITE ? 0.0f : m, f = expf(most - base);
        float sum = 0;
#pragma unroll
        for (int c = 0; c < KEYS_TILE / 8; c++) {
            const float w = expf(s[c] - base);
            p[i * KEYS_TILE + part + 8 * c] = w;
            sum += w;
        }
#pragma unroll
        for (int o = 4; o > 0; o >>= 1) sum += __shfl_xor_sync(FULL, sum, o);
        total = total * f + sum;
        most = m;
        __syncthreads();
        for (u32 at = threadIdx.x; at < KEYS_TILE * (DIM / 8); at += THREADS) {
            const u32 j = at / (DIM / 8), e = at % (DIM / 8) * 8;
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (j < keys) ValueRow::load8(VALUES + cache_at(batch, seq, tile + j, KV_HEADS, kvh, ValueRow::BYTES), e, v);
            *(float4*)(kv + j * ROW_STRIDE + e) = make_float4(v[0], v[1], v[2], v[3]);
            *(float4*)(kv + j * ROW_STRIDE + e + 4) = make_float4(v[4], v[5], v[6], v[7]);
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < (DIM + 31) / 32; c++) acc[c].x *= f, acc[c].y *= f, acc[c].z *= f, acc[c].w *= f;
        for (u32 j = 0; j < KEYS_TILE; j++) {
            const float w = p[i * KEYS_TILE + j];
#pragma unroll
            for (int c = 0; c < (DIM + 31) / 32; c++) {
                const u32 d = c * 32 + part * 4;
                if (DIM % 32 != 0 && d >= DIM) continue;
                const float4 v = *(const float4*)(kv + j * ROW_STRIDE + d);
                acc[c].x = fmaf(w, v.x, acc[c].x), acc[c].y = fmaf(w, v.y, acc[c].y);
                acc[c].z = fmaf(w, v.z, acc[c].z), acc[c].w = fmaf(w, v.w, acc[c].w);
            }
        }
    }
    if (i >= n) return;
    const size_t at = (size_t)(row0 + i) * HEADS + head;
#pragma unroll
    for (int c = 0; c < (DIM + 31) / 32; c++) {
        const u32 d = c * 32 + part * 4;
        if (DIM % 32 != 0 && d >= DIM) continue;
        float y[4] = {acc[c].x / total, acc[c].y / total, acc[c].z / total, acc[c].w / total};
#pragma unroll
        for (int o = 0; o < 4; o++) {
            if (GATE) y[o] *= sigmoid(GATE_IN[at * (2 * DIM) + DIM + d + o]);
            OUT[at * DIM + d + o] = y[o];
        }
    }
}
