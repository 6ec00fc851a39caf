// The gated delta rule. A block is one sequence, one value head and 32 columns of its state; a warp holds 8 columns in
// registers, its lanes the rows, and goes through the tokens one by one.
//
// Columns need nothing of each other. What a key head's blocks share is the old convolution state, which the last of them
// to finish overwrites, and the norm over a head, which (for few rows) the same block does.
//
// v1: state in registers, 25 shuffles a token, TOKENS tokens of q, k and v made at a time: 26 µs a token on an H200.
// v2: the state is moved 16 bytes at a time and, where it lies in place, read before the wait; q, k, v and the factors are
//     made by warps of their own; the convolution's state is kept four channels at a time: 14.2 µs (9B, one token).
// v3: filters and the convolution's old rows are read before the wait; a key head's blocks are a cluster, which norms through
//     shared memory instead of through a counter and the last block.

#define SLICES ((VD + 31) / 32)
#define RPL ((KD + 31) / 32)
#define K_WIDTH (K_HEADS * KD)
#define V_WIDTH (V_HEADS * VD)
#define CHANNELS (2 * K_WIDTH + V_WIDTH)
// Value heads of a key head.
#define OWN (V_HEADS / K_HEADS)

// One number of q, k or v where they come apart: `row` counts this sequence's rows.
DEVICE float apart(const Args& A, const Span& span, u32 row, u32 channel) {
#if FRONT
    return 0.0f;
#else
    const size_t at = span.start + row;
    if (channel < K_WIDTH) return Q_IN[at * K_WIDTH + channel];
    if (channel < 2 * K_WIDTH) return K_IN[at * K_WIDTH + channel - K_WIDTH];
    return V_IN[at * V_STRIDE + V_START + channel - 2 * K_WIDTH];
#endif
}

// A channel of the joint row: what is there before this step, and its convolution with what this step brings.
struct Channel {
#if FRONT
    float w[TAPS], old[TAPS - 1];
    DEVICE void fetch(const Args& A, const Span& span, u32 channel) {
        conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) old[i] = conv_input<TAPS, CHANNELS>(span, CONV_STATE, CONV_STATE, i, channel);
    }
    DEVICE float row(const Args& A, const Span& span, u32 t, u32 channel) const {
        float y = 0;
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            float x = 0;
            if (t + i >= TAPS - 1) x = X_IN[(size_t)(span.start + t + i - (TAPS - 1)) * CHANNELS + channel];
#pragma unroll
            for (int o = 0; o < TAPS - 1; o++) {
                if (t + i == o) x = old[o];
            }
            y = fmaf(w[i], x, y);
        }
        return silu(y);
    }
#else
    DEVICE void fetch(const Args&, const Span&, u32) {}
    DEVICE float row(const Args& A, const Span& span, u32 t, u32 channel) const { return apart(A, span, t, channel); }
#endif
};

