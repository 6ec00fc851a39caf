// A sequence's numbers to its row of a recurrent state: its own row, or (KEPT > 0) the last rows of its part of a window.
//
// v1 has stayed as it was.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 seq = block_index();
    if (seq >= ROWS) return;
    const u32 row = KEPT > 0 ? batch.span(seq, 0) + batch.span(seq, 1) + seq * KEPT : seq;
    const float* from = X_IN + (size_t)row * X_WIDTH;
    float* to = STATE + (size_t)batch.span(seq, 3) * WIDTH;
    for (u32 i = threadIdx.x; i < WIDTH; i += THREADS) to[i] = from[i];
}
