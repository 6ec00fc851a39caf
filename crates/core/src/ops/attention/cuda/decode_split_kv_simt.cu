// Split-KV attention of up to 8 rows. A block has one token, HPB query heads of one key head, and one of SPLITS ranges of the
// visible positions; the block of a token and key head that finishes last combines the splits, in their order.
//
// Where the op writes the cache, this step's K/V are computed in shared memory, rounded as the cache rounds them; no block reads
// from the cache what the same launch writes. LPK lanes hold a key, eight elements each; each group of LPK lanes keeps the running
// maximum, sum and output of its own online softmax, and the groups are combined once, at the end of the block.
//
// v1: 16-byte loads of keys and values, queries in shared memory, online softmax over tiles of positions: 18.7 µs (0.5B),
//     24.8 (8B), 43.5 (9B) at 256 positions on an H200: latency of a dependent chain of page, key, page, value loads.
// v2: UNROLL keys and values a lane in flight; cached ones, pages and rotary angles loaded before the dependency wait; splits of 32
//     positions; no barrier between tiles; the rescale factors of the splits computed once.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define HPB 4
#define SPLITS 8
#define UNROLL 2
// Lanes of a key.
#define LPK 8
#include "heads.cuh"
#include "step_kv.cuh"
#endif

typedef CacheRow<KEY_TYPE, DIM> KeyRow;
typedef CacheRow<VALUE_TYPE, DIM> ValueRow;
#define PER_WARP (32 / LPK)
#define ROUND (WARPS * PER_WARP * UNROLL)
// Floats of a split's partial: the output before division by the sum, the maximum and the sum.
#define PARTIAL (DIM + 4)

// Applies the output gate to one element.
DEVICE float gated(const Args& A, u32 row, u32 head, u32 d, float y) {
    if (!GATE) return y;
    return y * sigmoid(GATE_IN[((size_t)row * HEADS + head) * (2 * DIM) + DIM + d]);
}

// Online-softmax rescale factor exp(m - m_new); `most`, the new maximum, is -inf where no key has been seen.
DEVICE float scale_to(float m, float most) { return expf(m - (most == -INFINITE ? 0.0f : most)); }

