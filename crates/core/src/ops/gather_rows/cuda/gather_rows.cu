// Copies the rows whose logits are wanted, out of one value after another: one block per row, one loop per
// value.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
// Defaults: one value of 896 elements a row.
#define THREADS 256
#include "defaults.cuh"
#define IN0 ((const float*)A.a1)
#define OUT0 ((float*)A.a2)
#define ROW_COPIES for (u32 i = threadIdx.x; i < 896u; i += THREADS) OUT0[(size_t)row * 896u + i] = IN0[from * 896u + i];
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = block_index();
    if (row >= batch.s()) return;
    const size_t from = batch.logit_row(row);
    ROW_COPIES
}
