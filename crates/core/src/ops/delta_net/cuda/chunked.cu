// The gated delta rule for many rows, in two launches and in chunks of CHUNK tokens. Let G_t be the sum of g over a chunk's
// tokens up to t, n its last token, and S the state before the chunk. Then
//   d = T · (beta (v - e^G K S)), where T is the inverse of I + L and L has beta_t e^(G_t - G_s) (k_t · k_s) below the
//   diagonal;
//   o = e^G Q S + A d, where A has e^(G_t - G_s) (q_t · k_s) up to and on the diagonal;
//   S <- e^(G_n) S + sum over s of (e^(G_n - G_s) k_s) d_sᵀ.
//
// With PREPARE this file is the first launch: all work that needs no state, for all chunks at once. A block handles one chunk
// and one key head: with a convolution (FRONT) it convolves queries, keys and values and normalizes queries and keys; then it
// computes T and A of each value head. Without PREPARE it is the second launch, which goes through the chunks of a sequence
// in order. A block handles one value head and 32 columns of its state, which are independent of the other columns.
//
// On an H200, for a prompt of 2048 and one layer of Qwen3.5-9B:
// v1: token by token (kernel.cu): 4177 µs.
// v2: this file, in f32, with tiles of 4 x 4 elements per thread: 206 and 354 µs for the two launches.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
// The first launch by default; the second has PREPARE 0 and reads what the first made.
#ifndef PREPARE
#define PREPARE 1
#endif
#define K_HEADS 2
#define V_HEADS 4
#define KD 128
#define VD 128
#define SCALE 0.08838835f
#define FRONT 1
#define TAPS 4
#define L2_EPS 1e-6f
#define HALF_FILTER false
#define CHUNK 64
#define IN_PLACE 1
#define KEY_BUFFERS 2
#define V_START 0
#define V_STRIDE (V_HEADS * VD)
#define X_IN ((const float*)A.a1)
#define FILTER ((const u8*)A.a2)
#define CONV_STATE ((float*)A.a3)
#define DECAY ((const float*)A.a4)
#define BETA ((const float*)A.a5)
#define INVERSE ((float*)A.a6)
#define WEIGHTS ((float*)A.a7)
#define SUMS ((float*)A.a8)
#define Q_OUT ((float*)A.a9)
#define K_OUT ((float*)A.a10)
#define V_OUT ((float*)A.a11)
#define QUERIES Q_OUT
#define KEYS K_OUT
#define VALUES V_OUT
#define STATE ((float*)A.a12)
#define NEW_STATE STATE
#define OUT ((float*)A.a13)
#include "tensor.cuh"
#include "conv.cuh"
#endif

#define K_WIDTH (K_HEADS * KD)
#define V_WIDTH (V_HEADS * VD)
#define CHANNELS (2 * K_WIDTH + V_WIDTH)
#define OWN (V_HEADS / K_HEADS)
#define SLICES ((VD + 31) / 32)
#define RPL ((KD + 31) / 32)
// Strides of rows in shared memory, in floats. The padding of 4 makes adjacent rows begin four banks apart (for KD a multiple
// of 32), so that lanes reading 16-byte vectors of adjacent rows have no bank conflicts.
#define ROW_STRIDE (KD + 4)
#define SQUARE (CHUNK + 4)

#if PREPARE
#if FRONT
// A channel of the packed projection, convolved row after row: its filter, and a window of its last inputs, newest last.
struct Runner {
    float w[TAPS], last[TAPS - 1];
    // Loads the filter and the inputs before row `t` of the sequence.
    DEVICE void begin(const Args& A, const Span& span, u32 t, u32 channel) {
        conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) last[i] = conv_input<TAPS, CHANNELS>(span, X_IN, CONV_STATE, t + i, channel);
    }
    DEVICE float next(float x) {
        float y = w[TAPS - 1] * x;
#pragma unroll
        for (int i = 0; i < TAPS - 1; i++) y = fmaf(w[i], last[i], y);
#pragma unroll
        for (int i = 0; i < TAPS - 2; i++) last[i] = last[i + 1];
        last[TAPS - 2] = x;
        return silu(y);
    }
};
#endif

