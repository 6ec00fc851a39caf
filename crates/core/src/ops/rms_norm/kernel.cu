// Norm of groups of DIM numbers, a team of TEAM threads (a warp, or the block) each: root mean square, or L2 (L2_NORM 1).
KERNEL {
    __shared__ float room[WARPS];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 group = (u64)group_index() * (THREADS / TEAM) + threadIdx.x / TEAM;
    if (group >= (u64)ROWS * PER_ROW) return;
    const u32 lane = threadIdx.x % TEAM;
    const float* x = X_IN + group * DIM;
    float s = 0;
    for (u32 i = lane; i < DIM; i += TEAM) s += x[i] * x[i];
    s = block_sum<TEAM / 32>(s, room);
    const float factor = 1.0f / sqrtf((L2_NORM ? s : s / (float)DIM) + EPS);
    for (u32 i = lane; i < DIM; i += TEAM) {
        float y = x[i] * factor;
        if (HAS_WEIGHT) y *= WEIGHT[i];
        if (HAS_RESIDUAL) y += RESIDUAL[group * DIM + i];
        OUT[group * DIM + i] = y;
    }
}
