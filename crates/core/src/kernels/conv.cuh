// Causal convolution of one channel: the state [slot][TAPS - 1][CHANNELS] holds the rows before this step, oldest first.

// A sequence of the batch, as the convolution sees it.
struct Span {
    u32 start, count, slot;
    bool begins;
    DEVICE Span(const Batch& batch, u32 seq)
        : start(batch.span(seq, 0)), count(batch.span(seq, 1)), slot(batch.span(seq, 3)), begins(batch.span(seq, 4) != 0) {}
};

// The input of a channel `row` rows after the oldest one in the state.
template <int TAPS, int CHANNELS>
DEVICE float conv_input(const Span& s, const float* x, const float* state, u32 row, u32 channel) {
    if (row >= TAPS - 1) return x[(size_t)(s.start + row - (TAPS - 1)) * CHANNELS + channel];
    return s.begins ? 0.0f : state[((size_t)s.slot * (TAPS - 1) + row) * CHANNELS + channel];
}

// The filter of a channel as stored: f32 or f16.
template <int TAPS, bool HALF> DEVICE void conv_filter(const u8* filter, u32 channel, float (&w)[TAPS]) {
#pragma unroll
    for (int i = 0; i < TAPS; i++) {
        w[i] = HALF ? from_f16(((const u16*)filter)[channel * TAPS + i]) : ((const float*)filter)[channel * TAPS + i];
    }
}

// Row t of this step's rows of a sequence, convolved.
template <int TAPS, int CHANNELS>
DEVICE float conv_row(const Span& s, const float* x, const float* state, u32 t, u32 channel, const float (&w)[TAPS]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < TAPS; i++) sum = fmaf(w[i], conv_input<TAPS, CHANNELS>(s, x, state, t + i, channel), sum);
    return sum;
}

// Keeps the last rows of a channel for the next step; nobody may still want the old ones.
template <int TAPS, int CHANNELS> DEVICE void conv_keep(const Span& s, const float* x, float* state, u32 channel) {
    float kept[TAPS - 1];
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) kept[i] = conv_input<TAPS, CHANNELS>(s, x, state, s.count + i, channel);
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) state[((size_t)s.slot * (TAPS - 1) + i) * CHANNELS + channel] = kept[i];
}
