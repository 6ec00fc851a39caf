// TREE, an expression over broadcast operands at row r and column c: one element per thread.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 i = (u64)block_index() * THREADS + threadIdx.x;
    if (i >= (u64)ROWS * WIDTH) return;
    const u32 r = (u32)(i / WIDTH), c = (u32)(i % WIDTH);
    OUT[i] = TREE;
}