KERNEL {
    extern __shared__ uint4 dynamic[];
    float* ks = (float*)dynamic;              // [CHUNK][ROW_STRIDE]
    float* qs = ks + CHUNK * ROW_STRIDE;            // [CHUNK][ROW_STRIDE]
    float* triangle = qs + CHUNK * ROW_STRIDE;      // [CHUNK][SQUARE]
    float* sums = triangle + CHUNK * SQUARE;  // [OWN][CHUNK]
    float* betas = sums + OWN * CHUNK;        // [OWN][CHUNK]
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 key = block_index() % K_HEADS, place = block_index() / K_HEADS;
    u32 seq = 0, block = place, n = 0;
    for (; seq < batch.s(); seq++) {
        const u32 count = batch.span(seq, 1), chunks = (count + CHUNK - 1) / CHUNK;
        if (block < chunks) {
            n = min(count - block * CHUNK, (u32)CHUNK);
            break;
        }
        block -= chunks;
    }
    if (n == 0) return;
    const Span span(batch, seq);
    const u32 first = block * CHUNK, warp = warp_index(), lane = lane_index();
    const size_t row0 = span.start + first;

    // Even warps compute queries, odd warps keys, each warp for a run of adjacent rows.
    const u32 which = warp % 2, rows = CHUNK / (WARPS / 2), begin = warp / 2 * rows;
    float* to = which == 0 ? qs : ks;
#if FRONT
    Runner head[RPL];
    float x[RPL];
#pragma unroll
    for (int r = 0; r < RPL; r++) {
        const u32 i = r * 32 + lane, channel = which * K_WIDTH + key * KD + i;
        x[r] = 0;
        if (i < KD && begin < n) head[r].begin(A, span, first + begin, channel), x[r] = X_IN[(row0 + begin) * CHANNELS + channel];
    }
    float* made = which == 0 ? Q_OUT : K_OUT;
    for (u32 t = begin; t < begin + rows; t++) {
        float y[RPL], s = 0;
#pragma unroll
        for (int r = 0; r < RPL; r++) {
            const u32 i = r * 32 + lane;
            y[r] = i < KD && t < n ? head[r].next(x[r]) : 0.0f;
            s += y[r] * y[r];
            if (i < KD && t + 1 < n) x[r] = X_IN[(row0 + t + 1) * CHANNELS + which * K_WIDTH + key * KD + i];
        }
        const float factor = 1.0f / sqrtf(warp_sum(s) + L2_EPS);
#pragma unroll
        for (int r = 0; r < RPL; r++) {
            const u32 i = r * 32 + lane;
            if (i >= KD) continue;
            to[t * ROW_STRIDE + i] = y[r] * factor;
            if (t < n) made[(row0 + t) * K_WIDTH + key * KD + i] = y[r] * factor;
        }
    }
    for (u32 i = threadIdx.x; i < OWN * VD; i += THREADS) {
        const u32 column = (i / VD * K_HEADS + key) * VD + i % VD, channel = 2 * K_WIDTH + column;
        Runner value;
        value.begin(A, span, first, channel);
#pragma unroll 8
        for (u32 t = 0; t < n; t++) V_OUT[(row0 + t) * V_WIDTH + column] = value.next(X_IN[(row0 + t) * CHANNELS + channel]);
    }
#else
    for (u32 t = begin; t < begin + rows; t++) {
        for (u32 i = lane; i < KD; i += 32) {
            to[t * ROW_STRIDE + i] = t < n ? (which == 0 ? Q_IN : K_IN)[(row0 + t) * K_WIDTH + key * KD + i] : 0.0f;
        }
    }
#endif
    // Prefix sums of g over the chunk, CHUNK / 32 tokens per lane. Rows beyond the end count as g = 0 and beta = 0, so that
    // they change neither the state nor other rows.
    for (u32 o = warp; o < OWN; o += WARPS) {
        float g[CHUNK / 32], sum = 0;
#pragma unroll
        for (int i = 0; i < CHUNK / 32; i++) {
            const u32 t = lane * (CHUNK / 32) + i;
            const size_t at = (row0 + t) * V_HEADS + o * K_HEADS + key;
            sum += t < n ? DECAY[at] : 0.0f;
            g[i] = sum;
            betas[o * CHUNK + t] = t < n ? BETA[at] : 0.0f;
        }
        float before = sum;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const float other = __shfl_sync(FULL, before, (int)((lane - d) & 31));
            if (lane >= d) before += other;
        }
        before -= sum;
#pragma unroll
        for (int i = 0; i < CHUNK / 32; i++) {
            const u32 t = lane * (CHUNK / 32) + i;
            sums[o * CHUNK + t] = before + g[i];
            SUMS[((size_t)place * V_HEADS + o * K_HEADS + key) * CHUNK + t] = before + g[i];
        }
    }
    __syncthreads();

    // The first half of the threads computes K Kᵀ, the second Q Kᵀ: 4 rows and 8 columns per thread.
    const u32 half = threadIdx.x / (THREADS / 2), tile = threadIdx.x % (THREADS / 2);
    const u32 column = tile % 8, row = tile / 8 * 4;
    const float* left = half == 0 ? ks : qs;
    float acc[4][8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) acc[i][j] = 0;
    }
    for (u32 d = 0; d < KD; d += 4) {
        float4 b[8];
#pragma unroll
        for (int j = 0; j < 8; j++) b[j] = *(const float4*)(ks + (column + 8 * j) * ROW_STRIDE + d);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 a = *(const float4*)(left + (row + i) * ROW_STRIDE + d);
#pragma unroll
            for (int j = 0; j < 8; j++) acc[i][j] = dot4(a, b[j], acc[i][j]);
        }
    }
    for (u32 o = 0; o < OWN; o++) {
        const size_t at = ((size_t)place * V_HEADS + o * K_HEADS + key) * (CHUNK * CHUNK);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 t = row + i;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const u32 s = column + 8 * j;
                const float y = s <= t ? acc[i][j] * expf(sums[o * CHUNK + t] - sums[o * CHUNK + s]) : 0.0f;
                if (half == 0) triangle[t * SQUARE + s] = s < t ? betas[o * CHUNK + t] * y : 0.0f;
                else WEIGHTS[at + t * CHUNK + s] = y;
            }
        }
        __syncthreads();
        // Forward substitution: each thread computes one column of the inverse, from the top down, with two accumulators.
        if (threadIdx.x < CHUNK) {
            float x[CHUNK];
#pragma unroll
            for (int t = 0; t < CHUNK; t++) {
                float a = t == threadIdx.x ? 1.0f : 0.0f, b = 0;
#pragma unroll
                for (int s = 0; s + 1 < t; s += 2) {
                    a = fmaf(-triangle[t * SQUARE + s], x[s], a);
                    b = fmaf(-triangle[t * SQUARE + s + 1], x[s + 1], b);
                }
                if (t % 2 == 1) a = fmaf(-triangle[t * SQUARE + t - 1], x[t - 1], a);
                x[t] = a + b;
                INVERSE[at + t * CHUNK + threadIdx.x] = x[t];
            }
        }
        __syncthreads();
    }
