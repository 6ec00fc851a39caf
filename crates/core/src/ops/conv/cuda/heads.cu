// The convolution of a packed projection with what follows it: SiLU, and L2 norms of the heads of queries and keys. A block is a
// sequence and one such head, or some values; it owns its channels of the state.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define TAPS 4
#define KEYS 256
#define VALUES 512
#define CHANNELS 1024
#define DIM 128
#define EPS 1e-6f
#define HALF_FILTER false
#define BLOCKS 8
#define X_IN ((const float*)A.a1)
#define FILTER ((const u8*)A.a2)
#define STATE ((float*)A.a3)
#define Q_OUT ((float*)A.a4)
#define K_OUT ((float*)A.a5)
#define V_OUT ((float*)A.a6)
#include "conv.cuh"
#endif

#define RPT ((DIM + THREADS - 1) / THREADS)

KERNEL {
    __shared__ float smem[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 seq = block_index() / BLOCKS, block = block_index() % BLOCKS;
    if (seq >= batch.s()) return;
    const Span span(batch, seq);
    if (block >= 2 * KEYS / DIM) {
        const u32 value = (block - 2 * KEYS / DIM) * THREADS + threadIdx.x, channel = 2 * KEYS + value;
        if (value >= VALUES) return;
        float w[TAPS];
        conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
        for (u32 t = 0; t < span.count; t++) {
            const float y = conv_row<TAPS, CHANNELS>(span, X_IN, STATE, t, channel, w);
            V_OUT[(size_t)(span.start + t) * VALUES + value] = silu(y);
        }
        conv_keep<TAPS, CHANNELS>(span, X_IN, STATE, channel);
        return;
    }
    const u32 first = block * DIM;
    float* out = (first < KEYS ? Q_OUT : K_OUT) + first % KEYS;
    float w[RPT][TAPS];
#pragma unroll
    for (int r = 0; r < RPT; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        if (i < DIM) conv_filter<TAPS, HALF_FILTER>(FILTER, first + i, w[r]);
    }
    for (u32 t = 0; t < span.count; t++) {
        float y[RPT], s = 0;
#pragma unroll
        for (int r = 0; r < RPT; r++) {
            const u32 i = r * THREADS + threadIdx.x;
            y[r] = i < DIM ? silu(conv_row<TAPS, CHANNELS>(span, X_IN, STATE, t, first + i, w[r])) : 0.0f;
            s += y[r] * y[r];
        }
        const float factor = 1.0f / sqrtf(block_sum<WARPS>(s, smem) + EPS);
#pragma unroll
        for (int r = 0; r < RPT; r++) {
            const u32 i = r * THREADS + threadIdx.x;
            if (i < DIM) out[(size_t)(span.start + t) * KEYS + i] = y[r] * factor;
        }
    }
#pragma unroll
    for (int r = 0; r < RPT; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        if (i < DIM) conv_keep<TAPS, CHANNELS>(span, X_IN, STATE, first + i);
    }
}
