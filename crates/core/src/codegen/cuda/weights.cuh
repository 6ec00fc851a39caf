// Weights [rows, K] as kernels read them, and the activations in shared memory that are multiplied with them.
//
// A chunk is 16 bytes of quants or floats of one row. The activations of N tokens are in shared memory in up to three forms:
// - f32, in groups of four: the even groups of a row first, then the odd ones, so that lanes which each read eight adjacent
//   elements have no bank conflicts;
// - int8 in their order (for 8-bit quants), or int8 with the even elements of a row first, then the odd ones (for 4-bit quants:
//   the low nibbles are the even elements, the high nibbles the odd ones);
// - for either int8 form, the scale of every 32 elements, and `scale * sum of the quants` of every 16, for zero points and mins.
// Activation quantization is bit for bit that of core/src/simd/q8.rs.

struct X {
    const float* f;      // [N][K]
    const u8* q;         // [N][K]
    const u8* eo;        // [N][K]
    const float* scale;  // [N][K / 32]
    const float* sum;    // [N][K / 16]
};

// The index in shared memory of the group of four that begins at element 4 * g of a row.
DEVICE u32 f32_group(u32 g) { return (g & 1) * (K / 2) + (g >> 1) * 4; }

// What the 16 bits of a scale mean (`ScaleKind` in ir/src/formats/block.rs).
struct ScaleF16 {
    static const bool FITS_F16 = true;
    DEVICE static float of(u16 bits) { return from_f16(bits); }
};
// Powers of two, as bf16.
struct ScaleE8M0 {
    static const bool FITS_F16 = false;
    DEVICE static float of(u16 bits) { return from_bf16(bits); }
};

