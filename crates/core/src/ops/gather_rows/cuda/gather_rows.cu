// Rows whose logits are wanted, of each value in turn, copied: one block a row.
//
// v1 has stayed as it was.
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
