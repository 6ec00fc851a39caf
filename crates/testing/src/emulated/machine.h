// CUDA kernels on a processor, for tests: the threads of a block are fibers of one thread, blocks run one after the other.
// What kernels/machine.cuh does on a GPU, this does in C++. Order and rounding of sums are those of the kernel's text.
//
// One translation unit holds many kernels, each in a namespace of its own behind this: what is here is compiled once for
// all. In front of it are STACK, the bytes of a thread's stack, and MOST_THREADS of a block.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

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
#define COLD static
#define FULL 0xffffffffu
// Kernels are compiled for a short compilation; where they spend their time is not.
#define HOT __attribute__((optimize("O2")))
// Where fibers change: a processor foresees returns of the functions that it entered last, which were another fiber's.
#define INLINED __attribute__((always_inline)) inline

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

// Fibers: one for each thread of a block. The one that must wait yields to the next that need not, from the first thread
// to the last in one block and from the last to the first in another: what one order hides of a lost barrier the other shows.
struct Barrier {
    u32 round, arrived, live;
    void begin(u32 threads) { round = arrived = 0, live = threads; }
    void release() { round++, arrived = 0; }
    void leave() {
        live--;
        if (live > 0 && arrived == live) release();
    }
};
struct Wait {
    const Barrier* at;  // none: it need not wait
    u32 round;          // until this round is over
};
static jmp_buf fibers[MOST_THREADS], launcher;
static Wait waits[MOST_THREADS];
static const Barrier ended = {};  // where fibers wait that have run: its round is never over
static Barrier block_barrier, warp_barriers[MOST_THREADS / 32];
static u32 current, running, stride;
static void (*emulated_body)();

[[noreturn]] static void wrong(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}
[[noreturn]] HOT static void run_next() {
    const u32 threads = blockDim.x;
    for (u32 n = 0; n < threads; n++) {
        current = (current + stride) % threads;
        const Wait& wait = waits[current];
        if (wait.at && wait.at->round == wait.round) continue;
        threadIdx.x = current;
        _longjmp(fibers[current], 1);
    }
    wrong("a block of a kernel waits for ever");
}
HOT static void wait_at(Barrier& b) {
    const u32 me = current;
    if (++b.arrived == b.live) {
        b.release();
        return;
    }
    waits[me] = {&b, b.round};
    if (_setjmp(fibers[me]) == 0) run_next();
    waits[me].at = nullptr;
}
static INLINED void __syncthreads() { wait_at(block_barrier); }
static INLINED void __syncwarp() { wait_at(warp_barriers[threadIdx.x / 32]); }
// Runs its thread of one block after the other; in between it waits for the next.
[[noreturn]] static void fiber_main() {
    const u32 me = current;
    for (;;) {
        waits[me] = {&ended, 0};
        if (_setjmp(fibers[me]) == 0) {
            if (running == 0) _longjmp(launcher, 1);
            run_next();
        }
        emulated_body();
        block_barrier.leave();
        warp_barriers[me / 32].leave();
        running--;
    }
}
static const u64 FREE = 0x5374614b654e6421;
static u64& stack_end(char* stacks, u32 thread) { return *(u64*)(stacks + thread * STACK); }
static void make_fibers(char* stacks) {
    static ucontext_t context;
    running = 0;
    for (current = 0; current < blockDim.x; current++) {
        if (_setjmp(launcher) != 0) continue;
        stack_end(stacks, current) = FREE;
        getcontext(&context);
        context.uc_stack.ss_sp = stacks + current * STACK;
        context.uc_stack.ss_size = STACK;
        context.uc_link = nullptr;
        makecontext(&context, fiber_main, 0);
        setcontext(&context);
    }
}
// Copies to shared memory on their way, of each thread: they arrive when it waits for them and not before.
struct Copy { void* to; const void* from; u32 bytes, group; };
static const u32 MOST_COPIES = 1024;
static Copy copies[MOST_THREADS][MOST_COPIES];
static u32 copy_count[MOST_THREADS], copy_group[MOST_THREADS];
static void run_block(bool is_backwards) {
    const u32 threads = blockDim.x;
    block_barrier.begin(threads);
    for (u32 w = 0; w < threads / 32; w++) warp_barriers[w].begin(32);
    for (u32 i = 0; i < threads; i++) waits[i].at = nullptr, copy_count[i] = copy_group[i] = 0;
    running = threads, stride = is_backwards ? threads - 1 : 1, current = is_backwards ? 0 : threads - 1;
    if (_setjmp(launcher) == 0) run_next();
}
// Runs a kernel for the `time`th time: blocks one after the other, with shared memory that holds nothing of use.
static void launch(void (*body)(), u32 time, u32 groups, u32 threads, u32 shared, char* stacks) {
    if (threads > MOST_THREADS || threads % 32 != 0) wrong("a block of a kernel is not of whole warps, or has too many");
    emulated_body = body;
    gridDim = {groups, 1, 1}, blockDim = {threads, 1, 1}, threadIdx = {0, 0, 0};
    emulated_shared = (uint4*)std::aligned_alloc(16, (shared / 16 + 1) * 16);
    make_fibers(stacks);
    for (u32 g = 0; g < groups; g++) {
        std::memset((void*)emulated_shared, 255, (shared / 16 + 1) * 16);
        blockIdx = {g, 0, 0};
        run_block((time + g) % 2 == 1);
    }
    std::free(emulated_shared);
    for (u32 i = 0; i < threads; i++) if (stack_end(stacks, i) != FREE) wrong("a thread of a kernel needs more than its stack");
}