// Quantized weights in planes. BITS: of a quant. GROUP: elements to a scale. ZERO: the zero point, subtracted from quants.
// HAS_MIN: there is a plane of mins. INT8: activations are quantized to int8. A scale is never multiplied with a sum of integers
// without the scale of the activations: a power of two may be so large that this product is infinite.
template <int BITS, int GROUP, int ZERO, bool HAS_MIN, class Scale, bool INT8> struct Planes {
    const u8* quants;
    const u8* scales;
    const u8* mins;
    static const int ELEMENTS = 128 / BITS;
    static const int SCALES = ELEMENTS > GROUP ? ELEMENTS / GROUP : 1;

    struct Chunk {
        uint4 quants;
        u16 scale[SCALES];
        u16 group_min[SCALES];
    };

    DEVICE Chunk load(u32 row, u32 chunk) const {
        Chunk c;
        c.quants = stream16(quants + (size_t)row * (K / 8 * BITS) + chunk * 16);
        const size_t group = (size_t)row * (K / GROUP) + chunk * ELEMENTS / GROUP;
#pragma unroll
        for (int g = 0; g < SCALES; g++) {
            c.scale[g] = stream2(scales + (group + g) * 2);
            if (HAS_MIN) c.group_min[g] = stream2(mins + (group + g) * 2);
        }
        return c;
    }

    // acc[r][t] += the dot product of row r's chunk with the activations of token t.
    template <int R, int N> DEVICE static void dot(const Chunk (&c)[R], const X& x, u32 chunk, float (&acc)[R][N]) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            if (INT8) {
                dot_int8<R, N>(c, x, chunk, t, acc);
            } else {
                dot_f32<R, N>(c, x, chunk, t, acc);
            }
        }
    }

    // A thread's int8 activations for a chunk, in registers: quants, their scale, and `scale * sum of quants` of each group.
    struct Mine {
        uint4 even, odd;  // for 8-bit weights `even` alone holds the quants, in their order
        float scale, sum[2];
    };
    DEVICE static Mine nothing() {
        Mine m;
        m.even = m.odd = make_uint4(0, 0, 0, 0), m.scale = m.sum[0] = m.sum[1] = 0;
        return m;
    }
    // Loads those of token t from shared memory.
    DEVICE static Mine mine(const X& x, u32 t, u32 chunk) {
        Mine m = nothing();
        const float* sums = x.sum + t * (K / 16);
        if (BITS == 4) {
            m.even = *(const uint4*)(x.eo + t * K + chunk * 16);
            m.odd = *(const uint4*)(x.eo + t * K + K / 2 + chunk * 16);
            m.scale = x.scale[t * (K / 32) + chunk];
            const float2 sum = *(const float2*)(sums + chunk * 2);
            if (SCALES == 1) {
                m.sum[0] = sum.x + sum.y;
            } else {
                m.sum[0] = sum.x, m.sum[1] = sum.y;
            }
        } else {
            m.even = *(const uint4*)(x.q + t * K + chunk * 16);
            m.scale = x.scale[t * (K / 32) + chunk / 2];
            if (HAS_MIN) m.sum[0] = sums[chunk];
        }
        return m;
    }
    // acc + the dot product of a chunk with its activations.
    DEVICE static float mac(const Chunk& c, const Mine& m, float acc) {
        const uint4 w = c.quants;
        const float scale = Scale::of(c.scale[0]);
        if (BITS == 4) {
            int a = 0, b = 0;
            a = __dp4a((int)(w.x & 0x0f0f0f0f), (int)m.even.x, a);
            a = __dp4a((int)(w.y & 0x0f0f0f0f), (int)m.even.y, a);
            a = __dp4a((int)((w.x >> 4) & 0x0f0f0f0f), (int)m.odd.x, a);
            a = __dp4a((int)((w.y >> 4) & 0x0f0f0f0f), (int)m.odd.y, a);
            b = __dp4a((int)(w.z & 0x0f0f0f0f), (int)m.even.z, b);
            b = __dp4a((int)(w.w & 0x0f0f0f0f), (int)m.even.w, b);
            b = __dp4a((int)((w.z >> 4) & 0x0f0f0f0f), (int)m.odd.z, b);
            b = __dp4a((int)((w.w >> 4) & 0x0f0f0f0f), (int)m.odd.w, b);
            if (SCALES == 1) {
                acc += scale * (m.scale * (float)(a + b) - (float)ZERO * m.sum[0]);
            } else {
                acc += scale * (m.scale * (float)a - (float)ZERO * m.sum[0]);
                acc += Scale::of(c.scale[SCALES - 1]) * (m.scale * (float)b - (float)ZERO * m.sum[1]);
                if (HAS_MIN) acc += from_f16(c.group_min[SCALES - 1]) * m.sum[1];
            }
        } else {
            int a = __dp4a((int)w.x, (int)m.even.x, 0);
            a = __dp4a((int)w.y, (int)m.even.y, a);
            a = __dp4a((int)w.z, (int)m.even.z, a);
            a = __dp4a((int)w.w, (int)m.even.w, a);
            acc += scale * m.scale * (float)a;
        }
        if (HAS_MIN) acc += from_f16(c.group_min[0]) * m.sum[0];
        return acc;
    }

    template <int R, int N>
    DEVICE static void dot_int8(const Chunk (&c)[R], const X& x, u32 chunk, int t, float (&acc)[R][N]) {
        const Mine m = mine(x, t, chunk);
#pragma unroll
        for (int r = 0; r < R; r++) acc[r][t] = mac(c[r], m, acc[r][t]);
    }

    template <int R, int N>
    DEVICE static void dot_f32(const Chunk (&c)[R], const X& x, u32 chunk, int t, float (&acc)[R][N]) {
#pragma unroll
        for (int part = 0; part < ELEMENTS / 8; part++) {
            const u32 g = chunk * (ELEMENTS / 4) + part * 2;
            const float4 lo = *(const float4*)(x.f + t * K + f32_group(g));
            const float4 hi = *(const float4*)(x.f + t * K + f32_group(g + 1));
#pragma unroll
            for (int r = 0; r < R; r++) {
                float w[8];
                const int n = part * 8 / GROUP;
                dequantize8(c[r].quants, part, Scale::of(c[r].scale[n]), w);
                const float group_min = HAS_MIN ? from_f16(c[r].group_min[n]) : 0.0f;
#pragma unroll
                for (int i = 0; HAS_MIN && i < 8; i++) w[i] += group_min;
                acc[r][t] = dot4(make_float4(w[0], w[1], w[2], w[3]), lo, acc[r][t]);
                acc[r][t] = dot4(make_float4(w[4], w[5], w[6], w[7]), hi, acc[r][t]);
            }
        }
    }

    // Dequantizes elements 8 * part to 8 * part + 7 of a chunk, without the min.
    DEVICE static void dequantize8(const uint4& quants, int part, float scale, float (&w)[8]) {
        const u32* words = (const u32*)&quants;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int quant;
            if (BITS == 4) {
                quant = (int)((words[part] >> (4 * i)) & 15) - ZERO;
            } else {
                quant = (int)(signed char)(words[part * 2 + i / 4] >> (8 * (i % 4)));
            }
            w[i] = __fmul_rn(scale, (float)quant);
        }
    }

    // Dequantizes eight elements of a row from element `e`, a multiple of 8, with the same roundings as the CPU.
    DEVICE void load8(u32 row, u32 e, float (&w)[8]) const {
        const size_t group = ((size_t)row * K + e) / GROUP * 2;
        const float scale = Scale::of(*(const u16*)(scales + group));
        const float group_min = HAS_MIN ? from_f16(*(const u16*)(mins + group)) : 0.0f;
        uint4 c = make_uint4(0, 0, 0, 0);
        const u8* at = quants + ((size_t)row * K + e) / 8 * BITS;
        if (BITS == 4) {
            c.x = *(const u32*)at;
        } else {
            c.x = ((const u32*)at)[0];
            c.y = ((const u32*)at)[1];
        }
        dequantize8(c, 0, scale, w);
#pragma unroll
        for (int i = 0; HAS_MIN && i < 8; i++) w[i] = __fadd_rn(w[i], group_min);
    }

    // Dequantizes one element, with the same roundings as the CPU.
    DEVICE float at(u32 row, u32 e) const {
        const size_t i = (size_t)row * K + e;
        const int quant = BITS == 4 ? (int)((quants[i / 2] >> (4 * (i & 1))) & 15) - ZERO : (int)(signed char)quants[i];
        const float w = __fmul_rn(Scale::of(*(const u16*)(scales + i / GROUP * 2)), (float)quant);
        return HAS_MIN ? __fadd_rn(w, from_f16(*(const u16*)(mins + i / GROUP * 2))) : w;
    }

    // Prefetches rows `from..to` into L2, by all threads of a block of THREADS.
    DEVICE void fetch(u32 from, u32 to) const {
        const size_t quant_row = K / 8 * BITS, scale_row = K / GROUP * 2;
        fetch_range(quants + from * quant_row, (to - from) * quant_row);
        fetch_range(scales + from * scale_row, (to - from) * scale_row);
        if (HAS_MIN) fetch_range(mins + from * scale_row, (to - from) * scale_row);
    }
    DEVICE static void fetch_range(const u8* at, size_t bytes) {
        for (size_t i = threadIdx.x * 128; i < bytes; i += THREADS * 128) fetch_line(at + i);
    }
};

