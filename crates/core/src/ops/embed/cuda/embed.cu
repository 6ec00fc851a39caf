// Rows of the table, a block each; a token that the host does not know yet is the one its sequence sampled last.
//
// v1: a number at a time: 9 to 21 µs for one row on an H200. v2: eight at a time.
// v3: the batch's words, the id and the fed id are asked for together, where they should be, instead of one after the
//     other: what is left is one line from memory after another three times.
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
    // Ids stand behind the header, and the first row is the first sequence's: loads that wait for nobody.
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
