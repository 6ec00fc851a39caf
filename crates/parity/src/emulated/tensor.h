// kernels/tensor.cuh in C++. There are no clusters: kernels made for them are not run here.
static inline float half_of(u32 pair, u32 i) { return from_f16((u16)(pair >> (16 * i))); }
static inline u32 pack_f16(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
static inline void split_f16(float a, float b, u32& high, u32& low) {
    high = pack_f16(a, b);
    low = pack_f16(a - half_of(high, 0), b - half_of(high, 1));
}
static inline float exp2_fast(float x) { return std::exp2(x); }

static u32 matrix_a[64][32][4], matrix_b[64][32][2];
static void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    std::memcpy(matrix_a[warp][lane], a, sizeof(a));
    matrix_b[warp][lane][0] = b0, matrix_b[warp][lane][1] = b1;
    wait_at(warp_barriers[warp]);
    for (u32 i = 0; i < 4; i++) {
        const u32 row = lane / 4, column = lane % 4 * 2 + i % 2;
        for (u32 k = 0; k < 16; k++) {
            const u32 holder = k % 8 / 2;
            const float x = half_of(matrix_a[warp][row * 4 + holder][k / 8 * 2 + i / 2], k % 2);
            c[i] += x * half_of(matrix_b[warp][column * 4 + holder][k / 8], k % 2);
        }
    }
    wait_at(warp_barriers[warp]);
}
static void load_matrices(u32 (&r)[4], const void* row) {
    if ((uintptr_t)row % 16 != 0) std::fprintf(stderr, "a row of a matrix that is not aligned\n"), std::abort();
    for (u32 i = 0; i < 4; i++) {
        const u32 lane = threadIdx.x % 32;
        r[i] = ((const u32*)swap_lanes(row, 8 * i + lane / 4))[lane % 4];
    }
}
static void load_transposed(u32 (&r)[4], const void* row) {
    if ((uintptr_t)row % 16 != 0) std::fprintf(stderr, "a row of a matrix that is not aligned\n"), std::abort();
    for (u32 i = 0; i < 4; i++) {
        const u32 lane = threadIdx.x % 32, first = 8 * i + lane % 4 * 2;
        const u16 low = ((const u16*)swap_lanes(row, first))[lane / 4];
        r[i] = low | (u32)((const u16*)swap_lanes(row, first + 1))[lane / 4] << 16;
    }
}
static u32 transposed(u32 x) {
    const u32 lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    const u32 low = swap_lanes(x, column * 4 + row / 2) >> (16 * (row % 2)) & 0xffff;
    return low | (swap_lanes(x, (column + 1) * 4 + row / 2) >> (16 * (row % 2)) & 0xffff) << 16;
}

static void copy16(void* to, const void* from, bool is_there) {
    if ((uintptr_t)to % 16 != 0 || (is_there && (uintptr_t)from % 16 != 0)) {
        std::fprintf(stderr, "a copy of 16 bytes that is not aligned\n"), std::abort();
    }
    copies[current].push_back({to, is_there ? from : nullptr, 16, copy_group[current]});
}
static inline void copies_end() { cp_async_commit(); }
template <int N> static inline void copies_wait() { cp_async_wait<N>(); }
static inline void cluster_arrive() {}
static inline void cluster_wait() {}
static inline void cluster_sync() {}
static inline void cluster_leave() {}
static inline float of_block(const float* p, u32) { return *p; }