KERNEL {
    __shared__ float qs[TOKENS][KD], ks[TOKENS][KD], vs[TOKENS][32], decays[TOKENS], betas[TOKENS];
#if CLUSTER > 1
    __shared__ float ys[TOKENS][32], squares[TOKENS][WARPS];
#else
    __shared__ bool is_last;
#endif
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    // The blocks of a key head stand together.
    const u32 slice = group_index() % SLICES, key = group_index() / SLICES / OWN % K_HEADS;
    const u32 h = group_index() / SLICES % OWN * K_HEADS + key, seq = group_index() / SLICES / V_HEADS;
    if (seq >= batch.s()) {
        wait_for_inputs();
        return;
    }
    const Span span(batch, seq);
    const u32 warp = warp_index(), lane = lane_index();
    const u32 column0 = slice * 32, mine = column0 + warp * 8;

    const size_t place = ((size_t)(IN_PLACE ? span.slot : seq) * V_HEADS + h) * (KD * VD);
    const float* old = STATE + place;
    float* state = NEW_STATE + place;
    float S[RPL][8];
    // Nobody else writes a state in place.
    if (!IN_PLACE) wait_for_inputs();
#pragma unroll
    for (int r = 0; r < RPL; r++) {
        const u32 i = r * 32 + lane;
        const bool has_old = i < KD && mine < VD && !(IN_PLACE && span.begins);
        if (VD % 8 == 0) {
            float4 lo = make_float4(0, 0, 0, 0), hi = lo;
            if (has_old) lo = *(const float4*)(old + i * VD + mine), hi = *(const float4*)(old + i * VD + mine + 4);
            S[r][0] = lo.x, S[r][1] = lo.y, S[r][2] = lo.z, S[r][3] = lo.w;
            S[r][4] = hi.x, S[r][5] = hi.y, S[r][6] = hi.z, S[r][7] = hi.w;
        } else {
#pragma unroll
            for (int c = 0; c < 8; c++) S[r][c] = has_old && mine + c < VD ? old[i * VD + mine + c] : 0.0f;
        }
    }
    // Warps take turns: the even ones have queries, the odd ones keys; a lane has a column of the values.
    const u32 which = warp % 2, v_column = column0 + (THREADS - 1 - threadIdx.x) % 32;
    Channel head[RPL], value;
    {
#pragma unroll
        for (int r = 0; r < RPL; r++) {
            if (r * 32 + lane < KD) head[r].fetch(A, span, which * K_WIDTH + key * KD + r * 32 + lane);
        }
        if (v_column < VD) value.fetch(A, span, 2 * K_WIDTH + h * VD + v_column);
    }
    if (IN_PLACE) wait_for_inputs();
#if CLUSTER > 1
    float gates[(TOKENS * 32 + THREADS - 1) / THREADS];
#pragma unroll
    for (int o = 0; o < (TOKENS * 32 + THREADS - 1) / THREADS; o++) {
        const u32 t = (o * THREADS + threadIdx.x) / 32;
        gates[o] = 0;
        if (t < span.count) gates[o] = GATE_IN[(size_t)(span.start + t) * V_WIDTH + h * VD + column0 + lane];
    }
    const float norm_weight = NORM_WEIGHT[column0 + lane];
#endif
    for (u32 first = 0; first < span.count; first += TOKENS) {
        const u32 n = min(span.count - first, (u32)TOKENS);
        __syncthreads();
        for (u32 task = warp; task < 2 * n; task += WARPS) {
            const u32 t = task / 2;
            float y[RPL], s = 0;
#pragma unroll
            for (int r = 0; r < RPL; r++) {
                const u32 i = r * 32 + lane;
                y[r] = i < KD ? head[r].row(A, span, first + t, which * K_WIDTH + key * KD + i) : 0.0f;
                s += y[r] * y[r];
            }
            float factor = which == 0 ? SCALE : 1.0f;
            if (FRONT) factor /= sqrtf(warp_sum(s) + L2_EPS);
            float* to = which == 0 ? qs[t] : ks[t];
#pragma unroll
            for (int r = 0; r < RPL; r++) {
                if (r * 32 + lane < KD) to[r * 32 + lane] = y[r] * factor;
            }
        }
        // With one token the first two warps have q and k, the others these.
        for (u32 t = THREADS - 33 - threadIdx.x; t < n; t += THREADS) {
            const size_t at = (size_t)(span.start + first + t) * V_HEADS + h;
            decays[t] = expf(DECAY[at]);
            betas[t] = BETA[at];
        }
        for (u32 at = THREADS - 1 - threadIdx.x; at < n * 32; at += THREADS) {
            const u32 t = at / 32, c = column0 + at % 32;
            vs[t][at % 32] = c < VD ? value.row(A, span, first + t, 2 * K_WIDTH + h * VD + c) : 0.0f;
        }
        __syncthreads();
        for (u32 t = 0; t < n; t++) {
            const float decay = decays[t], beta = betas[t];
            float k[RPL], sums[16], kq = 0;
#pragma unroll
            for (int c = 0; c < 16; c++) sums[c] = 0;
#pragma unroll
            for (int r = 0; r < RPL; r++) {
                const u32 i = r * 32 + lane;
                k[r] = i < KD ? ks[t][i] : 0.0f;
                const float q = i < KD ? qs[t][i] : 0.0f;
                kq = fmaf(k[r], q, kq);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sums[c] = fmaf(S[r][c], k[r], sums[c]);
                    sums[8 + c] = fmaf(S[r][c], q, sums[8 + c]);
                }
            }
            kq = warp_sum(kq);
            // 16 sums over 32 lanes: each exchange halves what a lane holds. Sum i ends in lanes 2i and 2i + 1.
#pragma unroll
            for (int width = 8; width > 0; width /= 2) {
                const bool upper = lane & (2 * width);
#pragma unroll
                for (int c = 0; c < width; c++) {
                    const float give = upper ? sums[c] : sums[c + width];
                    const float keep = upper ? sums[c + width] : sums[c];
                    sums[c] = keep + __shfl_xor_sync(FULL, give, 2 * width);
                }
            }
            const float sum = sums[0] + __shfl_xor_sync(FULL, sums[0], 1);
            const float other = __shfl_xor_sync(FULL, sum, 16);
            const float by_k = lane < 16 ? sum : other, by_q = lane < 16 ? other : sum;
            const u32 c = lane / 2 % 8;
            const float d = beta * (vs[t][warp * 8 + c] - decay * by_k);
            const float y = decay * by_q + kq * d;
#if CLUSTER > 1
            if (lane < 16 && lane % 2 == 0) ys[t][warp * 8 + c] = y;
            const float square = warp_sum(lane < 16 && lane % 2 == 0 ? y * y : 0.0f);
            if (lane == 0) squares[t][warp] = square;
#else
            if (lane < 16 && lane % 2 == 0 && mine + c < VD) OUT[(size_t)(span.start + first + t) * V_WIDTH + h * VD + mine + c] = y;
#endif
            float ds[8];
#pragma unroll
            for (int i = 0; i < 8; i++) ds[i] = __shfl_sync(FULL, d, 2 * i);
#pragma unroll
            for (int r = 0; r < RPL; r++) {
#pragma unroll
                for (int i = 0; i < 8; i++) S[r][i] = fmaf(k[r], ds[i], decay * S[r][i]);
            }
        }
    }
