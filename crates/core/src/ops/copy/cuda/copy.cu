// A copy, one element per thread; VALUE reads IN[i] and converts it to the output's type.
//
// v1: unchanged since it was written.
KERNEL {
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u64 i = (u64)block_index() * THREADS + threadIdx.x;
    if (i >= (u64)ROWS * WIDTH) return;
    OUT[i] = VALUE;
}