// What the lanes of a warp show each other: each fills its part, and once all have, each reads. Lanes that are ahead fill
// the other half, so that none writes over what another has yet to read.
template <class T> struct Shown {
    T halves[MOST_THREADS / 32][2];
    INLINED T& filling() { return halves[threadIdx.x / 32][warp_barriers[threadIdx.x / 32].round % 2]; }
    INLINED const T& full() {
        const T& shown = filling();
        wait_at(warp_barriers[threadIdx.x / 32]);
        return shown;
    }
};
struct Lanes { u64 of[32]; };
static Shown<Lanes> exchange;
template <class T> static INLINED const Lanes& show(T value) {
    static_assert(sizeof(T) <= sizeof(u64), "lanes exchange up to 64 bits");
    std::memcpy(&exchange.filling().of[threadIdx.x % 32], &value, sizeof(T));
    return exchange.full();
}
template <class T> static INLINED T swap_lanes(T value, u32 from) {
    T got;
    std::memcpy(&got, &show(value).of[from & 31], sizeof(T));
    return got;
}
template <class T> static INLINED T __shfl_xor_sync(u32, T v, int mask) { return swap_lanes(v, threadIdx.x % 32 ^ mask); }
template <class T> static INLINED T __shfl_sync(u32, T v, int lane) { return swap_lanes(v, lane); }
static INLINED u32 warp_total(u32 x) {
    const Lanes& lanes = show(x);
    u32 sum = 0;
    for (int i = 0; i < 32; i++) {
        u32 one;
        std::memcpy(&one, &lanes.of[i], sizeof(one));
        sum += one;
    }
    return sum;
}
static INLINED u32 lanes_with(bool is) { return warp_total(is); }
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
// Loads and copies of 16 bytes must lie at multiples of them.
static inline void check(bool is_aligned) {
    if (!is_aligned) wrong("a load or copy that is not aligned to its size");
}
DEVICE uint4 stream16(const void* p) {
    check((uintptr_t)p % 16 == 0);
    uint4 v; std::memcpy(&v, p, 16); return v;
}
DEVICE u16 stream2(const void* p) { u16 v; std::memcpy(&v, p, 2); return v; }
DEVICE void fetch_line(const void*) {}

