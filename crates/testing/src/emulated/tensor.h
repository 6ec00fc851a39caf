// kernels/tensor.cuh in C++, behind machine.h. There are no clusters: kernels made for them are not run here.
static inline float half_of(u32 pair, u32 i) { return from_f16((u16)(pair >> (16 * i))); }
static inline u32 pack_f16(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
static inline void split_f16(float a, float b, u32& high, u32& low) {
    high = pack_f16(a, b);
    low = pack_f16(a - half_of(high, 0), b - half_of(high, 1));
}
static inline float exp2_fast(float x) { return std::exp2(x); }

static inline void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, {b0, b1}); }
static inline void load_matrices(u32 (&r)[4], const void* row) { load_squares(r, row); }
static void load_transposed(u32 (&r)[4], const void* row) {
    check((uintptr_t)row % 16 == 0);
    const u32 lane = threadIdx.x % 32;
    const Lanes& rows = show(row);
    for (u32 i = 0; i < 4; i++) {
        const u64* pair = &rows.of[8 * i + lane % 4 * 2];
        r[i] = ((const u16*)pair[0])[lane / 4] | (u32)((const u16*)pair[1])[lane / 4] << 16;
    }
}
static u32 transposed(u32 x) {
    const u32 lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    const Lanes& all = show(x);
    const u32 low = (u32)all.of[column * 4 + row / 2] >> (16 * (row % 2)) & 0xffff;
    return low | ((u32)all.of[(column + 1) * 4 + row / 2] >> (16 * (row % 2)) & 0xffff) << 16;
}

static void copy16(void* to, const void* from, bool is_there) {
    static const uint4 zero = {0, 0, 0, 0};
    cp_async16(to, is_there ? from : &zero);
}
static inline void copies_end() { cp_async_commit(); }
template <int N> static inline void copies_wait() { cp_async_wait<N>(); }
static inline void cluster_arrive() {}
static inline void cluster_wait() {}
static inline void cluster_sync() {}
static inline void cluster_leave() {}
static inline float of_block(const float* p, u32) { return *p; }
static inline float4 four_of_block(const float* p, u32) { return *(const float4*)p; }
