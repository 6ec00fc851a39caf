// CUDA kernels on a processor, for tests: the threads of a block are fibers of one thread, blocks run one after the other.
// What kernels/machine.cuh does on a GPU, this does in C++. Order and rounding of sums are those of the kernel's text.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define DEVICE inline
#define FULL 0xffffffffu

struct alignas(16) uint4 { u32 x, y, z, w; };
struct alignas(8) uint2 { u32 x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) float2 { float x, y; };
static inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
static inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct Three { u32 x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;
static uint4* emulated_shared;

// Fibers.
struct Fiber {
    ucontext_t context;
    jmp_buf at;
    bool started, done;
    u32 waiting;  // the round of the barrier it waits for
};
struct Barrier {
    u32 round = 0, arrived = 0, live = 0;
    void leave() {
        live--;
        if (live > 0 && arrived == live) release();
    }
    void release() { round++, arrived = 0; }
};
static std::vector<Fiber> fibers;
static std::vector<char> stacks;
static Barrier block_barrier;
static Barrier warp_barriers[64];
static u64 exchange[64][32];
static u32 current;
static jmp_buf scheduler;
static const size_t STACK = 96 * 1024;
static void (*emulated_body)();

static void yield_to_others() {
    if (_setjmp(fibers[current].at) == 0) _longjmp(scheduler, 1);
}
static void wait_at(Barrier& b) {
    const u32 round = b.round;
    if (++b.arrived == b.live) {
        b.release();
        return;
    }
    while (b.round == round) yield_to_others();
}
static inline void __syncthreads() { wait_at(block_barrier); }
static inline void __syncwarp() { wait_at(warp_barriers[threadIdx.x / 32]); }
static void fiber_main() {
    emulated_body();
    fibers[current].done = true;
    block_barrier.leave();
    warp_barriers[current / 32].leave();
    _longjmp(scheduler, 1);
}
// Copies to shared memory on their way, of each thread: they arrive when it waits for them and not before. Without a source
// they bring zeros.
struct Copy { void* to; const void* from; u32 bytes, group; };
static std::vector<std::vector<Copy>> copies;
static std::vector<u32> copy_group;
static void run_block(u32 threads) {
    fibers.resize(threads);
    copies.assign(threads, {});
    copy_group.assign(threads, 0);
    stacks.resize(threads * STACK);
    block_barrier = Barrier();
    block_barrier.live = threads;
    for (u32 w = 0; w < threads / 32; w++) warp_barriers[w] = Barrier(), warp_barriers[w].live = 32;
    for (auto& f : fibers) f.started = f.done = false;
    u32 left = threads, idle = 0;
    while (left > 0) {
        if (++idle > 100000) {
            std::fprintf(stderr, "a block of a kernel waits for ever\n");
            std::abort();
        }
        for (u32 i = 0; i < threads; i++) {
            Fiber& f = fibers[i];
            if (f.done) continue;
            current = i;
            threadIdx = {i, 0, 0};
            if (_setjmp(scheduler) == 0) {
                if (!f.started) {
                    f.started = true;
                    getcontext(&f.context);
                    f.context.uc_stack.ss_sp = &stacks[i * STACK];
                    f.context.uc_stack.ss_size = STACK;
                    f.context.uc_link = nullptr;
                    makecontext(&f.context, fiber_main, 0);
                    setcontext(&f.context);
                } else {
                    _longjmp(f.at, 1);
                }
            }
            if (fibers[i].done) left--, idle = 0;
        }
    }
}

template <class T> static inline T swap_lanes(T value, u32 from) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    exchange[warp][lane] = bits;
    wait_at(warp_barriers[warp]);
    T got;
    std::memcpy(&got, &exchange[warp][from & 31], sizeof(T));
    wait_at(warp_barriers[warp]);
    return got;
}
template <class T> static inline T __shfl_xor_sync(u32, T v, int mask) { return swap_lanes(v, threadIdx.x % 32 ^ mask); }
template <class T> static inline T __shfl_sync(u32, T v, int lane) { return swap_lanes(v, lane); }
static inline void __threadfence() {}
template <class T> static inline T atomicAdd(T* p, T v) { T old = *p; *p += v; return old; }
static inline u32 atomicAdd(u32* p, int v) { u32 old = *p; *p += v; return old; }
static inline u32 atomicOr(u32* p, u32 v) { u32 old = *p; *p |= v; return old; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline T __ldg(const T* p) { return *p; }

static inline float __uint_as_float(u32 b) { float f; std::memcpy(&f, &b, 4); return f; }
static inline u32 __float_as_uint(float f) { u32 b; std::memcpy(&b, &f, 4); return b; }
static inline float __int_as_float(int b) { return __uint_as_float((u32)b); }
static inline int __float_as_int(float f) { return (int)__float_as_uint(f); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> (8 * i)) * (int)(signed char)(b >> (8 * i));
    return c;
}
static inline u32 __byte_perm(u32 a, u32 b, u32 selector) {
    u32 out = 0;
    for (int i = 0; i < 4; i++) {
        const u32 s = selector >> (4 * i) & 7;
        out |= ((s < 4 ? a >> (8 * s) : b >> (8 * (s - 4))) & 255) << (8 * i);
    }
    return out;
}
template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }

