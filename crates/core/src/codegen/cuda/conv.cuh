// Causal convolution of one channel. The state [slot][taps - 1][channels] holds the input rows before this step, oldest first.
// N: taps. C: channels of a row.

// A sequence's rows of this step and its slot in the states.
struct Span {
    u32 start, count, slot;
    bool first_chunk;
    DEVICE Span(const Batch& batch, u32 seq)
        : start(batch.span(seq, 0)), count(batch.span(seq, 1)), slot(batch.span(seq, 3)), first_chunk(batch.span(seq, 4) != 0) {}
};

// The input of a channel in a window (op `window`), where each sequence has its N - 1 earlier rows in front of its own.
template <int N, int C> DEVICE float window_input(const Span& s, u32 seq, const float* x, u32 row, u32 channel) {
    return x[(size_t)(s.start + seq * (N - 1) + row) * C + channel];
}

// The input of a channel, `row` rows after the oldest row in the state.
template <int N, int C>
DEVICE float conv_input(const Span& s, const float* x, const float* state, u32 row, u32 channel) {
    if (row >= N - 1) return x[(size_t)(s.start + row - (N - 1)) * C + channel];
    return s.first_chunk ? 0.0f : state[((size_t)s.slot * (N - 1) + row) * C + channel];
}

// Loads the filter of a channel, stored in f32 or f16.
template <int N, bool IS_HALF> DEVICE void conv_filter(const u8* filter, u32 channel, float (&w)[N]) {
    if (N == 4 && !IS_HALF) {
        const float4 x = ((const float4*)filter)[channel];
        w[0] = x.x, w[1 % N] = x.y, w[2 % N] = x.z, w[3 % N] = x.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        w[i] = IS_HALF ? from_f16(((const u16*)filter)[channel * N + i]) : ((const float*)filter)[channel * N + i];
    }
}

// The convolution at row t of this step's rows of a sequence.
template <int N, int C>
DEVICE float conv_row(const Span& s, const float* x, const float* state, u32 t, u32 channel, const float (&w)[N]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) sum = fmaf(w[i], conv_input<N, C>(s, x, state, t + i, channel), sum);
    return sum;
}

// Stores the last N - 1 input rows of a channel for the next step. No other thread may still need the old rows.
template <int N, int C> DEVICE void conv_keep(const Span& s, const float* x, float* state, u32 channel) {
    float kept[N - 1];
#pragma unroll
    for (int i = 0; i < N - 1; i++) kept[i] = conv_input<N, C>(s, x, state, s.count + i, channel);
#pragma unroll
    for (int i = 0; i < N - 1; i++) state[((size_t)s.slot * (N - 1) + i) * C + channel] = kept[i];
}

// The same for four adjacent channels from `channel`; `channel` and C are multiples of 4. `conv_last4` loads the rows to store
// and `conv_store4` stores them, so that a kernel can put a barrier between the two.
template <int N, int C>
DEVICE void conv_last4(const Span& s, const float* x, const float* state, u32 channel, float4 (&kept)[N - 1]) {
#pragma unroll
    for (int i = 0; i < N - 1; i++) {
        const u32 row = s.count + i;
        if (row >= N - 1) {
            kept[i] = *(const float4*)(x + (size_t)(s.start + row - (N - 1)) * C + channel);
        } else {
            kept[i] = s.first_chunk ? make_float4(0, 0, 0, 0) : *(const float4*)(state + ((size_t)s.slot * (N - 1) + row) * C + channel);
        }
    }
}
template <int N, int C> DEVICE void conv_store4(const Span& s, float* state, u32 channel, const float4 (&kept)[N - 1]) {
#pragma unroll
    for (int i = 0; i < N - 1; i++) *(float4*)(state + ((size_t)s.slot * (N - 1) + i) * C + channel) = kept[i];
}
template <int N, int C> DEVICE void conv_keep4(const Span& s, const float* x, float* state, u32 channel) {
    float4 kept[N - 1];
    conv_last4<N, C>(s, x, state, channel, kept);
    conv_store4<N, C>(s, state, channel, kept);
}
