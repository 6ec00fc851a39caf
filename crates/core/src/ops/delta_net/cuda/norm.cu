// The gated norm of the delta rule's output, in place: a warp per row and head.
//
// v1: unchanged since it was written.
#ifndef ONETRIP_LAUNCH
#define THREADS 128
#include "defaults.cuh"
#define V_HEADS 4
#define VD 128
#define NORM_EPS 1e-6f
#define NORM_WEIGHT ((const float*)A.a1)
#define GATE_IN ((const float*)A.a2)
#define OUT ((float*)A.a3)
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 item = block_index() * WARPS + warp_index();
    if (item >= batch.t() * V_HEADS) return;
    const size_t at = (size_t)item * VD;
    float s = 0;
    for (u32 i = lane_index(); i < VD; i += 32) s += OUT[at + i] * OUT[at + i];
    const float factor = 1.0f / sqrtf(warp_sum(s) / (float)VD + NORM_EPS);
    for (u32 i = lane_index(); i < VD; i += 32) OUT[at + i] = OUT[at + i] * factor * NORM_WEIGHT[i] * silu(GATE_IN[at + i]);
}
