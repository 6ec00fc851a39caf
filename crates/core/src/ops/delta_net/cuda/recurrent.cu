// The gated delta rule, token by token. A thread block handles one sequence, one value head and 32 columns of the head's
// state. The state stays in registers: a lane holds four columns of every (4 * WARPS)th row, so that each access of a warp is
// coalesced into four whole rows of 128 bytes.
//
// The columns of a state are independent of each other. The blocks of one key head share two things: the old convolution
// state, which all must have read before any overwrites it, and the norm over a whole value head. Where these blocks fit into
// a thread block cluster, the cluster barrier and distributed shared memory serve both. Otherwise a semaphore finds the block
// that finishes last; this block overwrites the convolution state and, for few rows, applies the norm.
//
// v1: state in registers, 25 shuffles per token, q, k and v computed for TOKENS tokens at a time: 26 µs a token on an H200
//     (9B).
// v2: the state is loaded and stored in 16-byte vectors and, where it is kept in place, read before the grid dependency wait;
//     separate warps compute q, k, v and the factors; the convolution state is stored four channels at a time: 10.4 µs in a
//     loop of such steps, 33 for eight sequences (14.2 in a whole tick).
// v3: the filters and the old rows of the convolution are read before the wait; a cluster instead of a semaphore: 9.0. Clock
//     readings showed 3000 cycles for loads of x that ran one after the other behind branches, 3000 for loading a state of
//     which each warp load touched 32 cache lines, as many for storing it, and 1200 for a last barrier that waited for stores.
// v4: a warp accesses adjacent rows of the state; partial sums are reduced through shared memory; x is loaded first; the last
//     cluster barrier is relaxed (no memory ordering): 4.2 µs, 18.6 for eight sequences; with the semaphore instead of a
//     cluster 6.4 and 20.5.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define K_HEADS 2
#define V_HEADS 4
#define KD 128
#define VD 128
#define SCALE 0.08838835f
#define FRONT 1
#define TAPS 4
#define L2_EPS 1e-6f
#define HALF_FILTER false
#define TOKENS 8
#define IN_PLACE 1
#define FINISH_NORM 1
#define CLUSTER 1
#define NORM_EPS 1e-6f
#define X_IN ((const float*)A.a1)
#define FILTER ((const u8*)A.a2)
#define CONV_STATE ((float*)A.a3)
#define DECAY ((const float*)A.a4)
#define BETA ((const float*)A.a5)
#define STATE ((float*)A.a6)
#define NEW_STATE STATE
#define NORM_WEIGHT ((const float*)A.a7)
#define GATE_IN ((const float*)A.a8)
#define SEMAPHORES ((u32*)A.a9)
#define OUT ((float*)A.a10)
#include "tensor.cuh"
#include "conv.cuh"
#endif

#define SLICES ((VD + 31) / 32)
#define RPL ((KD + 31) / 32)
// Rows of the state per thread.
#define RPT ((KD + 4 * WARPS - 1) / (4 * WARPS))
#define K_WIDTH (K_HEADS * KD)
#define V_WIDTH (V_HEADS * VD)
#define CHANNELS (2 * K_WIDTH + V_WIDTH)
// Value heads per key head.
#define OWN (V_HEADS / K_HEADS)

// One element of q, k or v where they are separate inputs (no convolution in front). `channel` counts through the row
// [q, k, v], `row` through the rows of this sequence.
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

// A channel of the packed projection: `fetch` loads its filter and its old inputs, which need not wait for this tick's
// kernels; `newest` loads the input of token `t`; `row` convolves it with the inputs before it.
struct Channel {
#if FRONT
    float w[TAPS], old[TAPS - 1];
    DEVICE void fetch(const Args& A, const Span& span, u32 channel) {
        conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) old[i] = conv_input<TAPS, CHANNELS>(span, CONV_STATE, CONV_STATE, i, channel);
    }
    DEVICE float newest(const Args& A, const Span& span, u32 t, u32 channel) const {
        return X_IN[(size_t)(span.start + t) * CHANNELS + channel];
    }
    DEVICE float row(const Args& A, const Span& span, u32 t, u32 channel, float newest) const {
        float y = w[TAPS - 1] * newest;
        if (t == 0) {
#pragma unroll
            for (int i = 0; i < TAPS - 1; i++) y = fmaf(w[i], old[i], y);
            return silu(y);
        }
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) {
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
    DEVICE float newest(const Args& A, const Span& span, u32 t, u32 channel) const { return apart(A, span, t, channel); }
    DEVICE float row(const Args&, const Span&, u32, u32, float newest) const { return newest; }
#endif
};

