// What `Unit` (codegen/cuda.rs) writes in front of a kernel's file for a launch, for a file that is compiled by itself: the thread
// block, the kernel's entry, and operands as untyped pointers, of which the first is the step batch. A file defines THREADS
// before it includes this one.
#include "machine.cuh"
#include "common.cuh"
#include "batch.cuh"

#define WARPS (THREADS / 32)
#define BATCH ((const u32*)A.a0)

struct Args {
    void *a0, *a1, *a2, *a3, *a4, *a5, *a6, *a7, *a8, *a9, *a10, *a11, *a12, *a13, *a14, *a15;
};
#define ARGS operands
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS) kernel(Args operands)