#if FRONT
    // Only the blocks of a sequence's first chunk read the old convolution state, so these blocks store the new one.
    if (block > 0) return;
    for (u32 i = threadIdx.x; i < 2 * KD + OWN * VD; i += THREADS) {
        u32 channel = i < KD ? key * KD + i : K_WIDTH + key * KD + i - KD;
        if (i >= 2 * KD) channel = 2 * K_WIDTH + ((i - 2 * KD) / VD * K_HEADS + key) * VD + (i - 2 * KD) % VD;
        conv_keep<TAPS, CHANNELS>(span, X_IN, CONV_STATE, channel);
    }
#endif
}
#else
// c [ROWS][4] += A · B: `a` points to the first of ROWS rows with `stride` floats between them, `b` to the first of four columns
// of a matrix [inner][32].
template <int ROWS> DEVICE void multiply(const float* a, u32 stride, const float* b, u32 inner, float (&c)[ROWS][4]) {
#pragma unroll 4
    for (u32 d = 0; d < inner; d += 4) {
        float4 y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) y[i] = *(const float4*)(b + (d + i) * 32);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const float4 x = *(const float4*)(a + i * stride + d);
            c[i][0] = fmaf(x.x, y[0].x, fmaf(x.y, y[1].x, fmaf(x.z, y[2].x, fmaf(x.w, y[3].x, c[i][0]))));
            c[i][1] = fmaf(x.x, y[0].y, fmaf(x.y, y[1].y, fmaf(x.z, y[2].y, fmaf(x.w, y[3].y, c[i][1]))));
            c[i][2] = fmaf(x.x, y[0].z, fmaf(x.y, y[1].z, fmaf(x.z, y[2].z, fmaf(x.w, y[3].z, c[i][2]))));
            c[i][3] = fmaf(x.x, y[0].w, fmaf(x.y, y[1].w, fmaf(x.z, y[2].w, fmaf(x.w, y[3].w, c[i][3]))));
        }
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    float* ks = (float*)dynamic;                        // [KEY_BUFFERS][CHUNK][ROW_STRIDE]
    float* qs = ks + KEY_BUFFERS * CHUNK * ROW_STRIDE;        // [CHUNK][ROW_STRIDE]
    float* inverse = qs + CHUNK * ROW_STRIDE;                 // [CHUNK][SQUARE]
    float* weights = inverse + CHUNK * SQUARE;          // [CHUNK][SQUARE]
    float* state = weights + CHUNK * SQUARE;            // [KD][32]
    float* wanted = state + KD * 32;                    // [CHUNK][32]: beta (v - e^G K S)
    float* change = wanted + CHUNK * 32;                // [CHUNK][32]: d
    float* faded = change + CHUNK * 32;                 // [CHUNK][32]: e^(G_n - G_s) d
    float* seen = faded + CHUNK * 32;                   // [CHUNK][32]: e^G Q S
    float* sums = seen + CHUNK * 32;                    // [CHUNK]
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 slice = block_index() % SLICES, h = block_index() / SLICES % V_HEADS, seq = block_index() / SLICES / V_HEADS;
    if (seq >= batch.s()) return;
    const Span span(batch, seq);
    u32 place = 0;
    for (u32 i = 0; i < seq; i++) place += (batch.span(i, 1) + CHUNK - 1) / CHUNK;
    const u32 key = h % K_HEADS, column0 = slice * 32, c = threadIdx.x % 8 * 4, column = column0 + c;
    const u32 group = threadIdx.x / 8;
    const size_t of_head = ((size_t)(IN_PLACE ? span.slot : seq) * V_HEADS + h) * (KD * VD);

    auto fetch_rows = [&](float* to, const float* from, u32 first) {
        for (u32 i = threadIdx.x; i < CHUNK * (KD / 4); i += THREADS) {
            const u32 t = i / (KD / 4), d = i % (KD / 4) * 4;
            const bool is_there = first + t < span.count;
            copy16(to + t * ROW_STRIDE + d, from + (is_there ? (size_t)(span.start + first + t) * K_WIDTH + key * KD + d : 0), is_there);
        }
    };
    auto fetch_square = [&](float* to, const float* from, u32 chunk) {
        const float* of = from + ((size_t)(place + chunk) * V_HEADS + h) * (CHUNK * CHUNK);
        for (u32 i = threadIdx.x; i < CHUNK * (CHUNK / 4); i += THREADS) {
            copy16(to + i / (CHUNK / 4) * SQUARE + i % (CHUNK / 4) * 4, of + i * 4, true);
        }
    };
    fetch_rows(ks, KEYS, 0);
    fetch_rows(qs, QUERIES, 0);
    fetch_square(inverse, INVERSE, 0);
    fetch_square(weights, WEIGHTS, 0);
    copies_end();
    // Each thread holds a 4 x 4 tile of the state in registers: rows from 4 · group, columns from c. A copy in shared memory
    // is the operand of the products.
    float S[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const u32 d = group * 4 + i;
            const bool has_old = d < KD && column + j < VD && !(IN_PLACE && span.first_chunk);
            S[i][j] = has_old ? STATE[of_head + d * VD + column + j] : 0.0f;
            if (d < KD) state[d * 32 + c + j] = S[i][j];
        }
    }
    const u32 chunks = (span.count + CHUNK - 1) / CHUNK;
    for (u32 chunk = 0; chunk < chunks; chunk++) {
        const u32 first = chunk * CHUNK, n = min(span.count - first, (u32)CHUNK);
        const size_t row0 = span.start + first;
        float* keys = ks + (KEY_BUFFERS == 2 ? chunk % 2 * (CHUNK * ROW_STRIDE) : 0);
        // The first half of the threads multiplies the keys with the state, the second half the queries.
        const u32 t0 = group % (CHUNK / 4) * 4;
        const bool has_keys = group < CHUNK / 4;
        float values[4][4], beta[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool is_there = has_keys && t0 + i < n;
            beta[i] = is_there ? BETA[(row0 + t0 + i) * V_HEADS + h] : 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                values[i][j] = is_there && column + j < VD ? VALUES[(row0 + t0 + i) * V_STRIDE + V_START + h * VD + column + j] : 0.0f;
            }
        }
        if (threadIdx.x < CHUNK) sums[threadIdx.x] = SUMS[((size_t)(place + chunk) * V_HEADS + h) * CHUNK + threadIdx.x];
        copies_wait<0>();
        __syncthreads();
        float acc[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) acc[i][0] = 0, acc[i][1] = 0, acc[i][2] = 0, acc[i][3] = 0;
        multiply((has_keys ? keys : qs) + t0 * ROW_STRIDE, ROW_STRIDE, state + c, KD, acc);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float grown = expf(sums[t0 + i]);
            float4 y = make_float4(grown * acc[i][0], grown * acc[i][1], grown * acc[i][2], grown * acc[i][3]);
            if (has_keys) {
                y.x = beta[i] * (values[i][0] - y.x), y.y = beta[i] * (values[i][1] - y.y);
                y.z = beta[i] * (values[i][2] - y.z), y.w = beta[i] * (values[i][3] - y.w);
            }
            *(float4*)((has_keys ? wanted : seen) + (t0 + i) * 32 + c) = y;
        }
        __syncthreads();
        const bool has_next = chunk + 1 < chunks;
        if (has_next) {
            fetch_rows(qs, QUERIES, first + CHUNK);
            if (KEY_BUFFERS == 2) fetch_rows(ks + (chunk + 1) % 2 * (CHUNK * ROW_STRIDE), KEYS, first + CHUNK);
        }
        // d: two rows and four columns per thread. The inverse is lower triangular, so the inner loop ends at the diagonal.
        const u32 pair = group * 2;
        float d[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) d[i][0] = 0, d[i][1] = 0, d[i][2] = 0, d[i][3] = 0;
        multiply(inverse + pair * SQUARE, SQUARE, wanted + c, (pair + 5) / 4 * 4, d);
        const float end = sums[CHUNK - 1];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float fade = expf(end - sums[pair + i]);
            *(float4*)(change + (pair + i) * 32 + c) = make_float4(d[i][0], d[i][1], d[i][2], d[i][3]);
            *(float4*)(faded + (pair + i) * 32 + c) = make_float4(fade * d[i][0], fade * d[i][1], fade * d[i][2], fade * d[i][3]);
        }
        __syncthreads();
        if (has_next) fetch_square(inverse, INVERSE, chunk + 1);
        float o[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float4 y = *(const float4*)(seen + (pair + i) * 32 + c);
            o[i][0] = y.x, o[i][1] = y.y, o[i][2] = y.z, o[i][3] = y.w;
        }
        multiply(weights + pair * SQUARE, SQUARE, change + c, (pair + 5) / 4 * 4, o);
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (pair + i < n && column + j < VD) OUT[(row0 + pair + i) * V_WIDTH + h * VD + column + j] = SCALE * o[i][j];
            }
        }
        if (group * 4 < KD) {
            const float grown = expf(end);
#pragma unroll
            for (int i = 0; i < 4; i++) S[i][0] *= grown, S[i][1] *= grown, S[i][2] *= grown, S[i][3] *= grown;
#pragma unroll 4
            for (u32 s = 0; s < CHUNK; s++) {
                const float4 x = *(const float4*)(keys + s * ROW_STRIDE + group * 4), y = *(const float4*)(faded + s * 32 + c);
                S[0][0] = fmaf(x.x, y.x, S[0][0]), S[0][1] = fmaf(x.x, y.y, S[0][1]), S[0][2] = fmaf(x.x, y.z, S[0][2]), S[0][3] = fmaf(x.x, y.w, S[0][3]);
                S[1][0] = fmaf(x.y, y.x, S[1][0]), S[1][1] = fmaf(x.y, y.y, S[1][1]), S[1][2] = fmaf(x.y, y.z, S[1][2]), S[1][3] = fmaf(x.y, y.w, S[1][3]);
                S[2][0] = fmaf(x.z, y.x, S[2][0]), S[2][1] = fmaf(x.z, y.y, S[2][1]), S[2][2] = fmaf(x.z, y.z, S[2][2]), S[2][3] = fmaf(x.z, y.w, S[2][3]);
                S[3][0] = fmaf(x.w, y.x, S[3][0]), S[3][1] = fmaf(x.w, y.y, S[3][1]), S[3][2] = fmaf(x.w, y.z, S[3][2]), S[3][3] = fmaf(x.w, y.w, S[3][3]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) *(float4*)(state + (group * 4 + i) * 32 + c) = make_float4(S[i][0], S[i][1], S[i][2], S[i][3]);
        }
        __syncthreads();
        if (has_next) {
            fetch_square(weights, WEIGHTS, chunk + 1);
            if (KEY_BUFFERS == 1) fetch_rows(ks, KEYS, first + CHUNK);
        }
        copies_end();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const u32 d = group * 4 + i;
            if (d < KD && column + j < VD) NEW_STATE[of_head + d * VD + column + j] = S[i][j];
        }
    }
}
#endif
