// Dequantizes a weight to 16 bits, in vectors of eight elements. The weight is read before the dependency wait, since no kernel
// writes it; the output is written after it, since the previous kernel may still read the memory of that scratch slot.
//
// v1 has stayed as it was.
#ifndef ONETRIP_LAUNCH
#define THREADS 256
#include "defaults.cuh"
#include "operands.cuh"
#define VECTORS 4
#define COUNT 100352
#define W Planes<4, 32, 8, false, ScaleF16, false>{(const u8*)A.a3, (const u8*)A.a4, (const u8*)A.a4}
#define DEQUANTIZED ((u16*)A.a5)
#include "weights.cuh"
#include "half.cuh"
#endif

KERNEL {
    const Args A = ARGS;
    allow_next();
    const auto w = W;
    const u32 first = block_index() * (THREADS * VECTORS) + threadIdx.x;
    uint4 vector[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        const u32 at = first + i * THREADS;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (at < COUNT) w.load8(0, at * 8, v);
        vector[i] = to_half8(v);
    }
    wait_for_inputs();
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        const u32 at = first + i * THREADS;
        if (at < COUNT) ((uint4*)DEQUANTIZED)[at] = vector[i];
    }
}