KERNEL {
    extern __shared__ uint4 dynamic[];
    __shared__ float most[WARPS][HPB], total[WARPS][HPB];
    __shared__ bool is_last;
    float* q = (float*)dynamic;            // [HPB][DIM]
    float* smem = q + HPB * DIM;           // [WARPS][HPB][DIM]; before that a head a warp
    u8* step_k = (u8*)(smem + WARPS * HPB * DIM);
    u8* step_v = step_k + (WRITE ? 8 * KeyRow::BYTES : 0);
    float* turns = (float*)(step_v + (WRITE ? 8 * ValueRow::BYTES : 0));  // [2][Q_PAIRS]
    float* weights = turns + 2 * Q_PAIRS;                                // [HPB][SPLITS]
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    const u32 split = block_index() % SPLITS, block = block_index() / SPLITS % (HEADS / HPB);
    const u32 row = block_index() / SPLITS / (HEADS / HPB);
    const u32 head0 = block * HPB, kv = head0 / (HEADS / KV_HEADS);
    const bool has_row = row < batch.t();
    const u32 seq = has_row ? batch.seq(row) : 0, pos = has_row ? batch.position(row) : 0;
    const u32 start = batch.span(seq, 2) - batch.span(seq, 1);
    const u32 first = pos + 1 > WINDOW ? pos + 1 - WINDOW : 0;
    const u32 step_first = WRITE ? max(start, first) : pos + 1;
    // Parts of whole tiles of 32 positions.
    const u32 visible = pos + 1 - first;
    const u32 share = ((visible + SPLITS - 1) / SPLITS + 31) / 32 * 32;
    const u32 splits = (visible + share - 1) / share;
    if (!has_row || split >= splits) {
        wait_for_inputs();
        return;
    }
    const u32 from = first + split * share, to = min(from + share, pos + 1);
    const u32 warp = warp_index(), lane = lane_index();
    const u32 lane_in_key = lane % LPK, e = lane_in_key * 8;
    const bool has_part = e < DIM;
    const u32 key0 = warp * (PER_WARP * UNROLL) + lane / LPK;
    const u32 page_len = batch.page_len();
    const u32* pages = batch.w + batch.w[8] + seq * batch.w[9];

    // Keys and values of a tile: those in the cache, then those of this step.
    typename KeyRow::Eight k[UNROLL];
    typename ValueRow::Eight v[UNROLL];
    size_t places[UNROLL];
    auto fetch_keys = [&](u32 tile) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const u32 at = tile + key0 + u * PER_WARP;
            k[u] = KeyRow::nothing();
            if (at < to && at < step_first && has_part) {
                places[u] = ((size_t)pages[at / page_len] * KV_HEADS + kv) * page_len + at % page_len;
                k[u] = KeyRow::fetch8(KEYS + places[u] * KeyRow::BYTES, e);
            }
        }
    };
    auto fetch_values = [&](u32 tile) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const u32 at = tile + key0 + u * PER_WARP;
            v[u] = ValueRow::nothing();
            if (at < to && at < step_first && has_part) v[u] = ValueRow::fetch8(VALUES + places[u] * ValueRow::BYTES, e);
        }
    };
    auto take_step_kv = [&](u32 tile) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const u32 at = tile + key0 + u * PER_WARP;
            if (at < to && at >= step_first && has_part) {
                k[u] = KeyRow::fetch8(step_k + (at - step_first) * KeyRow::BYTES, e);
                v[u] = ValueRow::fetch8(step_v + (at - step_first) * ValueRow::BYTES, e);
            }
        }
    };
    if (!WRITE) wait_for_inputs();
    fetch_keys(from);
    fetch_values(from);
    if (ROTATE_Q) {
        const float* angles = batch.turns(Q_TABLE, row, Q_PAIRS);
        for (u32 i = threadIdx.x; i < 2 * Q_PAIRS; i += THREADS) turns[i] = angles[i];
    }
    __syncthreads();
    if (WRITE) wait_for_inputs();

    for (u32 h = warp; h < HPB; h += WARPS) {
        const float* x = X_IN + ((size_t)row * HEADS + head0 + h) * Q_STRIDE;
        if (ROTATE_Q) {
            turn_head<DIM, Q_PAIRS, Q_NEOX>(turns, x, Q_NORM_WEIGHT, Q_NORM_EPS, q + h * DIM);
            for (u32 i = lane; i < DIM; i += 32) q[h * DIM + i] *= SCALE;
        } else {
            for (u32 i = lane; i < DIM; i += 32) q[h * DIM + i] = x[i] * SCALE;
        }
    }
    if (WRITE) {
        write_step_kv<KeyRow, ValueRow>(A, batch, turns, smem + warp * DIM, step_k, step_v, {row, seq, pos, kv, step_first, max(from, step_first), to, head0 % (HEADS / KV_HEADS) == 0});
    }
    __syncthreads();

    float mine[HPB][8], acc[HPB][8], m[HPB], sum[HPB];
#pragma unroll
    for (int h = 0; h < HPB; h++) {
        m[h] = -INFINITE, sum[h] = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            mine[h][i] = has_part ? q[h * DIM + e + i] : 0.0f;
            acc[h][i] = 0;
        }
    }
    if (WRITE) take_step_kv(from);
    for (u32 tile = from; tile < to; tile += ROUND) {
        const u32 next = tile + ROUND;
        float s[HPB][UNROLL], x[8];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            KeyRow::convert(k[u], x);
#pragma unroll
            for (int h = 0; h < HPB; h++) {
                s[h][u] = 0;
#pragma unroll
                for (int i = 0; i < 8; i++) s[h][u] = fmaf(mine[h][i], x[i], s[h][u]);
            }
        }
        if (next < to) fetch_keys(next);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const bool is_key = tile + key0 + u * PER_WARP < to;
#pragma unroll
            for (int h = 0; h < HPB; h++) {
#pragma unroll
                for (int i = LPK / 2; i > 0; i >>= 1) s[h][u] += __shfl_xor_sync(FULL, s[h][u], i);
                if (HAS_SOFTCAP) s[h][u] = SOFTCAP * tanh_clamped(s[h][u] / SOFTCAP);
                if (!is_key) s[h][u] = -INFINITE;
            }
        }
#pragma unroll
        for (int h = 0; h < HPB; h++) {
            float top = m[h];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) top = fmaxf(top, s[h][u]);
            const float f = scale_to(m[h], top);
            m[h] = top;
            sum[h] *= f;
