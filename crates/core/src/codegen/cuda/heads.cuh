// Attention heads: RMS norm and rotary embedding of one head by a warp, and vectors of a paged KV cache
// [page][head][position][D].

// The RMS norm's factor of a head of D elements at x, computed by a whole warp.
template <int D> DEVICE float head_factor(const float* x, float eps) {
    float s = 0;
    for (u32 i = lane_index(); i < D; i += 32) s += x[i] * x[i];
    return 1.0f / sqrtf(warp_sum(s) / (float)D + eps);
}

// Normalizes one head (where there is a weight) and rotates it, by a whole warp; `out` is in shared memory. `turns`: P cosines,
// then P sines. HALVES: pair i is (i, i + P) instead of (2i, 2i + 1).
template <int D, int P, bool HALVES>
DEVICE void turn_head(const float* turns, const float* x, const float* weight, float eps, float* out) {
    const float factor = weight ? head_factor<D>(x, eps) : 1.0f;
    for (u32 i = lane_index(); i < D; i += 32) out[i] = weight ? x[i] * factor * weight[i] : x[i];
    __syncwarp();
    for (u32 i = lane_index(); i < P; i += 32) {
        const u32 a = HALVES ? i : 2 * i, b = HALVES ? i + P : 2 * i + 1;
        const float c = turns[i], s = turns[P + i], p = out[a], q = out[b];
        out[a] = p * c - q * s;
        out[b] = p * s + q * c;
    }
    __syncwarp();
}
template <int D, int P, bool HALVES>
DEVICE void rotate_head(const Batch& batch, u32 table, u32 row, const float* x, const float* weight, float eps, float* out) {
    turn_head<D, P, HALVES>(batch.turns(table, row, P), x, weight, eps, out);
}

// Element types of a KV cache.
#define CACHE_F32 0
#define CACHE_F16 1
#define CACHE_Q8_0 2

template <int TYPE, int D> struct CacheRow {
    static const int BYTES = TYPE == CACHE_F32 ? D * 4 : TYPE == CACHE_F16 ? D * 2 : D / 32 * 34;

    // Eight elements as they are stored in the cache. Loading and conversion are separate, so that several loads can be under
    // way before the first conversion waits.
    struct Eight {
        uint4 a, b;
    };
    DEVICE static Eight nothing() { return Eight{make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)}; }
    // Loads eight elements from element e, a multiple of 8.
    DEVICE static Eight fetch8(const u8* row, u32 e) {
        Eight x = nothing();
        if (TYPE == CACHE_F32) {
            x.a = *(const uint4*)(row + e * 4), x.b = *(const uint4*)(row + e * 4 + 16);
        } else if (TYPE == CACHE_F16) {
            x.a = *(const uint4*)(row + e * 2);
        } else {
            const u16* block = (const u16*)(row + e / 32 * 34);
            const u16* quants = block + 1 + e % 32 / 2;
            x.a = make_uint4(quants[0], quants[1], quants[2], quants[3]), x.b.x = *block;
        }
        return x;
    }
    DEVICE static void convert(const Eight& x, float (&v)[8]) {
        const u32 a[4] = {x.a.x, x.a.y, x.a.z, x.a.w}, b[4] = {x.b.x, x.b.y, x.b.z, x.b.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (TYPE == CACHE_F32) {
                v[i] = __uint_as_float(a[i]), v[4 + i] = __uint_as_float(b[i]);
            } else if (TYPE == CACHE_F16) {
                v[2 * i] = low_f16(a[i]), v[2 * i + 1] = high_f16(a[i]);
            } else {
                const float d = from_f16((u16)b[0]);
                v[2 * i] = d * (float)(int)(signed char)a[i];
                v[2 * i + 1] = d * (float)(int)(signed char)(a[i] >> 8);
            }
        }
    }
    DEVICE static void load8(const u8* row, u32 e, float (&v)[8]) { convert(fetch8(row, e), v); }

    // Stores D elements, rounded to the cache's type, by a whole warp. Q8_0 rounds like core/src/formats/fit.rs: to the
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
                const int quant = (int)copysignf(floorf(fabsf(fminf(fmaxf(y, -127.0f), 127.0f)) + 0.5f), y);
                row[b * 34 + 2 + lane_index()] = (u8)quant;
                if (lane_index() == 0) *(u16*)(row + b * 34) = to_f16(d);
            }
        }
        __syncwarp();
    }
};

// The byte offset in the cache of a head's vector at a position of a sequence.
DEVICE size_t cache_at(const Batch& batch, u32 seq, u32 position, u32 heads, u32 head, u32 row_bytes) {
    return ((size_t)((size_t)batch.page(seq, position) * heads + head) * batch.page_len() + batch.page_offset(position)) * row_bytes;
}
