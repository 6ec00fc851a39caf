// Copies the rows whose logits are wanted, out of one value after another: one block per row, one loop per
// value.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const Batch batch{BATCH};
    const u32 row = block_index();
    if (row >= batch.s()) return;
    const size_t from = batch.logit_row(row);
    ROW_COPIES
}