#pragma unroll
            for (int i = 0; i < 8; i++) acc[h][i] *= f;
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                s[h][u] = scale_to(s[h][u], top);
                sum[h] += s[h][u];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            ValueRow::convert(v[u], x);
#pragma unroll
            for (int h = 0; h < HPB; h++) {
#pragma unroll
                for (int i = 0; i < 8; i++) acc[h][i] = fmaf(s[h][u], x[i], acc[h][i]);
            }
        }
        if (next < to) {
            fetch_values(next);
            if (WRITE) take_step_kv(next);
        }
    }
    // Over the keys of a warp, then over the warps.
#pragma unroll
    for (int h = 0; h < HPB; h++) {
        float top = m[h];
#pragma unroll
        for (int o = 16; o >= LPK; o >>= 1) top = fmaxf(top, __shfl_xor_sync(FULL, top, o));
        const float f = scale_to(m[h], top);
        sum[h] *= f;
#pragma unroll
        for (int o = 16; o >= LPK; o >>= 1) sum[h] += __shfl_xor_sync(FULL, sum[h], o);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            acc[h][i] *= f;
#pragma unroll
            for (int o = 16; o >= LPK; o >>= 1) acc[h][i] += __shfl_xor_sync(FULL, acc[h][i], o);
            if (lane < LPK && has_part) smem[(warp * HPB + h) * DIM + e + i] = acc[h][i];
        }
        if (lane == 0) most[warp][h] = top, total[warp][h] = sum[h];
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
            y += f * smem[(w * HPB + h) * DIM + d];
        }
        if (splits == 1) {
            OUT[((size_t)row * HEADS + head0 + h) * DIM + d] = gated(A, row, head0 + h, d, y / all);
        } else {
            float* partial = KV_PARTIALS + (((size_t)row * HEADS + head0 + h) * SPLITS + split) * PARTIAL;
            partial[d] = y;
            if (d == 0) partial[DIM] = top, partial[DIM + 1] = all;
        }
    }
    if (splits == 1) return;
    __threadfence();
    __syncthreads();
    u32* counter = SEMAPHORES + row * (HEADS / HPB) + block;
    if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
    const float* partials = KV_PARTIALS + ((size_t)row * HEADS + head0) * SPLITS * PARTIAL;
    for (u32 h = warp; h < HPB; h += WARPS) {
        const float* of_head = partials + h * SPLITS * PARTIAL + DIM;
        float tops[(SPLITS + 31) / 32], sums[(SPLITS + 31) / 32], top = -INFINITE, all = 0;
#pragma unroll
        for (int i = 0; i < (SPLITS + 31) / 32; i++) {
            const u32 s = i * 32 + lane;
            tops[i] = s < splits ? __ldcg(of_head + s * PARTIAL) : -INFINITE;
            sums[i] = s < splits ? __ldcg(of_head + s * PARTIAL + 1) : 0.0f;
            top = fmaxf(top, tops[i]);
        }
        top = warp_max(top);
#pragma unroll
        for (int i = 0; i < (SPLITS + 31) / 32; i++) {
            tops[i] = scale_to(tops[i], top);
            all += tops[i] * sums[i];
        }
        all = warp_sum(all);
#pragma unroll
        for (int i = 0; i < (SPLITS + 31) / 32; i++) {
            if (i * 32 + lane < splits) weights[h * SPLITS + i * 32 + lane] = tops[i] / all;
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < HPB * DIM / 4; i += THREADS) {
        const u32 h = i / (DIM / 4), d = i % (DIM / 4) * 4;
        const float* partial = partials + h * SPLITS * PARTIAL + d;
        float4 y = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (u32 s = 0; s < splits; s++) {
            const float4 x = __ldcg((const float4*)(partial + s * PARTIAL));
            const float f = weights[h * SPLITS + s];
            y.x = fmaf(f, x.x, y.x), y.y = fmaf(f, x.y, y.y), y.z = fmaf(f, x.z, y.z), y.w = fmaf(f, x.w, y.w);
        }
        float* out = OUT + ((size_t)row * HEADS + head0 + h) * DIM + d;
        out[0] = gated(A, row, head0 + h, d, y.x), out[1] = gated(A, row, head0 + h, d + 1, y.y);
        out[2] = gated(A, row, head0 + h, d + 2, y.z), out[3] = gated(A, row, head0 + h, d + 3, y.w);
    }
}
