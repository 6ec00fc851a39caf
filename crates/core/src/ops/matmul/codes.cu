// Matmul of 2 to 8 rows whose weights are codes: int8 on tensor cores, 16 rows of a weight times eight tokens at a time.
//
// A block makes tiles of 16 rows, its KW warps side by side along them. Each warp copies its pieces (16 rows of 128 bytes
// of codes, with their scales) to shared memory, RING of them under way, for which nobody waits but the warp itself; the
// first before the inputs are there. The sums of a block of 32 elements are whole numbers, scaled one by one; activations
// lie in memory in the order of the registers that take them (`quantize.cu`) and come through the first-level cache.
//
// Before: 8 rows as one row's kernel, int8 dot products (Llama-8B Q4_0, 8 sequences: 6.1 ms a tick on an H200).
// v1: one slab of 16 rows at a time, 8 warps, one block a multiprocessor: 4.2 ms.
// v2: two blocks a multiprocessor (2.9 ms; three blocks 3.4, 16 warps 3.2, four pieces under way 3.0).
// v3: sums pass through a tenth of the shared memory: no change by itself. With the attention of that day 2.6 ms.
// More rows have `stream.cu`: here a second slab at once, which reads each activation half as often, and up to 64 tokens made
// 32 sequences 5.6 ms, for each block of 32 has its sums scaled for every token.

#define MAGIC 0x4b400000  // the number below, whose last bits count

// A piece of a tile, as a warp keeps it.
#define PIECE_ROW 144  // 128 and what keeps rows apart in their banks
template <class W> struct Pieces;
template <int BITS, int GROUP, int ZERO, bool OFFSET, bool INT8> struct Pieces<Planes<BITS, GROUP, ZERO, OFFSET, INT8>> {
    typedef Planes<BITS, GROUP, ZERO, OFFSET, INT8> W;
    static const int BLOCKS = 32 / BITS;  // of 32 elements in a piece
    static const int ROW_BYTES = K / 8 * BITS, COUNT = (ROW_BYTES + 127) / 128;
    static const int SCALES = BLOCKS * 32 / GROUP;  // of a row of a piece
    static const int BYTES = 16 * PIECE_ROW + 16 * SCALES * 2 * (OFFSET ? 2 : 1);

    // Asks for piece `piece` of the rows from row0 of a weight of n rows.
    DEVICE static void ask(const W& w, u32 row0, u32 n, u32 piece, u8* to) {
        const u32 lane = lane_index(), c = lane % 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 r = i * 4 + lane / 8;
            const size_t row = min(row0 + r, n - 1);
            const u32 at = piece * 128 + c * 16;
            if (at < ROW_BYTES) cp_async16(to + r * PIECE_ROW + c * 16, w.codes + row * ROW_BYTES + at);
        }
        for (u32 i = lane; i < 16 * SCALES / 2; i += 32) {
            const u32 r = i / (SCALES / 2), s = i % (SCALES / 2) * 2;
            const size_t row = min(row0 + r, n - 1), at = row * (K / GROUP) + piece * SCALES + s;
            if (piece * SCALES + s < K / GROUP) {
                cp_async4(to + 16 * PIECE_ROW + i * 4, w.scales + at * 2);
                if (OFFSET) cp_async4(to + 16 * PIECE_ROW + 16 * SCALES * 2 + i * 4, w.offsets + at * 2);
            }
        }
    }

    // acc += a piece times eight tokens.
    DEVICE static void meet(const u8* at, const u32* x, const float* meta, u32 piece, float (&acc)[4]) {
        const u32 lane = lane_index(), g = lane / 4, t = lane % 4;
        const int each = 32 / GROUP;  // scales of a block
        const u32* low = (const u32*)(at + g * PIECE_ROW) + t;
        const u32* high = low + 8 * PIECE_ROW / 4;
        const u16* scales = (const u16*)(at + 16 * PIECE_ROW);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const u32 block = piece * BLOCKS + b;
            if (K % (BLOCKS * 32) != 0 && block >= K / 32) break;
            u32 a[4];
            float scale[2][each], offset[2][each];
            if (BITS == 4) {
                const u32 p = low[b * 4], q = high[b * 4];
                a[0] = p & 0x0f0f0f0f, a[1] = q & 0x0f0f0f0f, a[2] = p >> 4 & 0x0f0f0f0f, a[3] = q >> 4 & 0x0f0f0f0f;
            } else {
                a[0] = low[b * 8], a[1] = high[b * 8], a[2] = low[b * 8 + 4], a[3] = high[b * 8 + 4];
            }
#pragma unroll
            for (int h = 0; h < 2 * each; h++) {
                const u32 s = (g + h / each * 8) * SCALES + b * each + h % each;
                scale[h / each][h % each] = from_f16(scales[s]);
                offset[h / each][h % each] = OFFSET ? from_f16(scales[16 * SCALES + s]) : 0.0f;
            }
            const uint2 codes = *(const uint2*)(x + ((size_t)block * 32 + lane) * 2);
            const float* m0 = meta + (size_t)(block * 8 + t * 2) * META_WORDS;
            float d[2], z[2][2];
            if (META_WORDS == 2) {
                const float4 both = *(const float4*)m0;
                d[0] = both.x, z[0][0] = both.y, d[1] = both.z, z[1][0] = both.w;
            } else {
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const float4 one = *(const float4*)(m0 + c * 4);
                    d[c] = one.x, z[c][0] = each == 1 ? one.y : one.z, z[c][1] = one.w;
                }
            }
