// This step's K/V, rounded as the cache rounds them: each block that attends to them computes them in shared memory, and one block
// also stores them to the cache. No block reads from the cache what the same launch writes.

// What is made: positions `begin` .. `end` of a sequence whose cache ends at `own`, for the token `row` at `pos`.
struct StepKv {
    u32 row, seq, pos, kv, step_first, begin, end;
    bool keeps;
};

// `turns`: the angles of the token's query, where it is rotated; `head`: shared memory of the warp for one head.
template <class KeyRow, class ValueRow>
DEVICE void write_step_kv(const Args& A, const Batch& batch, const float* turns, float* head, u8* step_k, u8* step_v, const StepKv o) {
    const u32 n = o.begin < o.end ? o.end - o.begin : 0;
    // The last warps first: the first ones have the queries.
    for (u32 task = WARPS - 1 - warp_index(); task < 2 * n; task += WARPS) {
        const u32 at = o.begin + task / 2, token = o.row + at - o.pos;
        const size_t source = ((size_t)token * KV_HEADS + o.kv) * DIM;
        const bool keeps = at == o.pos && o.keeps;
        if (task % 2 == 0) {
            const float* x = K_IN + source;
            if (ROTATE_K) {
                const bool same = ROTATE_Q && K_TABLE == Q_TABLE && K_PAIRS == Q_PAIRS && at == o.pos;
                const float* angles = same ? turns : batch.turns(K_TABLE, token, K_PAIRS);
                turn_head<DIM, K_PAIRS, K_NEOX>(angles, x, K_NORM_WEIGHT, K_NORM_EPS, head);
                x = head;
            }
            KeyRow::store(x, step_k + (at - o.step_first) * KeyRow::BYTES);
            if (keeps) KeyRow::store(x, (u8*)KEYS + cache_at(batch, o.seq, o.pos, KV_HEADS, o.kv, KeyRow::BYTES));
        } else {
            ValueRow::store(V_IN + source, step_v + (at - o.step_first) * ValueRow::BYTES);
            if (keeps) ValueRow::store(V_IN + source, (u8*)VALUES + cache_at(batch, o.seq, o.pos, KV_HEADS, o.kv, ValueRow::BYTES));
        }
        __syncwarp();
    }
}

// The queries of a row's heads from head0 on, ROW_STRIDE numbers apart, normed and rotated where they are.
template <int ROW_STRIDE> DEVICE void take_queries(const Args& A, const float* turns, u32 row, u32 head0, float* q) {
    for (u32 h = warp_index(); h < HPB; h += WARPS) {
        const float* x = X_IN + ((size_t)row * HEADS + head0 + h) * Q_STRIDE;
        if (ROTATE_Q) {
            turn_head<DIM, Q_PAIRS, Q_NEOX>(turns, x, Q_NORM_WEIGHT, Q_NORM_EPS, q + h * ROW_STRIDE);
        } else {
            for (u32 i = lane_index(); i < DIM; i += 32) q[h * ROW_STRIDE + i] = x[i];
        }
    }
}
