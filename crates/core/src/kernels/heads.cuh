// Heads: norm and rotation of one, by a warp; and vectors of a paged cache [page][head][position][D].

// The norm's factor of D numbers that lie in x, by a whole warp.
template <int D> DEVICE float head_factor(const float* x, float eps) {
    float s = 0;
    for (u32 i = lane_index(); i < D; i += 32) s += x[i] * x[i];
    return 1.0f / sqrtf(warp_sum(s) / (float)D + eps);
}

// One head of row `row`, normed (where there is a weight) and rotated, to shared memory, by a whole warp.
template <int D, int P, bool HALVES>
DEVICE void rotate_head(const Batch& batch, u32 table, u32 row, const float* x, const float* weight, float eps, float* out) {
    const float factor = weight ? head_factor<D>(x, eps) : 1.0f;
    for (u32 i = lane_index(); i < D; i += 32) out[i] = weight ? x[i] * factor * weight[i] : x[i];
    __syncwarp();
    for (u32 i = lane_index(); i < P; i += 32) {
        const u32 a = HALVES ? i : 2 * i, b = HALVES ? i + P : 2 * i + 1;
        const float c = batch.cosine(table, row, P, i), s = batch.sine(table, row, P, i);
        const float p = out[a], q = out[b];
        out[a] = p * c - q * s;
        out[b] = p * s + q * c;
    }
    __syncwarp();
}

// Types of caches.
#define CACHE_F32 0
#define CACHE_F16 1
#define CACHE_Q8_0 2

template <int TYPE, int D> struct CacheRow {
    static const int BYTES = TYPE == CACHE_F32 ? D * 4 : TYPE == CACHE_F16 ? D * 2 : D / 32 * 34;

    // Eight numbers from element e, a multiple of 8.
    DEVICE static void load8(const u8* row, u32 e, float (&v)[8]) {
        if (TYPE == CACHE_F32) {
            const float4 lo = *(const float4*)(row + e * 4), hi = *(const float4*)(row + e * 4 + 16);
            v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
            v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
        } else if (TYPE == CACHE_F16) {
            const uint4 b = *(const uint4*)(row + e * 2);
            v[0] = low_f16(b.x), v[1] = high_f16(b.x), v[2] = low_f16(b.y), v[3] = high_f16(b.y);
            v[4] = low_f16(b.z), v[5] = high_f16(b.z), v[6] = low_f16(b.w), v[7] = high_f16(b.w);
        } else {
            const u8* block = row + e / 32 * 34;
            const float d = from_f16(*(const u16*)block);
            const u16* codes = (const u16*)(block + 2 + e % 32);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 two = codes[i];
                v[2 * i] = d * (float)(int)(signed char)two;
                v[2 * i + 1] = d * (float)(int)(signed char)(two >> 8);
            }
        }
    }

    // Stores D numbers, rounded to the cache's type, by a whole warp. Q8_0 rounds as core/src/formats/fit.rs: to the
    // nearest, ties away from zero.
    DEVICE static void store(const float* x, u8* row) {
        if (TYPE == CACHE_F32) {
            for (u32 i = lane_index(); i < D; i += 32) ((float*)row)[i] = x[i];
        } else if (TYPE == CACHE_F16) {
            for (u32 i = lane_index(); i < D; i += 32) ((u16*)row)[i] = to_f16(x[i]);
        } else {
            for (u32 b = 0; b < D / 32; b++) {
                const float v = x[b * 32 + lane_index()];
                const float d = __fdiv_rn(warp_max(fabsf(v)), 127.0f);
                const float y = __fmul_rn(v, d == 0.0f ? 0.0f : __fdiv_rn(1.0f, d));
                const int code = (int)copysignf(floorf(fabsf(fminf(fmaxf(y, -127.0f), 127.0f)) + 0.5f), y);
                row[b * 34 + 2 + lane_index()] = (u8)code;
                if (lane_index() == 0) *(u16*)(row + b * 34) = to_f16(d);
            }
        }
        __syncwarp();
    }
};

// Where the vector of a head at a position of a sequence begins.
DEVICE size_t cache_at(const Batch& batch, u32 seq, u32 position, u32 heads, u32 head, u32 row_bytes) {
    return ((size_t)((size_t)batch.page(seq, position) * heads + head) * batch.page_len() + batch.page_offset(position)) * row_bytes;
}