// Weights stored as floats. KIND: 0 f32, 1 f16, 2 bf16.
template <int KIND> struct Floats {
    const u8* data;
    static const int SIZE = KIND == 0 ? 4 : 2;
    static const int ELEMENTS = 16 / SIZE;

    struct Chunk {
        uint4 bits;
    };

    DEVICE Chunk load(u32 row, u32 chunk) const {
        Chunk c;
        c.bits = stream16(data + (size_t)row * (K * SIZE) + chunk * 16);
        return c;
    }

    DEVICE static void convert(const uint4& b, float (&w)[8]) {
        const u32* words = (const u32*)&b;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (KIND == 0) {
                w[i] = __uint_as_float(words[i]);
                w[4 + i] = 0;
            } else if (KIND == 1) {
                w[2 * i] = low_f16(words[i]);
                w[2 * i + 1] = high_f16(words[i]);
            } else {
                w[2 * i] = __uint_as_float(words[i] << 16);
                w[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
            }
        }
    }

    // A thread's f32 activations for a chunk, in registers.
    struct Mine {
        float x[ELEMENTS];
    };
    DEVICE static Mine nothing() {
        Mine m;
#pragma unroll
        for (int i = 0; i < ELEMENTS; i++) m.x[i] = 0;
        return m;
    }
    // Loads them from element ELEMENTS * chunk of a row in global memory.
    DEVICE static Mine mine(const float* row, u32 chunk) {
        Mine m;
#pragma unroll
        for (int i = 0; i < ELEMENTS; i += 4) {
            const float4 v = *(const float4*)(row + chunk * ELEMENTS + i);
            m.x[i] = v.x, m.x[i + 1] = v.y, m.x[i + 2] = v.z, m.x[i + 3] = v.w;
        }
        return m;
    }
    // acc + the dot product of a chunk with its activations.
    DEVICE static float mac(const Chunk& c, const Mine& m, float acc) {
        float w[8];
        convert(c.bits, w);
#pragma unroll
        for (int i = 0; i < ELEMENTS; i++) acc = fmaf(w[i], m.x[i], acc);
        return acc;
    }

    template <int R, int N> DEVICE static void dot(const Chunk (&c)[R], const X& x, u32 chunk, float (&acc)[R][N]) {
        float w[R][8];
#pragma unroll
        for (int r = 0; r < R; r++) convert(c[r].bits, w[r]);
#pragma unroll
        for (int t = 0; t < N; t++) {
            const float* row = x.f + t * K;
            if (KIND == 0) {
                const float4 v = *(const float4*)(row + f32_group(chunk));
#pragma unroll
                for (int r = 0; r < R; r++) {
                    acc[r][t] = dot4(make_float4(w[r][0], w[r][1], w[r][2], w[r][3]), v, acc[r][t]);
                }
            } else {
                const float4 lo = *(const float4*)(row + f32_group(chunk * 2));
                const float4 hi = *(const float4*)(row + f32_group(chunk * 2 + 1));
#pragma unroll
                for (int r = 0; r < R; r++) {
                    acc[r][t] = dot4(make_float4(w[r][0], w[r][1], w[r][2], w[r][3]), lo, acc[r][t]);
                    acc[r][t] = dot4(make_float4(w[r][4], w[r][5], w[r][6], w[r][7]), hi, acc[r][t]);
                }
            }
        }
    }

    DEVICE void load8(u32 row, u32 e, float (&w)[8]) const {
        const u8* p = data + ((size_t)row * K + e) * SIZE;
        convert(*(const uint4*)p, w);
        if (KIND == 0) {
            const float4 hi = *(const float4*)(p + 16);
            w[4] = hi.x, w[5] = hi.y, w[6] = hi.z, w[7] = hi.w;
        }
    }

    DEVICE float at(u32 row, u32 e) const {
        const size_t i = (size_t)row * K + e;
        if (KIND == 0) return ((const float*)data)[i];
        const u16 h = ((const u16*)data)[i];
        return KIND == 1 ? from_f16(h) : from_bf16(h);
    }

    DEVICE void fetch(u32 from, u32 to) const {
        const size_t row = (size_t)K * SIZE;
        for (size_t i = from * row + threadIdx.x * 128; i < to * row; i += THREADS * 128) fetch_line(data + i);
    }
};

