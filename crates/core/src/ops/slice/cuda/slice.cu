// Copies LEN elements from START of every GROUP elements: one element per thread.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define WIDTH 128
#define GROUP 256
#define START 0
#define LEN 128
#define X_IN ((const float*)A.a1)
#define OUT ((float*)A.a2)
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 i = (u64)block_index() * THREADS + threadIdx.x;
    if (i >= (u64)ROWS * WIDTH) return;
    OUT[i] = X_IN[i / LEN * GROUP + START + i % LEN];
}