KERNEL {
    __shared__ float qs[TOKENS][KD], ks[TOKENS][KD], decays[TOKENS], betas[TOKENS];
    // `sums`: each warp's partial sums of Sᵀk and Sᵀq, per column. `products`: each warp's partial sum of k · q.
    __shared__ __align__(16) float vs[TOKENS][32], sums[2][WARPS][2][32], products[2][WARPS];
#if CLUSTER > 1
    __shared__ float ys[TOKENS][32], squares[TOKENS];
#else
    __shared__ bool is_last;
#endif
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    // The blocks of a key head have consecutive indices: they may be one cluster.
    const u32 slice = block_index() % SLICES, key = block_index() / SLICES / OWN % K_HEADS;
    const u32 h = block_index() / SLICES % OWN * K_HEADS + key, seq = block_index() / SLICES / V_HEADS;
    if (seq >= batch.s()) {
        wait_for_inputs();
        return;
    }
    const Span span(batch, seq);
    const u32 warp = warp_index(), lane = lane_index();
    const u32 column0 = slice * 32, column = lane % 8 * 4, mine = column0 + column, row0 = warp * 4 + lane / 8;

    const size_t place = ((size_t)(IN_PLACE ? span.slot : seq) * V_HEADS + h) * (KD * VD);
    const float* old = STATE + place;
    float* state = NEW_STATE + place;
    float S[RPT][4];
    // No other block writes these columns of a state that is kept in place, so they may be read before the wait. A state that
    // is a value was written by an earlier kernel of the tick.
    if (!IN_PLACE) wait_for_inputs();
#pragma unroll
    for (int r = 0; r < RPT; r++) {
        const u32 i = r * (4 * WARPS) + row0;
        const bool has_old = i < KD && mine < VD && !(IN_PLACE && span.first_chunk);
        if (VD % 4 == 0) {
            float4 x = make_float4(0, 0, 0, 0);
            if (has_old) x = *(const float4*)(old + i * VD + mine);
            S[r][0] = x.x, S[r][1] = x.y, S[r][2] = x.z, S[r][3] = x.w;
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++) S[r][c] = has_old && mine + c < VD ? old[i * VD + mine + c] : 0.0f;
        }
    }
    // Even warps compute queries, odd warps keys. Every thread also has one column of the values, counted from the last
    // thread down, so that with few tokens the warps without a query or key compute them.
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
            const u32 channel = which * K_WIDTH + key * KD + lane;
            float y[RPL], s = 0;
#pragma unroll
            for (int r = 0; r < RPL; r++) y[r] = r * 32 + lane < KD ? head[r].newest(A, span, first + t, channel + r * 32) : 0.0f;
#pragma unroll
            for (int r = 0; r < RPL; r++) {
                if (r * 32 + lane < KD) y[r] = head[r].row(A, span, first + t, channel + r * 32, y[r]);
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
        // With one token the first two warps compute q and k while the others compute decay, beta and v.
        for (u32 t = THREADS - 33 - threadIdx.x; t < n; t += THREADS) {
            const size_t at = (size_t)(span.start + first + t) * V_HEADS + h;
            decays[t] = expf(DECAY[at]);
            betas[t] = BETA[at];
        }
        for (u32 at = THREADS - 1 - threadIdx.x; at < n * 32; at += THREADS) {
            const u32 t = at / 32, channel = 2 * K_WIDTH + h * VD + v_column;
            vs[t][at % 32] = v_column < VD ? value.row(A, span, first + t, channel, value.newest(A, span, first + t, channel)) : 0.0f;
        }
        __syncthreads();
        for (u32 t = 0; t < n; t++) {
            const float decay = decays[t], beta = betas[t];
            float k[RPT], part[8] = {0, 0, 0, 0, 0, 0, 0, 0}, kq = 0;
#pragma unroll
            for (int r = 0; r < RPT; r++) {
                const u32 i = r * (4 * WARPS) + row0;
                k[r] = i < KD ? ks[t][i] : 0.0f;
                const float q = i < KD ? qs[t][i] : 0.0f;
                kq = fmaf(k[r], q, kq);
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    part[c] = fmaf(S[r][c], k[r], part[c]);
                    part[4 + c] = fmaf(S[r][c], q, part[4 + c]);
                }
            }
            // Reduces over the four lanes of a warp that hold the same columns. Each exchange sends half of a lane's partial
            // sums away and halves the number that the lane keeps.
#pragma unroll
            for (int width = 4; width > 1; width /= 2) {
                const bool upper = lane & (4 * width);
#pragma unroll
                for (int c = 0; c < width; c++) {
                    const float give = upper ? part[c] : part[c + width];
                    const float keep = upper ? part[c + width] : part[c];
                    part[c] = keep + __shfl_xor_sync(FULL, give, 4 * width);
                }
            }
            kq += __shfl_xor_sync(FULL, kq, 8);
            kq += __shfl_xor_sync(FULL, kq, 16);
            // Double buffering of the sums makes one barrier per token enough.
            float(&sum)[WARPS][2][32] = sums[t % 2];
            *(float2*)&sum[warp][lane / 16][column + lane / 8 % 2 * 2] = float2{part[0], part[1]};
            if (lane == 0) products[t % 2][warp] = kq;
            __syncthreads();
            float d[4] = {0, 0, 0, 0};
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const float4 x = *(const float4*)&sum[w][0][column];
                d[0] += x.x, d[1] += x.y, d[2] += x.z, d[3] += x.w;
            }
