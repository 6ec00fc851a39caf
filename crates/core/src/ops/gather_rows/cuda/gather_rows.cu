// Copies the rows whose logits are wanted, out of one value after another: one block per row.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#define VALUES 1
template <int I> struct Value;
template <> struct Value<0> {
    static constexpr u32 WIDTH = 896;
    DEVICE static const float* in(const Args& A) { return (const float*)A.a1; }
    DEVICE static float* out(const Args& A) { return (float*)A.a2; }
};
#endif

// Copies the row of values I .. VALUES.
template <int I> DEVICE void copy(const Args& A, u32 row, size_t from) {
    if constexpr (I < VALUES) {
        typedef Value<I> V;
        for (u32 i = threadIdx.x; i < V::WIDTH; i += THREADS) V::out(A)[(size_t)row * V::WIDTH + i] = V::in(A)[from * V::WIDTH + i];
        copy<I + 1>(A, row, from);
    }
}

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = block_index();
    if (row >= batch.s()) return;
    copy<0>(A, row, batch.logit_row(row));
}