#if CLUSTER > 1
    // Of the convolution's rows, each block keeps its own values and a part of the queries and keys, all read before the
    // others write.
    const u32 rank = group_index() % CLUSTER, shared_part = 2 * KD / CLUSTER, here = threadIdx.x * 4;
    const u32 at = rank * shared_part + here;
    u32 channel = at < KD ? key * KD + at : K_WIDTH + key * KD + at - KD;
    if (here >= shared_part) channel = 2 * K_WIDTH + h * VD + column0 + here - shared_part;
    const bool keeps = here < shared_part + 32;
    float4 kept[TAPS - 1];
    if (keeps) conv_last4<TAPS, CHANNELS>(span, X_IN, CONV_STATE, channel, kept);
    cluster_arrive();
#endif
#pragma unroll
    for (int r = 0; r < RPL; r++) {
        const u32 i = r * 32 + lane;
        if (i >= KD || mine >= VD) continue;
        if (VD % 8 == 0) {
            *(float4*)(state + i * VD + mine) = make_float4(S[r][0], S[r][1], S[r][2], S[r][3]);
            *(float4*)(state + i * VD + mine + 4) = make_float4(S[r][4], S[r][5], S[r][6], S[r][7]);
        } else {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                if (mine + c < VD) state[i * VD + mine + c] = S[r][c];
            }
        }
    }
#if CLUSTER > 1
    cluster_wait();
    if (keeps) conv_store4<TAPS, CHANNELS>(span, CONV_STATE, channel, kept);
#pragma unroll
    for (int o = 0; o < (TOKENS * 32 + THREADS - 1) / THREADS; o++) {
        const u32 t = (o * THREADS + threadIdx.x) / 32;
        if (t >= span.count) continue;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < SLICES; i++) {
#pragma unroll
            for (int w = 0; w < WARPS; w++) sum += of_block(&squares[t][w], rank / SLICES * SLICES + i);
        }
        const float factor = 1.0f / sqrtf(sum / (float)VD + NORM_EPS);
        const size_t to = (size_t)(span.start + t) * V_WIDTH + h * VD + column0 + lane;
        OUT[to] = ys[t][lane] * factor * norm_weight * silu(gates[o]);
    }
    // Nobody's shared memory goes before the others have read it.
    cluster_sync();
#elif FRONT || FINISH_NORM
    __threadfence();
    __syncthreads();
    u32* counter = ZEROS + seq * K_HEADS + key;
    if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == OWN * SLICES - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
#if FRONT
    const u32 step = KD % 4 == 0 && VD % 4 == 0 ? 4 : 1;
    for (u32 i = threadIdx.x * step; i < 2 * KD + OWN * VD; i += THREADS * step) {
        u32 channel = i < KD ? key * KD + i : K_WIDTH + key * KD + i - KD;
        if (i >= 2 * KD) channel = 2 * K_WIDTH + ((i - 2 * KD) / VD * K_HEADS + key) * VD + (i - 2 * KD) % VD;
        if (step == 4) {
            conv_keep4<TAPS, CHANNELS>(span, X_IN, CONV_STATE, channel);
        } else {
            conv_keep<TAPS, CHANNELS>(span, X_IN, CONV_STATE, channel);
        }
    }
#endif
#if FINISH_NORM
    for (u32 task = warp; task < span.count * OWN; task += WARPS) {
        const size_t row = span.start + task / OWN;
        const size_t at = row * V_WIDTH + (task % OWN * K_HEADS + key) * VD;
        float s = 0;
        for (u32 i = lane; i < VD; i += 32) {
            const float y = __ldcg(OUT + at + i);
            s += y * y;
        }
        const float factor = 1.0f / sqrtf(warp_sum(s) / (float)VD + NORM_EPS);
        for (u32 i = lane; i < VD; i += 32) {
            const float y = __ldcg(OUT + at + i);
            OUT[at + i] = y * factor * NORM_WEIGHT[i] * silu(GATE_IN[at + i]);
        }
    }
#endif
#endif
}
