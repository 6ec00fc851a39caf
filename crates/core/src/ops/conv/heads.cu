// The joint row after its convolution, apart: heads of queries and keys L2-normed, values copied. A warp per head, or per
// 32 values.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 per_row = 2 * KEYS / DIM + (VALUES + 31) / 32;
    const u32 item = group_index() * WARPS + warp_index(), lane = lane_index();
    if (item >= batch.t() * per_row) return;
    const size_t row = item / per_row;
    const u32 head = item % per_row;
    const float* x = JOINT + row * (2 * KEYS + VALUES);
    if (head >= 2 * KEYS / DIM) {
        const u32 i = (head - 2 * KEYS / DIM) * 32 + lane;
        if (i < VALUES) V_OUT[row * VALUES + i] = x[2 * KEYS + i];
        return;
    }
    float s = 0;
    for (u32 i = lane; i < DIM; i += 32) s += x[head * DIM + i] * x[head * DIM + i];
    const float factor = 1.0f / sqrtf(warp_sum(s) + EPS);
    const u32 own = head * DIM % KEYS;
    float* to = (head * DIM < KEYS ? Q_OUT : K_OUT) + row * KEYS + own;
    for (u32 i = lane; i < DIM; i += 32) to[i] = x[head * DIM + i] * factor;
}
