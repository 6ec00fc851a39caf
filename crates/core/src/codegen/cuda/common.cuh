// The beginning of every CUDA kernel: indices, reductions over warps and blocks, and the functions of elementwise trees.
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

// The linear index of the thread block: a device splits large grids over two dimensions.
DEVICE u32 block_index() { return blockIdx.x + blockIdx.y * gridDim.x; }
DEVICE u32 lane_index() { return threadIdx.x & 31; }
DEVICE u32 warp_index() { return threadIdx.x >> 5; }

DEVICE float from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }
DEVICE float low_f16(u32 pair) { return from_f16((u16)pair); }
DEVICE float high_f16(u32 pair) { return from_f16((u16)(pair >> 16)); }

// c + a · b.
DEVICE float dot4(float4 a, float4 b, float c) { return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, c)))); }

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
// D reductions over a warp at once, D a power of two up to 32: each lane has D elements, and lane l gets the sum over all lanes
// of element l % D. Each exchange sends half of a lane's elements away, which takes fewer shuffles than D separate reductions.
template <int D> DEVICE float warp_sums(float (&s)[D]) {
    const u32 lane = lane_index();
#pragma unroll
    for (int h = D / 2; h > 0; h >>= 1) {
#pragma unroll
        for (int i = 0; i < h; i++) {
            const float keep = lane & h ? s[i + h] : s[i], give = lane & h ? s[i] : s[i + h];
            s[i] = keep + __shfl_xor_sync(FULL, give, h);
        }
    }
    float sum = s[0];
#pragma unroll
    for (int m = D; m < 32; m <<= 1) sum += __shfl_xor_sync(FULL, sum, m);
    return sum;
}
// The sum over a block of WARPS warps, in a fixed order, for every thread. `smem` is shared memory of WARPS floats.
template <int WARPS> DEVICE float block_sum(float x, float* smem) {
    x = warp_sum(x);
    if (WARPS == 1) return x;
    __syncthreads();
    if (lane_index() == 0) smem[warp_index()] = x;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) sum += smem[i];
    return sum;
}

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }
DEVICE float tanh_clamped(float x) { return tanhf(fminf(fmaxf(x, -15.0f), 15.0f)); }
DEVICE float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanh_clamped(0.7978846f * (x + 0.044715f * x * x * x)));
}
DEVICE float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
