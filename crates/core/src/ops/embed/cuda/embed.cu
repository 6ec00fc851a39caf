// Embedding rows, one thread block for each token. The id of a pending token, which the host does not know yet, is the one that
// its sequence sampled last, and is read from device memory.
//
// v1: one element at a time: 9 to 21 µs for one row on an H200. v2: eight at a time.
// v3: the batch words, the id and the pending token's id are loaded together, from the addresses where they are expected,
//     instead of one after the other. What is left is three loads from memory one after the other.
#ifndef ONETRIP_LAUNCH
#define THREADS 512
#include "defaults.cuh"
#define K 896
#define SCALE 1.0f
#define VOCABULARY 32000
#define PENDING_TOKENS ((const u32*)A.a1)
#define TABLE_WEIGHT Floats<1>{(const u8*)A.a2}
#define OUT ((float*)A.a3)
#include "weights.cuh"
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    const Batch batch{BATCH};
    const u32 row = block_index();
    // Ids usually follow the 32 words of the header, and row 0 belongs to sequence 0: these loads depend on no other.
    const u32 there = BATCH[32], at = BATCH[4], rows = batch.t();
    u32 id = FULL;
    if (row < rows) id = row == 0 && at == 32 ? there : batch.id(row);
    wait_for_inputs();
    if (row >= rows) return;
    if (id == FULL) id = PENDING_TOKENS[row == 0 ? 0 : batch.seq(row)];
    if (id >= VOCABULARY) id = 0;
    float* out = OUT + (size_t)row * K;
    if (K % 8 != 0) {
        for (u32 i = threadIdx.x; i < K; i += THREADS) out[i] = __fmul_rn(TABLE_WEIGHT.at(id, i), SCALE);
        return;
    }
    for (u32 i = threadIdx.x * 8; i < K; i += THREADS * 8) {
        float w[8];
        TABLE_WEIGHT.load8(id, i, w);
#pragma unroll
        for (int c = 0; c < 8; c++) w[c] = __fmul_rn(w[c], SCALE);
        *(float4*)(out + i) = make_float4(w[0], w[1], w[2], w[3]);
        *(float4*)(out + i + 4) = make_float4(w[4], w[5], w[6], w[7]);
    }
}
