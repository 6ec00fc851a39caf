// Rows of the table, a block each; a token that the host does not know yet is the one its sequence sampled last.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = group_index();
    if (row >= batch.t()) return;
    u32 id = batch.id(row);
    if (id == FULL) id = FEED[batch.seq(row)];
    if (id >= VOCABULARY) id = 0;
    for (u32 i = threadIdx.x; i < K; i += THREADS) OUT[(size_t)row * K + i] = __fmul_rn(TABLE_WEIGHT.at(id, i), SCALE);
}
