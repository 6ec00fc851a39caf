// Rows whose logits are wanted, copied: one block a row.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = group_index();
    if (row >= batch.s()) return;
    const float* from = X_IN + (size_t)batch.logit_row(row) * WIDTH;
    for (u32 i = threadIdx.x; i < WIDTH; i += THREADS) OUT[(size_t)row * WIDTH + i] = from[i];
}