#pragma unroll
            for (int s = 0; s < each; s++) {
                u32 y[2] = {codes.x, codes.y};
                if (GROUP == 16 && BITS == 4) y[0] = t / 2 == s ? y[0] : 0, y[1] = t / 2 == s ? y[1] : 0;
                if (GROUP == 16 && BITS == 8) y[1 - s] = 0;
                int sum[4] = {MAGIC, MAGIC, MAGIC, MAGIC};
                mma_s8(sum, a, y);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float whole = __int_as_float(sum[i]) - 12582912.0f, zero = z[i % 2][s];
                    const float v = ZERO != 0 ? d[i % 2] * whole - (float)ZERO * zero : d[i % 2] * whole;
                    acc[i] = fmaf(scale[i / 2][s], v, acc[i]);
                    if (OFFSET) acc[i] = fmaf(offset[i / 2][s], zero, acc[i]);
                }
            }
        }
    }
};

// The tiles of outputs whose products have one form, flattened, each of 16 rows of SLABS weights: `find(i, s, row0, n)` gives
// the weight of slab s of tile i, its first row and the weight's rows; `finish(i)` makes the outputs whose sums lie in
// `part`.
#define PART_ROW 20  // rows of a slab, and what keeps tokens apart in their banks
template <class W, int SLABS> struct Belt {
    typedef Pieces<W> P;
    static const int EACH = (P::COUNT + KW - 1) / KW;  // pieces of a row that a warp has
    u32 first, count, warp;
    u8* ring;

    template <class Find> DEVICE void ask(const Find& find, u32 j) {
        const u32 piece = j % EACH * KW + warp;
        if (j < count * SLABS * EACH && piece < P::COUNT) {
            u32 row0, n;
            const W w = find(first + j / (SLABS * EACH), j / EACH % SLABS, row0, n);
            P::ask(w, row0, n, piece, ring + j % RING * P::BYTES);
        }
        cp_async_commit();
    }
    template <class Find> DEVICE void begin(const Find& find) {
#pragma unroll
        for (u32 j = 0; j + 1 < RING; j++) ask(find, j);
    }
    template <class Find, class Finish>
    DEVICE void run(const Find& find, const Finish& finish, const u32* x, const float* meta, float* part) {
        const u32 lane = lane_index();
        u32 j = 0;
        for (u32 i = 0; i < count; i++) {
            for (int s = 0; s < SLABS; s++) {
                float acc[4] = {0, 0, 0, 0};
                for (int e = 0; e < EACH; e++, j++) {
                    cp_async_wait<RING - 2>();
                    __syncwarp();
                    ask(find, j + RING - 1);
                    const u32 piece = e * KW + warp;
                    if (piece < P::COUNT) P::meet(ring + j % RING * P::BYTES, x, meta, piece, acc);
                }
                float* to = part + (s * KW + warp) * (8 * PART_ROW);
#pragma unroll
                for (int c = 0; c < 4; c++) to[(lane % 4 * 2 + c % 2) * PART_ROW + lane / 4 + c / 2 * 8] = acc[c];
            }
            __syncthreads();
            finish(first + i);
            __syncthreads();
        }
        cp_async_wait<0>();
    }
};

// The sum over a block's warps of a row of a slab.
DEVICE float whole_sum(const float* part, u32 slab, u32 token, u32 row) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < KW; w++) sum += part[((slab * KW + w) * 8 + token) * PART_ROW + row];
    return sum;
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    const u32 group = group_index();
    if (group >= GROUPS) {
        wait_for_inputs();
        return;
    }
    const u32 rows = ROWS;
    float* part = (float*)dynamic;
    u8* ring = (u8*)dynamic + PART_BYTES + warp_index() * RING_BYTES;
    CODES_RUN
}
