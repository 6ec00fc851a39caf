// Epilogue as a kernel of its own, for products that another kernel or a library call left in memory: evaluates the expression
// tree of one output, with four adjacent elements of a row in each thread.
//
// v1 has stayed as it was.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 quad = block_index() * THREADS + threadIdx.x, t = quad / (N / 4);
    if (t >= ROWS) return;
    const size_t at = (size_t)quad * 4;
    const u32 row0 = quad % (N / 4) * 4;
    LOADS
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 row = row0 + i;
        v[i] = VALUE;
    }
    *(float4*)(OUT + at) = make_float4(v[0], v[1], v[2], v[3]);
}