DEVICE void wait_for_inputs() {}
DEVICE void allow_next() {}
DEVICE float from_f16(u16 h) { _Float16 f; std::memcpy(&f, &h, 2); return (float)f; }
DEVICE u16 to_f16(float x) { const _Float16 f = (_Float16)x; u16 h; std::memcpy(&h, &f, 2); return h; }
DEVICE uint4 stream16(const void* p) {
    if ((uintptr_t)p % 16 != 0) std::fprintf(stderr, "a load of 16 bytes that is not aligned\n"), std::abort();
    uint4 v; std::memcpy(&v, p, 16); return v;
}
DEVICE u16 stream2(const void* p) { u16 v; std::memcpy(&v, p, 2); return v; }
DEVICE void fetch_line(const void*) {}

DEVICE void cp_async16(void* shared, const void* global) {
    if (((uintptr_t)shared | (uintptr_t)global) % 16 != 0) std::fprintf(stderr, "a copy of 16 bytes that is not aligned\n"), std::abort();
    copies[current].push_back({shared, global, 16, copy_group[current]});
}
DEVICE void cp_async4(void* shared, const void* global) {
    if (((uintptr_t)shared | (uintptr_t)global) % 4 != 0) std::fprintf(stderr, "a copy of 4 bytes that is not aligned\n"), std::abort();
    copies[current].push_back({shared, global, 4, copy_group[current]});
}
DEVICE void cp_async_commit() { copy_group[current]++; }
template <u32 N> DEVICE void cp_async_wait() {
    auto& mine = copies[current];
    auto there = [](const Copy& c) { return c.group + N < copy_group[current]; };
    for (const Copy& c : mine) {
        if (!there(c)) continue;
        if (c.from) std::memcpy(c.to, c.from, c.bytes);
        else std::memset(c.to, 0, c.bytes);
    }
    mine.erase(std::remove_if(mine.begin(), mine.end(), there), mine.end());
}

static const u32* square_rows[64][32];
DEVICE void load_squares(u32 (&r)[4], const void* row) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if ((uintptr_t)row % 16 != 0) std::fprintf(stderr, "a row of a square that is not aligned\n"), std::abort();
    square_rows[warp][lane] = (const u32*)row;
    wait_at(warp_barriers[warp]);
    for (u32 i = 0; i < 4; i++) r[i] = square_rows[warp][i * 8 + lane / 4][lane % 4];
    wait_at(warp_barriers[warp]);
}

// m16n8k16: what each lane holds of a and b, then every lane's four sums.
static u32 mma_factors[64][32][6];
template <class F> DEVICE void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], F number) {
    auto& held = mma_factors[threadIdx.x / 32];
    const u32 lane = threadIdx.x % 32;
    std::memcpy(held[lane], a, 16), std::memcpy(held[lane] + 4, b, 8);
    wait_at(warp_barriers[threadIdx.x / 32]);
    for (u32 i = 0; i < 4; i++) {
        const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (u32 k = 0; k < 16; k++) {
            const u32 of = k % 8 / 2, half = k % 2 * 16;
            const u32 x = held[row % 8 * 4 + of][row / 8 + k / 8 * 2] >> half, y = held[column * 4 + of][4 + k / 8] >> half;
            d[i] += number((u16)x) * number((u16)y);
        }
    }
    wait_at(warp_barriers[threadIdx.x / 32]);
}
DEVICE void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma(d, a, b, from_f16); }
DEVICE void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mma(d, a, b, [](u16 h) { return __uint_as_float((u32)h << 16); });
}
// m16n8k32 of int8.
DEVICE void mma_s8(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    auto& held = mma_factors[threadIdx.x / 32];
    const u32 lane = threadIdx.x % 32;
    std::memcpy(held[lane], a, 16), std::memcpy(held[lane] + 4, b, 8);
    wait_at(warp_barriers[threadIdx.x / 32]);
    for (u32 i = 0; i < 4; i++) {
        const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (u32 k = 0; k < 8; k++) {
            const u32 of = k % 4, half = k / 4;
            d[i] = __dp4a((int)held[row % 8 * 4 + of][row / 8 + half * 2], (int)held[column * 4 + of][4 + half], d[i]);
        }
    }
    wait_at(warp_barriers[threadIdx.x / 32]);
}
