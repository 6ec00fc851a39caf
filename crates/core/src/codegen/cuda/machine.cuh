// Instructions that C++ cannot express, as inline PTX, with short names for types: conversions (NVRTC has no headers for them),
// loads that bypass L1, cp.async, MMA, programmatic dependent launch. Tests that run kernels without a GPU replace this file.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
// Marks a function that is seldom called. Inlined, it would lengthen its kernels, and instructions are fetched from memory too.
#define COLD static __device__ __noinline__
#define FULL 0xffffffffu

// Programmatic dependent launch. A kernel may start while the kernels before it still run. It must call `wait_for_inputs`
// before it touches a slot or a state, and before it ends. Memory that no other kernel of the tick writes may be read before
// the wait: weights, the batch's words, and the cache positions that earlier ticks wrote.
//
// DELAYS is the seed of test builds that delay every warp at these calls by a random time, most by less than a thousand cycles
// and one in eight by up to sixteen thousand, so that warps and blocks arrive in any order.
#ifdef DELAYS
DEVICE void delay() {
    const u32 begin = (u32)clock64(), warp = (blockIdx.x + blockIdx.y * gridDim.x) * 32u + threadIdx.x / 32u;
    const u32 hash = ((warp + 1u) * 2654435761u ^ begin * 2246822519u ^ DELAYS) * 3266489917u;
    const u32 cycles = (hash >> 8 & 7u) == 0 ? hash >> 18 : hash >> 22;
    while ((u32)clock64() - begin < cycles) {
    }
}
#else
DEVICE void delay() {}
#endif
DEVICE void wait_for_inputs() {
    delay();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    delay();
}
DEVICE void allow_next() {
    delay();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// The sum of x over a warp's lanes, and the number of lanes in which a condition holds.
DEVICE u32 warp_total(u32 x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(FULL, x);
#else
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(FULL, x, o);
    return x;
#endif
}
DEVICE u32 lanes_with(bool is) { return __popc(__ballot_sync(FULL, is)); }

DEVICE float from_f16(u16 h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
DEVICE u16 to_f16(float f) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
// 16 bytes of a weight: read once, so not kept in L1.
DEVICE uint4 stream16(const void* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
DEVICE u16 stream2(const void* p) {
    u16 v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
// Prefetches a line of 128 bytes into L2.
DEVICE void fetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Asynchronous copies from global to shared memory that do not pass through registers. The copies since the last commit form a
// group; `cp_async_wait` waits until all but the thread's last N groups have arrived.
DEVICE void cp_async16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
DEVICE void cp_async8(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((u32)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
DEVICE void cp_async4(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Arithmetic on pairs of f16 in a word.
DEVICE u32 sub_pairs(u32 a, u32 b) {
    u32 c;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
DEVICE u32 mul_pairs(u32 a, u32 b) {
    u32 c;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
// a · b + c, rounded once.
DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// ldmatrix: four matrices of 8 x 8 16-bit elements from shared memory, by a whole warp. Lane i passes the address of row i % 8
// of matrix i / 8 and receives, of each matrix, the pair of elements in row i / 4 at columns i % 4 * 2 and i % 4 * 2 + 1.
DEVICE void load_squares(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((u32)__cvta_generic_to_shared(row))
                 : "memory");
}

// mma.sync: d += a · b of a warp, m16n8k16, with pairs of 16-bit elements in the order of PTX's fragments.
DEVICE void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same for int8, m16n8k32, with four elements in a word.
DEVICE void mma_s8(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
