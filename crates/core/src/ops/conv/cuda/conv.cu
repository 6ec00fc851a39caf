// A channel of a sequence a thread: all rows of the step, then the state.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define TAPS 4
#define CHANNELS 1024
#define HALF_FILTER false
#define WINDOW 0
#define BLOCKS 8
#define X_IN ((const float*)A.a1)
#define FILTER ((const u8*)A.a2)
#define STATE ((float*)A.a3)
#define OUT ((float*)A.a4)
#include "conv.cuh"
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 seq = block_index() / BLOCKS, channel = block_index() % BLOCKS * THREADS + threadIdx.x;
    if (seq >= batch.s() || channel >= CHANNELS) return;
    const Span span(batch, seq);
    float w[TAPS];
    conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
    for (u32 t = 0; t < span.count; t++) {
        float y = 0;
#if WINDOW
#pragma unroll
        for (int i = 0; i < TAPS; i++) y = fmaf(w[i], window_input<TAPS, CHANNELS>(span, seq, X_IN, t + i, channel), y);
#else
        y = conv_row<TAPS, CHANNELS>(span, X_IN, STATE, t, channel, w);
#endif
        OUT[(size_t)(span.start + t) * CHANNELS + channel] = y;
    }
#if !WINDOW
    conv_keep<TAPS, CHANNELS>(span, X_IN, STATE, channel);
#endif
}
