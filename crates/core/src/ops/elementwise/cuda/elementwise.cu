// TREE, an expression over broadcast operands at row r and column c: one element per thread.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
// Defaults: the SiLU of one value times another.
#define THREADS 256
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define WIDTH 896
#define OUT ((float*)A.a3)
#define TREE (silu(((const float*)A.a1)[(size_t)r * WIDTH + c]) * ((const float*)A.a2)[(size_t)r * WIDTH + c])
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 i = (u64)block_index() * THREADS + threadIdx.x;
    if (i >= (u64)ROWS * WIDTH) return;
    const u32 r = (u32)(i / WIDTH), c = (u32)(i % WIDTH);
    OUT[i] = TREE;
}
