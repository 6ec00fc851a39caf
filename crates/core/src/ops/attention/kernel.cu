// Attention of up to 8 rows. A block is one token, HPB query heads of one key head, and one of SPLITS parts of the visible
// positions; the last block of a token and key head to finish adds the parts up, in their order.
//
// Keys and values of this step are made in shared memory where the op writes the cache, rounded as the cache rounds them;
// nobody reads from the cache what the same launch writes. LPK lanes hold a key, eight numbers each.
//
// v1: 16-byte loads of keys and values, queries in registers, online softmax over tiles of TILE positions.
typedef CacheRow<KEY_TYPE, DIM> KeyRow;
typedef CacheRow<VALUE_TYPE, DIM> ValueRow;

// What is left to do with a number of the output.
DEVICE float gated(const Args& A, u32 row, u32 head, u32 d, float y) {
    if (!GATE) return y;
    return y * sigmoid(GATE_IN[((size_t)row * HEADS + head) * (2 * DIM) + DIM + d]);
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    __shared__ float most[HPB], total[HPB], shrink[HPB];
    __shared__ bool is_last;
    float* q = (float*)dynamic;            // [HPB][DIM]
    float* p = q + HPB * DIM;              // [HPB][TILE]
    float* room = p + HPB * TILE;          // [WARPS][HPB][DIM]; before that a head a warp
    u8* own_k = (u8*)(room + WARPS * HPB * DIM);
    u8* own_v = own_k + 8 * KeyRow::BYTES;
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 split = group_index() % SPLITS, block = group_index() / SPLITS % (HEADS / HPB);
    const u32 row = group_index() / SPLITS / (HEADS / HPB);
    if (row >= batch.t()) return;
    const u32 head0 = block * HPB, kv = head0 / (HEADS / KV_HEADS);
    const u32 seq = batch.seq(row), pos = batch.position(row);
    const u32 start = batch.span(seq, 2) - batch.span(seq, 1);
    const u32 first = pos + 1 > WINDOW ? pos + 1 - WINDOW : 0;
    const u32 own = WRITE ? max(start, first) : pos + 1;
    // Parts of whole tiles of 32 positions, at least 64.
    const u32 visible = pos + 1 - first;
    const u32 share = max(((visible + SPLITS - 1) / SPLITS + 31) / 32 * 32, 64u);
    const u32 parts = (visible + share - 1) / share;
    if (split >= parts) return;
    const u32 from = first + split * share, to = min(from + share, pos + 1);
    const u32 warp = warp_index(), lane = lane_index();

    for (u32 h = warp; h < HPB; h += WARPS) {
        const float* x = X_IN + ((size_t)row * HEADS + head0 + h) * Q_STRIDE;
        if (ROTATE_Q) {
            rotate_head<DIM, Q_PAIRS, Q_NEOX>(batch, Q_TABLE, row, x, Q_NORM_WEIGHT, Q_NORM_EPS, q + h * DIM);
            for (u32 i = lane; i < DIM; i += 32) q[h * DIM + i] *= SCALE;
        } else {
            for (u32 i = lane; i < DIM; i += 32) q[h * DIM + i] = x[i] * SCALE;
        }
    }
    if (WRITE) {
        for (u32 at = max(from, own) + warp; at < to; at += WARPS) {
            const size_t source = ((size_t)(row + at - pos) * KV_HEADS + kv) * DIM;
            const float* x = K_IN + source;
            if (ROTATE_K) {
                float* head = room + warp * DIM;
                rotate_head<DIM, K_PAIRS, K_NEOX>(batch, K_TABLE, row + at - pos, x, K_NORM_WEIGHT, K_NORM_EPS, head);
                x = head;
            }
            KeyRow::store(x, own_k + (at - own) * KeyRow::BYTES);
            ValueRow::store(V_IN + source, own_v + (at - own) * ValueRow::BYTES);
            if (at == pos && head0 % (HEADS / KV_HEADS) == 0) {
                KeyRow::store(x, (u8*)KEYS + cache_at(batch, seq, pos, KV_HEADS, kv, KeyRow::BYTES));
                ValueRow::store(V_IN + source, (u8*)VALUES + cache_at(batch, seq, pos, KV_HEADS, kv, ValueRow::BYTES));
            }
            __syncwarp();
        }
    }
    if (threadIdx.x < HPB) most[threadIdx.x] = -INFINITE, total[threadIdx.x] = 0;
    __syncthreads();

    const u32 lane_in_key = lane % LPK, key_in_warp = lane / LPK, e = lane_in_key * 8;
    const bool has_part = e < DIM;
    float acc[HPB][8];
#pragma unroll
    for (int h = 0; h < HPB; h++) {
#pragma unroll
        for (int i = 0; i < 8; i++) acc[h][i] = 0;
    }
    for (u32 tile = from; tile < to; tile += TILE) {
        const u32 n = min((u32)TILE, to - tile);
        for (u32 base = warp * (32 / LPK); base < n; base += WARPS * (32 / LPK)) {
            const u32 j = base + key_in_warp, at = tile + j;
            float k[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (j < n && has_part) {
                const u8* from_row = at >= own ? own_k + (at - own) * KeyRow::BYTES
                                               : KEYS + cache_at(batch, seq, at, KV_HEADS, kv, KeyRow::BYTES);
                KeyRow::load8(from_row, e, k);
            }
#pragma unroll
            for (int h = 0; h < HPB; h++) {
                float s = 0;
                if (has_part) {
                    const float4 lo = *(const float4*)(q + h * DIM + e), hi = *(const float4*)(q + h * DIM + e + 4);
                    s = lo.x * k[0] + lo.y * k[1] + lo.z * k[2] + lo.w * k[3];
                    s += hi.x * k[4] + hi.y * k[5] + hi.z * k[6] + hi.w * k[7];
                }
#pragma unroll
                for (int i = LPK / 2; i > 0; i >>= 1) s += __shfl_xor_sync(FULL, s, i);
                if (HAS_SOFTCAP) s = SOFTCAP * tanh_bounded(s / SOFTCAP);
                if (lane_in_key == 0 && j < n) p[h * TILE + j] = s;
            }
        }
        __syncthreads();
        for (u32 h = warp; h < HPB; h += WARPS) {
            float m = -INFINITE;
            for (u32 j = lane; j < n; j += 32) m = fmaxf(m, p[h * TILE + j]);
            m = fmaxf(warp_max(m), most[h]);
            float sum = 0;
            for (u32 j = lane; j < n; j += 32) {
                const float w = expf(p[h * TILE + j] - m);
                p[h * TILE + j] = w;
                sum += w;
            }
            sum = warp_sum(sum);
            const float f = expf(most[h] - m);
            __syncwarp();
            if (lane == 0) shrink[h] = f, total[h] = total[h] * f + sum, most[h] = m;
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < HPB; h++) {
            const float f = shrink[h];
#pragma unroll
            for (int i = 0; i < 8; i++) acc[h][i] *= f;
        }
        for (u32 base = warp * (32 / LPK); base < n; base += WARPS * (32 / LPK)) {
            const u32 j = base + key_in_warp, at = tile + j;
            if (j < n && has_part) {
                float v[8];
                const u8* from_row = at >= own ? own_v + (at - own) * ValueRow::BYTES
                                               : VALUES + cache_at(batch, seq, at, KV_HEADS, kv, ValueRow::BYTES);
                ValueRow::load8(from_row, e, v);
#pragma unroll
                for (int h = 0; h < HPB; h++) {
                    const float w = p[h * TILE + j];
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[h][i] = fmaf(w, v[i], acc[h][i]);
                }
            }
        }
        __syncthreads();
    }
    // Over the keys of a warp, then over the warps.
#pragma unroll
    for (int h = 0; h < HPB; h++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int o = 16; o >= LPK; o >>= 1) acc[h][i] += __shfl_xor_sync(FULL, acc[h][i], o);
            if (lane < LPK && has_part) room[(warp * HPB + h) * DIM + e + i] = acc[h][i];
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < HPB * DIM; i += THREADS) {
        float s = 0;
        for (int w = 0; w < WARPS; w++) s += room[w * HPB * DIM + i];
        const u32 h = i / DIM, d = i % DIM;
        if (parts == 1) {
            OUT[((size_t)row * HEADS + head0 + h) * DIM + d] = gated(A, row, head0 + h, d, s / total[h]);
        } else {
            PART_SUMS[(((size_t)row * HEADS + head0 + h) * SPLITS + split) * (DIM + 2) + d] = s;
        }
    }
    if (parts == 1) return;
    if (threadIdx.x < HPB) {
        float* part = PART_SUMS + (((size_t)row * HEADS + head0 + threadIdx.x) * SPLITS + split) * (DIM + 2) + DIM;
        part[0] = most[threadIdx.x], part[1] = total[threadIdx.x];
    }
    __threadfence();
    __syncthreads();
    u32* counter = ZEROS + row * (HEADS / HPB) + block;
    if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == parts - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
    for (u32 i = threadIdx.x; i < HPB * DIM; i += THREADS) {
        const u32 h = i / DIM, d = i % DIM;
        const float* part = PART_SUMS + ((size_t)row * HEADS + head0 + h) * SPLITS * (DIM + 2);
        float m = -INFINITE;
        for (u32 s = 0; s < parts; s++) m = fmaxf(m, __ldcg(part + s * (DIM + 2) + DIM));
        float sum = 0, y = 0;
        for (u32 s = 0; s < parts; s++) {
            const float f = expf(__ldcg(part + s * (DIM + 2) + DIM) - m);
            sum += f * __ldcg(part + s * (DIM + 2) + DIM + 1);
            y += f * __ldcg(part + s * (DIM + 2) + d);
        }
        OUT[((size_t)row * HEADS + head0 + h) * DIM + d] = gated(A, row, head0 + h, d, y / sum);
    }
}
