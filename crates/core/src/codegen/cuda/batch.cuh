// The words of the step batch (StepBatch::words).
struct Batch {
    const unsigned* w;
    __device__ unsigned t() const { return w[0]; }
    __device__ unsigned s() const { return w[1]; }
    __device__ unsigned page_len() const { return w[3]; }
    __device__ unsigned id(unsigned row) const { return w[w[4] + row]; }
    __device__ unsigned position(unsigned row) const { return w[w[5] + row]; }
    __device__ unsigned seq(unsigned row) const { return w[w[6] + row]; }
    // Fields of a sequence: 0 start, 1 count, 2 length, 3 slot, 4 first chunk; 5 temperature, 6 top_k, 7 top_p, 8 min_p,
    // 9 repeat penalty, 10 and 11 seed, 12 top, 13 start of its history, 14 length of its history.
    __device__ unsigned span(unsigned seq, unsigned field) const { return w[w[7] + seq * 16 + field]; }
    __device__ float span_f32(unsigned seq, unsigned field) const { return __uint_as_float(span(seq, field)); }
    __device__ unsigned page(unsigned seq, unsigned position) const { return w[w[8] + seq * w[9] + position / w[3]]; }
    __device__ unsigned page_offset(unsigned position) const { return position % w[3]; }
    __device__ unsigned logit_row(unsigned i) const { return w[w[10] + i]; }
    __device__ unsigned history(unsigned seq, unsigned i) const { return w[w[11] + span(seq, 13) + i]; }
    // The rotary cosines of a row, [pairs], then its sines, [pairs].
    __device__ const float* turns(unsigned table, unsigned row, unsigned pairs) const {
        return (const float*)(w + w[16 + table] + row * 2 * pairs);
    }
};
