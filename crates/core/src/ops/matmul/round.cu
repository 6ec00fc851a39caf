// Activations of many rows: normed, and rounded to 16 bits, once. One block a row, which its registers hold.
#define HELD ((K / 4 + THREADS - 1) / THREADS)
KERNEL {
    __shared__ float room[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 row = group_index();
    if (row >= ROWS) return;
    const float4* x = (const float4*)(X_IN + (size_t)row * K);
    float4 v[HELD];
    float s = 0;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        v[r] = i < K / 4 ? x[i] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) s = dot4(v[r], v[r], s);
    const float factor = NORM ? 1.0f / sqrtf(block_sum<WARPS>(s, room) / (float)K + NORM_EPS) : 1.0f;
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        const u32 i = r * THREADS + threadIdx.x;
        if (i >= K / 4) continue;
        if (NORM) {
            const float4 g = ((const float4*)NORM_WEIGHT)[i];
            v[r].x = v[r].x * factor * g.x, v[r].y = v[r].y * factor * g.y;
            v[r].z = v[r].z * factor * g.z, v[r].w = v[r].w * factor * g.w;
        }
        ((uint2*)(ROUNDED + (size_t)row * K))[i] = make_uint2(to_half2(v[r].x, v[r].y), to_half2(v[r].z, v[r].w));
    }
}
