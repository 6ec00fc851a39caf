// A channel of a sequence a thread: all rows of the step, then the state.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 seq = group_index() / BLOCKS, channel = group_index() % BLOCKS * THREADS + threadIdx.x;
    if (seq >= batch.s() || channel >= CHANNELS) return;
    const Span span(batch, seq);
    float w[TAPS];
    conv_filter<TAPS, HALF_FILTER>(FILTER, channel, w);
    for (u32 t = 0; t < span.count; t++) {
        OUT[(size_t)(span.start + t) * CHANNELS + channel] = conv_row<TAPS, CHANNELS>(span, X_IN, STATE, t, channel, w);
    }
    conv_keep<TAPS, CHANNELS>(span, X_IN, STATE, channel);
}
