// TREE, an expression over broadcast operands at row r and column c: one element per thread.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define WIDTH 896
#define IN0 ((const float*)A.a1)
#define IN1 ((const float*)A.a2)
#define TREE (IN0[(size_t)r * 896u + c] + IN1[c])
#define OUT ((float*)A.a3)
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
