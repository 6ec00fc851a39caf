// Writes a sequence's row of a recurrent state: row `seq` of the input or, with KEPT > 0, the last KEPT rows of the sequence's
// range of a convolution window. One block per sequence.
//
// v1: unchanged since it was written.
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