DEVICE void cp_async(void* shared, const void* global, u32 bytes) {
    check(((uintptr_t)shared | (uintptr_t)global) % bytes == 0);
    if (copy_count[current] == MOST_COPIES) wrong("a thread has more copies on their way than are kept for it");
    copies[current][copy_count[current]++] = {shared, global, bytes, copy_group[current]};
}
DEVICE void cp_async16(void* shared, const void* global) { cp_async(shared, global, 16); }
DEVICE void cp_async8(void* shared, const void* global) { cp_async(shared, global, 8); }
DEVICE void cp_async4(void* shared, const void* global) { cp_async(shared, global, 4); }
DEVICE void cp_async_commit() { copy_group[current]++; }
template <u32 N> DEVICE void cp_async_wait() {
    u32 left = 0;
    for (u32 i = 0; i < copy_count[current]; i++) {
        const Copy c = copies[current][i];
        if (c.group + N < copy_group[current]) std::memcpy(c.to, c.from, c.bytes);
        else copies[current][left++] = c;
    }
    copy_count[current] = left;
}

// f16 has 11 bits and f32 24: sums, products and products with a sum of two f16 are rounded once.
template <class F> DEVICE u32 of_pairs(F number) { return to_f16(number(0)) | (u32)to_f16(number(16)) << 16; }
DEVICE u32 sub_pairs(u32 a, u32 b) { return of_pairs([&](u32 s) { return from_f16((u16)(a >> s)) - from_f16((u16)(b >> s)); }); }
DEVICE u32 mul_pairs(u32 a, u32 b) { return of_pairs([&](u32 s) { return from_f16((u16)(a >> s)) * from_f16((u16)(b >> s)); }); }
DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
    return of_pairs([&](u32 s) { return (float)((double)from_f16((u16)(a >> s)) * from_f16((u16)(b >> s)) + from_f16((u16)(c >> s))); });
}

DEVICE void load_squares(u32 (&r)[4], const void* row) {
    check((uintptr_t)row % 16 == 0);
    const u32 lane = threadIdx.x % 32;
    const Lanes& rows = show(row);
    for (u32 i = 0; i < 4; i++) r[i] = ((const u32*)rows.of[i * 8 + lane / 4])[lane % 4];
}

// d += a · b of a warp: [16][K] of numbers of which W fit a word, times [K][8]. A lane has words g and g + 4 of rows g and
// g + 8 of a and of column g of b, with g = lane / 4, and of d the numbers at two columns of those rows.
template <class N, u32 W> struct Matrices { N a[16][8 * W], b[8][8 * W]; };
template <u32 W, class N, class F>
HOT static void mma(Shown<Matrices<N, W>>& shown, N (&d)[4], const u32 (&a)[4], const u32 (&b)[2], F number) {
    const u32 lane = threadIdx.x % 32, row = lane / 4, word = lane % 4;
    auto& mine = shown.filling();
    for (u32 i = 0; i < W; i++) {
        const u32 shift = 32 / W * i;
        for (u32 m = 0; m < 4; m++) mine.a[row + m % 2 * 8][(word + m / 2 * 4) * W + i] = number(a[m] >> shift);
        for (u32 m = 0; m < 2; m++) mine.b[row][(word + m * 4) * W + i] = number(b[m] >> shift);
    }
    const auto& all = shown.full();
    for (u32 i = 0; i < 4; i++) {
        const N *x = all.a[row + i / 2 * 8], *y = all.b[word * 2 + i % 2];
        N sum = d[i];
        for (u32 k = 0; k < 8 * W; k++) sum += x[k] * y[k];
        d[i] = sum;
    }
}
static Shown<Matrices<float, 2>> matrices;
static Shown<Matrices<int, 4>> int_matrices;
DEVICE void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mma(matrices, d, a, b, [](u32 h) { return from_f16((u16)h); });
}
DEVICE void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mma(matrices, d, a, b, [](u32 h) { return __uint_as_float(h << 16); });
}
DEVICE void mma_s8(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mma(int_matrices, d, a, b, [](u32 q) { return (int)(signed char)q; });
}