// Activation quantization to int8 of a block of 32 elements that four adjacent lanes hold, eight each. Each lane gets its eight
// quants in two words, the block's scale, and the sum of 16 quants: its own eight and those of the lane next to it (lane ^ 1).
DEVICE void quantize_int8(const float (&x)[8], uint2& quants, float& scale, int& sum16) {
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) most = max(most, __float_as_uint(x[i]) & 0x7fffffffu);
    most = max(most, __shfl_xor_sync(FULL, most, 1));
    most = max(most, __shfl_xor_sync(FULL, most, 2));
    const float largest = __uint_as_float(most);
    float inverse = 0;
    if (most >= 0x7f800000u) {
        scale = NOT_A_NUMBER;
    } else if (largest < 1e-30f) {
        scale = 0;
    } else {
        scale = __fdiv_rn(largest, 127.0f);
        inverse = __fdiv_rn(127.0f, largest);
    }
    const float magic = 12582912.0f;
    int q[8];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        q[i] = __float_as_int(__fadd_rn(__fmul_rn(x[i], inverse), magic)) - __float_as_int(magic);
        if (inverse == 0) q[i] = 0;
        sum += q[i];
    }
    quants.x = (q[0] & 255) | (q[1] & 255) << 8 | (q[2] & 255) << 16 | (u32)q[3] << 24;
    quants.y = (q[4] & 255) | (q[5] & 255) << 8 | (q[6] & 255) << 16 | (u32)q[7] << 24;
    sum16 = sum + __shfl_xor_sync(FULL, sum, 1);
}
