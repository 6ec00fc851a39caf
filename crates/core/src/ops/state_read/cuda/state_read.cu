// Copies a sequence's row of a recurrent state, or zeros in its first chunk: one block per sequence.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 seq = block_index();
    if (seq >= ROWS) return;
    const bool first_chunk = batch.span(seq, 4) != 0;
    const float* row = STATE + (size_t)batch.span(seq, 3) * WIDTH;
    for (u32 i = threadIdx.x; i < WIDTH; i += THREADS) OUT[(size_t)seq * WIDTH + i] = first_chunk ? 0.0f : row[i];
}
