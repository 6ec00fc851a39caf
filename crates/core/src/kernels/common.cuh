// What every CUDA kernel of onetrip begins with: short types, conversions without headers (NVRTC has none), dependent
// launch, sums over warps and blocks, and the functions of elementwise trees.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define FULL 0xffffffffu
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

// Dependent launch. A kernel may start while the one before it still runs; it must call `wait_for_inputs` before it
// touches a slot, a state or the batch, and before it ends. Weights do not change and may be fetched earlier.
DEVICE void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
#ifdef DELAYS
    // Test builds: blocks start in any order and at any distance.
    const u32 spin = ((blockIdx.x + blockIdx.y * 977u + 1u) * 2654435761u ^ (u32)clock64()) >> 20;
    for (u32 i = 0; i < spin; i++) asm volatile("nanosleep.u32 1;");
#endif
}
DEVICE void allow_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Index of the group: a device splits large grids over two dimensions.
DEVICE u32 group_index() { return blockIdx.x + blockIdx.y * gridDim.x; }
DEVICE u32 lane_index() { return threadIdx.x & 31; }
DEVICE u32 warp_index() { return threadIdx.x >> 5; }

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
DEVICE float from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }
DEVICE float low_f16(u32 pair) { return from_f16((u16)pair); }
DEVICE float high_f16(u32 pair) { return from_f16((u16)(pair >> 16)); }

// 16 bytes of a weight: read once, so not kept in the first-level cache.
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
// Asks for a line of 128 bytes to come to the second-level cache.
DEVICE void fetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(FULL, x, i);
    return x;
}
DEVICE float warp_max(float x) {
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, i));
    return x;
}
// The sum over a block of WARPS warps, in a fixed order, for every thread. `room` is shared memory of WARPS floats.
template <int WARPS> DEVICE float block_sum(float x, float* room) {
    x = warp_sum(x);
    if (WARPS == 1) return x;
    __syncthreads();
    if (lane_index() == 0) room[warp_index()] = x;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) sum += room[i];
    return sum;
}

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }
DEVICE float tanh_bounded(float x) { return tanhf(fminf(fmaxf(x, -15.0f), 15.0f)); }
DEVICE float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanh_bounded(0.7978846f * (x + 0.044715f * x * x * x)));
}
DEVICE float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
