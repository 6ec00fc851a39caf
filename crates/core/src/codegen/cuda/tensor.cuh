// Tensor cores, asynchronous copies to shared memory, and thread block clusters. Tests that run kernels without a GPU replace
// this file, like machine.cuh.

// Two floats as a pair of f16, the first in the low half.
DEVICE u32 pack_f16(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// Splits two floats into two pairs of f16 whose sum they are: the rounded values and the remainders.
DEVICE void split_f16(float a, float b, u32& high, u32& low) {
    high = pack_f16(a, b);
    low = pack_f16(a - low_f16(high), b - high_f16(high));
}
DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// mma.sync: c [16][8] += a [16][16] · b [16][8] by a warp, f16 with f32 accumulators. With g = lane / 4 and p = lane % 4 * 2,
// a lane holds of a the pairs that begin at (g, p), (g + 8, p), (g, p + 8), (g + 8, p + 8); of b the pairs in column g that
// begin at rows p and p + 8; of c the elements (g, p), (g, p + 1), (g + 8, p), (g + 8, p + 1).
DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE u32 shared_place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// ldmatrix: four matrices [8][8] of 16-bit elements from shared memory; lane l passes the address of row l % 8 of matrix l / 8.
DEVICE void load_matrices(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_place(row))
                 : "memory");
}
DEVICE void load_transposed(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_place(row))
                 : "memory");
}
// movmatrix: transposes a matrix [8][8] of 16-bit elements that a warp holds in registers.
DEVICE u32 transposed(u32 x) {
    u32 y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// cp.async of 16 bytes to shared memory; without `is_there` it writes zeros and reads nothing.
DEVICE void copy16(void* to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}
DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of this thread's copies are under way.
template <int N> DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// The cluster barrier, in two halves: writes before `cluster_arrive` are visible to all blocks of the cluster after
// `cluster_wait`.
DEVICE void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
DEVICE void cluster_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
DEVICE void cluster_sync() { cluster_arrive(), cluster_wait(); }
// The relaxed cluster barrier: it orders no memory accesses, and so does not wait for stores. Needed before a block ends whose
// shared memory other blocks read.
DEVICE void cluster_leave() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;" ::: "memory");
#endif
}
// Distributed shared memory: reads, in block `rank` of the cluster, the address that `p` is in this block.
DEVICE float of_block(const float* p, u32 rank) {
    float x = 0;
#if __CUDA_ARCH__ >= 900
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_place(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
#endif
    return x;
}
// The same for four adjacent elements.
DEVICE float4 four_of_block(const float* p, u32 rank) {
    float4 x = make_float4(0, 0, 0, 0);
#if __CUDA_ARCH__ >= 900
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_place(p)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(there)
                 : "memory");
#endif
    return x;
}
