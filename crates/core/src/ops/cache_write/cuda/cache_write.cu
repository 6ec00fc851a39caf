// Keys and values of this step to their places in the cache: a warp per row and head.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define HEADS 2
#define DIM 64
#define KEY_TYPE CACHE_F16
#define VALUE_TYPE CACHE_F16
#define ROTATE 1
#define PAIR 1
#define PAIRS 32
#define NEOX true
#define TABLE 0
#define NORM_EPS 1e-6f
#define X_IN ((const float*)A.a1)
#define NORM_WEIGHT ((const float*)A.a2)
#define V_IN ((const float*)A.a3)
#define KEYS ((u8*)A.a4)
#define VALUES ((u8*)A.a5)
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
    const u32 row = item / HEADS, h = item % HEADS;
    const float* x = X_IN + (size_t)item * DIM;
    if (ROTATE) {
        float* head = heads[warp_index()];
        rotate_head<DIM, PAIRS, NEOX>(batch, TABLE, row, x, NORM_WEIGHT, NORM_EPS, head);
        x = head;
    }
    typedef CacheRow<KEY_TYPE, DIM> Keys;
    typedef CacheRow<VALUE_TYPE, DIM> Values;
    const u32 seq = batch.seq(row), position = batch.position(row);
    Keys::store(x, KEYS + cache_at(batch, seq, position, HEADS, h, Keys::BYTES));
    if (PAIR) Values::store(V_IN + (size_t)item * DIM, VALUES + cache_at(batch, seq, position, HEADS, h, Values::BYTES));
}
