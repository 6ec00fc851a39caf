// Copies LEN elements from START of every GROUP elements: one element per thread.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 i = (u64)block_index() * THREADS + threadIdx.x;
    if (i >= (u64)ROWS * WIDTH) return;
    OUT[i] = X_IN[i / LEN * GROUP + START + i % LEN];
}
