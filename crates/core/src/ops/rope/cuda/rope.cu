// Rotation of heads, after their norm if there is one: a warp each.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define HEADS 8
#define DIM 64
#define X_STRIDE (HEADS * DIM)
#define X_PLACE(c) (c)
#define PAIRS 32
#define NEOX true
#define TABLE 0
#define NORM_EPS 1e-6f
#define X_IN ((const float*)A.a1)
#define NORM_WEIGHT ((const float*)A.a2)
#define OUT ((float*)A.a3)
#include "heads.cuh"
#endif

KERNEL {
    __shared__ float heads[WARPS][DIM];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 item = block_index() * WARPS + warp_index();
    if (item >= batch.t() * HEADS) return;
    float* head = heads[warp_index()];
    const float* x = X_IN + (size_t)(item / HEADS) * X_STRIDE + X_PLACE(item % HEADS * DIM);
    rotate_head<DIM, PAIRS, NEOX>(batch, TABLE, item / HEADS, x, NORM_WEIGHT, NORM_EPS, head);
    for (u32 i = lane_index(); i < DIM; i += 32) OUT[(size_t)item * DIM + i] = head[i];
}
