// Copies the KEPT earlier rows of each sequence and then its rows of this step: one block per row of the output.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = block_index();
    if (row >= batch.t() + batch.s() * KEPT) return;
    // Find the row's sequence: each sequence before it has KEPT more rows than tokens.
    u32 seq = 0;
    while (seq + 1 < batch.s() && row >= batch.span(seq + 1, 0) + (seq + 1) * KEPT) seq++;
    const u32 at = row - batch.span(seq, 0) - seq * KEPT;
    const bool first_chunk = IN_PLACE && batch.span(seq, 4) != 0;
    const float* old = OLD + ((size_t)(IN_PLACE ? batch.span(seq, 3) : seq) * KEPT + at) * WIDTH;
    for (u32 i = threadIdx.x; i < WIDTH; i += THREADS) {
        float v = 0;
        if (at >= KEPT) {
            v = X_IN[(size_t)(batch.span(seq, 0) + at - KEPT) * WIDTH + i];
        } else if (!first_chunk) {
            v = old[i];
        }
        OUT[(size_t)row * WIDTH + i] = v;
    }
}