#pragma unroll
            for (int c = 0; c < 4; c++) d[c] = beta * (vs[t][column + c] - decay * d[c]);
#pragma unroll
            for (int r = 0; r < RPT; r++) {
#pragma unroll
                for (int c = 0; c < 4; c++) S[r][c] = fmaf(k[r], d[c], decay * S[r][c]);
            }
            if (warp == t % WARPS) {
                // Each lane computes one column of the output: o = decay · Sᵀq + (k · q) d needs only the old state.
                float by_k = 0, by_q = 0, product = 0;
#pragma unroll
                for (int w = 0; w < WARPS; w++) by_k += sum[w][0][lane], by_q += sum[w][1][lane], product += products[t % 2][w];
                const float y = decay * by_q + product * (beta * (vs[t][lane] - decay * by_k));
#if CLUSTER > 1
                ys[t][lane] = y;
                const float square = warp_sum(y * y);
                if (lane == 0) squares[t] = square;
#else
                if (column0 + lane < VD) OUT[(size_t)(span.start + first + t) * V_WIDTH + h * VD + column0 + lane] = y;
#endif
            }
        }
    }
#if CLUSTER > 1
    // Each block stores the new convolution state for its own 32 value channels and an equal share of the query and key
    // channels. It reads them before it arrives at the cluster barrier and writes them after the barrier, because the other
    // blocks read the old rows of the query and key channels too.
    const u32 rank = block_index() % CLUSTER, shared_part = 2 * KD / CLUSTER, here = threadIdx.x * 4;
    const u32 at = rank * shared_part + here;
    u32 channel = at < KD ? key * KD + at : K_WIDTH + key * KD + at - KD;
    if (here >= shared_part) channel = 2 * K_WIDTH + h * VD + column0 + here - shared_part;
    const bool keeps = here < shared_part + 32;
    float4 kept[TAPS - 1];
    if (keeps) conv_last4<TAPS, CHANNELS>(span, X_IN, CONV_STATE, channel, kept);
    cluster_arrive();
#endif
#pragma unroll
    for (int r = 0; r < RPT; r++) {
        const u32 i = r * (4 * WARPS) + row0;
        if (i >= KD || mine >= VD) continue;
        if (VD % 4 == 0) {
            *(float4*)(state + i * VD + mine) = make_float4(S[r][0], S[r][1], S[r][2], S[r][3]);
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++) {
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
        for (int i = 0; i < SLICES; i++) sum += of_block(&squares[t], rank / SLICES * SLICES + i);
        const float factor = 1.0f / sqrtf(sum / (float)VD + NORM_EPS);
        const size_t to = (size_t)(span.start + t) * V_WIDTH + h * VD + column0 + lane;
        OUT[to] = ys[t][lane] * factor * norm_weight * silu(gates[o]);
    }
    // A block must not end before the others have read `squares` in its shared memory.
    cluster_leave();
#elif FRONT || FINISH_NORM
    __threadfence();
    __syncthreads();
    u32* counter = SEMAPHORES + seq * K_HEADS + key;
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
