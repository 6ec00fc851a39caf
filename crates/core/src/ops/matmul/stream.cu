// Matmul of 9 to 64 rows whose weights are codes: a stream of weights past activations that wait in shared memory.
//
// A slab is 16 rows of a weight, and a unit of outputs has one of each of its products. A block has SLABS slabs, shared out
// over warps side by side, as many to each scheduler of a multiprocessor as may be; WK such sides of warps take turns with the
// lines of the columns, and the CLUSTER blocks of a cluster share them; all add up in the end. Of a line, 128 bytes of codes a
// row, one is under way to the warp's room in shared memory while the one before is in registers; a lane decodes whole blocks
// of 32 of a row, so with scales of its own, to 16 bits. Activations of 8 * NT tokens wait in shared memory as pieces
// (`half.cuh`), which their maker or `round.cu` wrote: all at once, or in phases of PHASE lines a warp, at which alone warps
// wait for each other. The first weights are asked for before the inputs are there. More than 32 tokens are more blocks. A
// code times its scale that is beyond f16 becomes infinite here, where other kernels take the largest f16.
//
// Times of gate and up of Llama-8B Q4_0 for 32 rows, 66 MB, one after the other on an H200; their bytes take 16 us. Ticks are
// of 32 sequences at 300 positions.
// Before: int8 sums, each block of 32 scaled by itself, as `codes.cu` has up to 8 rows: 60 us.
// v1: 64 bytes of a row at a time through a ring with activations beside them, a barrier every 128 columns, clusters of
//     eight (of which only 15 find room): 52 us.
// v2: 128 bytes of a row at a time, the mask of codes kept from the compiler, which made it anew for every word (a sixth of
//     all instructions), sums collected four at a time: 38 us. Copies spread over the products brought nothing.
// v3: weights to registers, activations at once: 34.9 us; asking for whole lines of the second-level cache: 33.5 us. A tick:
//     5.6 ms before, 3.81 ms with this and `attention/each.cu`.
// v4: lines to rooms in shared memory: a load to registers touches a line of the first-level cache for each of its eight
//     rows, codes and scales alike, and without the scales' loads alone the kernel took 3 us less. Sixteen warps with two
//     slabs or one, seven a scheduler, instead of fourteen with two, of which two schedulers had four: together 30.5 us, down
//     24.7 -> 21.7 us, head 140 -> 133 us; a tick 3.50 ms.
// v5: copies of activations at fixed distances, operands asked for before the sums of other blocks: a tick 45 us less.
//     Activations and outputs as pieces: two dispatches a layer and 176 us less (`round.cu` got its norm's weight before its
//     inputs then: 82 us). The code for more than 16 rows in front of that for fewer: 55 us less, though kernels one after the
//     other take as long as before: a tick reads instructions from memory, for its weights push them out of the caches.
// What did not help: three or four pieces under way in registers (37 and 45 us), three slabs a warp of twelve (31.7 us), four
// (37 us), one instruction for zero point and scale (36 us), tensor cores of four warps together (wgmma, factors in
// registers: without loading weights 27 us instead of 37, but with them 36 to 43 us, with weights through a ring in shared
// memory 36 us); a barrier for each quarter of the activations, so that work begins earlier (1.7 us more); weights
// asked for in bulk for the second-level cache (all: 38 us, half: 35 us) or two lines ahead (31.1 us); decoding ahead of
// products, in the order of the text or of all slabs at once; a block's own sums past the cluster's network.
// What is left: 9.0 of the 30.5 us are there without weights and products: launch 1.4, sums and outputs 4.5 (1.4 of them for
// those of the other block), activations 1.7, the first line 1.3. The rest is products, one of 16 x 8 x 16 in ten cycles of a
// scheduler, with decoding in between; without decoding the whole takes 29.8 us, without loads 28.7, without both 24.7.

// Outputs of a unit, which has a slab of 16 rows of each of its products.
#define UNIT 16
// A block's sums: [WK][tokens][PART_ROW], slabs side by side.
#define PART_ROW (SLABS * 16 + 4)

DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// M slabs of a warp, one or two, of which 128 bytes of codes a row, a line, are under way to a room in shared memory, and the line
// before is in registers.
template <class W, int M> struct Slabs;
template <int BITS, int GROUP, int ZERO, bool OFFSET, bool INT8, int M> struct Slabs<Planes<BITS, GROUP, ZERO, OFFSET, INT8>, M> {
    // Pieces of 128 columns in a line.
    static const int PIECES = 8 / BITS;
    static const u32 ROW_BYTES = K / 8 * BITS, SCALE_BYTES = K / GROUP * 2, LINE_SCALES = 1024 / BITS / GROUP * 2;
    static const int SCALES = 32 / GROUP;
    // Bytes of scales that are copied at once.
    static const u32 COPY = SCALE_BYTES % 16 == 0 && LINE_SCALES % 16 == 0 ? 16 : SCALE_BYTES % 8 == 0 ? 8 : SCALE_BYTES % 4 == 0 ? 4 : 2;
    // A slab's room: [row][128], even and odd rows' codes in different order, so that they lie in different banks; then the
    // scales, and the offsets, [row][LINE_SCALES].
    static const u32 ROOM = 16 * (128 + LINE_SCALES * (OFFSET ? 2 : 1)), TURN = BITS == 4 ? 4 : 1;
    const u8 *codes[M], *scales[M], *offsets[M];
    u32 row0[M], n[M];
    u8* room;

    // Slab m has rows r .. of a weight of `rows` rows.
    DEVICE void set(int m, const Planes<BITS, GROUP, ZERO, OFFSET, INT8>& w, u32 r, u32 rows) {
        codes[m] = w.codes, scales[m] = w.scales, offsets[m] = w.offsets, row0[m] = r, n[m] = rows;
    }
    DEVICE static void copy_scales(u8* to, const u8* from) {
        if (COPY == 16) cp_async16(to, from);
        if (COPY == 8) cp_async8(to, from);
        if (COPY == 4) cp_async4(to, from);
        if (COPY == 2) *(u16*)to = stream2(from);
    }
    // What lies beyond a row's end is the beginning of it: activations are zero there.
    DEVICE void ask(u32 line) const {
        const u32 lane = lane_index();
#pragma unroll
        for (int m = 0; m < M; m++) {
            const u32 chunk = lane % 8, at = line * 128 + chunk * 16;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 r = i * 4 + lane / 8, row = min(row0[m] + r, n[m] - 1);
                const u8* from = codes[m] + (row * ROW_BYTES + (ROW_BYTES % 128 == 0 || at < ROW_BYTES ? at : 0));
                cp_async16(room + m * ROOM + r * 128 + (chunk ^ r % 2 * TURN) * 16, from);
            }
        }
        const u32 each = LINE_SCALES / COPY;
#pragma unroll
        for (u32 i = 0; i < (M * 16 * each + 31) / 32; i++) {
            const u32 u = i * 32 + lane, m = u / (16 * each), r = u / each % 16, at = line * LINE_SCALES + u % each * COPY;
            if (m >= M) continue;
            const u32 row = min((m == 0 ? row0[0] : row0[M - 1]) + r, (m == 0 ? n[0] : n[M - 1]) - 1);
            const u32 from = row * SCALE_BYTES + (SCALE_BYTES % LINE_SCALES == 0 || at < SCALE_BYTES ? at : 0);
            u8* to = room + m * ROOM + 16 * 128 + r * LINE_SCALES + u % each * COPY;
            copy_scales(to, (m == 0 ? scales[0] : scales[M - 1]) + from);
            if (OFFSET) copy_scales(to + 16 * LINE_SCALES, (m == 0 ? offsets[0] : offsets[M - 1]) + from);
        }
    }

    // 128 columns of the slabs: what a lane holds of them, of rows lane / 4 and lane / 4 + 8 of each.
    struct Piece {
        uint4 codes[M][2][BITS / 4];
        u16 scale[M][2][SCALES], offset[M][2][SCALES];
    };
    DEVICE void take(Piece (&to)[PIECES]) const {
        const u32 g = lane_index() / 4, p = lane_index() % 4;
#pragma unroll
        for (int q = 0; q < PIECES; q++) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    const u32 row = h * 8 + g;
                    const u8* from = room + m * ROOM;
#pragma unroll
                    for (u32 i = 0; i < BITS / 4; i++) {
                        to[q].codes[m][h][i] = *(const uint4*)(from + row * 128 + (((q * 4 + p) * (BITS / 4) + i) ^ g % 2 * TURN) * 16);
                    }
#pragma unroll
                    for (u32 i = 0; i < SCALES; i++) {
                        const u8* scale = from + 16 * 128 + row * LINE_SCALES + ((q * 4 + p) * SCALES + i) * 2;
                        to[q].scale[m][h][i] = *(const u16*)scale;
                        if (OFFSET) to[q].offset[m][h][i] = *(const u16*)(scale + 16 * LINE_SCALES);
                    }
                }
            }
        }
    }

    // Weights j * 8 .. of a lane's block as the pairs (0, 4), (1, 5), (2, 6), (3, 7). `mask` is 0x000f000f, got in a
    // way that the compiler does not see through: it would make the number anew each time.
    DEVICE static void widen(const uint4 (&codes)[BITS / 4], int j, u32 scale, u32 offset, u32 mask, u32 (&p)[4]) {
        const u32 a = word_of(codes[BITS == 4 ? 0 : j / 2], BITS == 4 ? j : j % 2 * 2);
        const u32 b = word_of(codes[BITS == 4 ? 0 : j / 2], BITS == 4 ? j : j % 2 * 2 + 1);
        if (HALF_BF16) {
            const float s = from_f16((u16)scale), o = OFFSET ? from_f16((u16)offset) : 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float x = BITS == 4 ? (float)((int)(a >> (4 * i) & 15) - ZERO) : (float)(signed char)(a >> (8 * i));
                const float y = BITS == 4 ? (float)((int)(a >> (4 * i + 16) & 15) - ZERO) : (float)(signed char)(b >> (8 * i));
                p[i] = OFFSET ? to_half2(fmaf(x, s, o), fmaf(y, s, o)) : to_half2(x * s, y * s);
            }
            return;
        }
        if (BITS == 4) {
            // As the last bits of 1024, and of 1024 sixteen times as large.
            const u32 low = 0x64006400 + ZERO * 0x10001, high = 0xd400d400 + ZERO * 0x100010;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 v = a >> (8 * i);
                p[i * 2] = sub_pairs((v & mask) | 0x64006400, low);
                p[i * 2 + 1] = fma_pairs((v & mask << 4) | 0x64006400, 0x2c002c00, high);
            }
        } else {
            // As the last bits of 1024 + 128.
            const u32 u = a ^ 0x80808080, v = b ^ 0x80808080;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const u32 both = __byte_perm(u, v, i == 0 ? 0x5140 : 0x7362);
                p[i * 2] = sub_pairs(__byte_perm(both, 0x64646464, 0x4140), 0x64806480);
                p[i * 2 + 1] = sub_pairs(__byte_perm(both, 0x64646464, 0x4342), 0x64806480);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = OFFSET ? fma_pairs(p[i], scale, offset) : mul_pairs(p[i], scale);
    }

    // acc += a piece times the tokens of NT tiles of eight.
    template <int NT> DEVICE static void meet(const Piece& w, const u8* x, u32 mask, float (&acc)[M][NT][4]) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 y[NT];
#pragma unroll
            for (int n = 0; n < NT; n++) y[n] = *(const uint4*)(x + n * 2048 + j * 512 + lane_index() * 16);
#pragma unroll
            for (int m = 0; m < M; m++) {
                u32 a[2][4];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int s = SCALES == 1 ? 0 : j / 2;
                    u32 p[4];
                    widen(w.codes[m][h], j, w.scale[m][h][s] * 0x10001u, OFFSET ? w.offset[m][h][s] * 0x10001u : 0, mask, p);
                    a[0][h] = p[0], a[0][2 + h] = p[1], a[1][h] = p[2], a[1][2 + h] = p[3];
                }
#pragma unroll
                for (int q = 0; q < 2; q++) {
#pragma unroll
                    for (int n = 0; n < NT; n++) {
                        const u32 b[2] = {q ? y[n].z : y[n].x, q ? y[n].w : y[n].y};
                        if (HALF_BF16) {
                            mma_bf16(acc[m][n], a[q], b);
                        } else {
                            mma_f16(acc[m][n], a[q], b);
                        }
                    }
                }
            }
        }
    }
};

// A block's share of the columns, lines first .. end of LP pieces, and the activations of them: tokens from t0, in phases of
// PHASE lines a warp, of which BUFFERS are in shared memory.
template <int NT, int PHASE, int BUFFERS, int LP> struct Share {
    u32 first, end, t0, tiles;
    u8* shared;
    static const u32 PIECES = (K + 127) / 128, LINES = (PIECES + LP - 1) / LP, BYTES = WK * PHASE * LP * NT * 2048;

    DEVICE u32 rounds() const { return (end - first + WK - 1) / WK; }
    DEVICE u32 phases() const { return (rounds() + PHASE - 1) / PHASE; }
    // A warp asks for a quarter of a tile of many pieces, 512 bytes at a time; clusters begin at different places.
    DEVICE void ask(const Args& A, u32 phase) const {
        const u32 all = WK * PHASE * LP, each = (all + 3) / 4, lane = lane_index();
        const u32 begin = (first + phase * (WK * PHASE)) * LP, there = min(min(end * LP, PIECES) - begin, all);
        u8* to = shared + phase % BUFFERS * BYTES + lane * 16;
        for (u32 u = warp_index(); u < NT * 16; u += WARPS) {
            const u32 n = u / 4 % NT, quarter = u % 4, of = (u / (NT * 4) + group_index() / CLUSTER) % 4 * each;
            // Tiles beyond the last are made as well, of the last one's numbers: nobody stores them.
            const u32 eight = min(t0 / 8 + n, tiles - 1);
            const u8* from = (const u8*)ROUNDED + (size_t)(eight * PIECES + begin) * 2048 + quarter * 512 + lane * 16;
            u8* there_to = to + n * 2048 + quarter * 512;
#pragma unroll 4
            for (u32 piece = of; piece < min(of + each, there); piece++) cp_async16(there_to + piece * (NT * 2048), from + piece * 2048);
        }
    }
};

// The products of a warp with M slabs, left in shared memory. `find(unit, product, row0, n)` gives the weight, its first row
// and the weight's rows.
template <class W, int PRODUCTS, int M, int NT, int PHASE, int BUFFERS, int LP, class Find>
DEVICE void products(const Args& A, const Find& find, const Share<NT, PHASE, BUFFERS, LP>& share, u32 tile, u32 units, u32 slab0) {
    typedef Slabs<W, M> Mine;
    const u32 wk = warp_index() % WK, rounds = share.rounds(), first = share.first + wk, last = share.end - 1;
    const u32 mask = 0x000f000f | BATCH[2] >> 31 << 4;
    Mine mine;
    mine.room = share.shared + ROOMS + warp_index() * (MOST * Mine::ROOM);
#pragma unroll
    for (int m = 0; m < M; m++) {
        u32 row0, n;
        const u32 unit = min(tile * (SLABS / PRODUCTS) + (slab0 + m) / PRODUCTS, units - 1);
        const W w = find(unit, (slab0 + m) % PRODUCTS, row0, n);
        mine.set(m, w, row0, n);
    }
    mine.ask(min(first, last));
    cp_async_commit();
    wait_for_inputs();
#pragma unroll
    for (u32 b = 0; b < BUFFERS; b++) {
        if (b < share.phases()) share.ask(A, b);
        cp_async_commit();
    }
    float acc[M][NT][4];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
    typename Mine::Piece held[LP];
    cp_async_wait<BUFFERS>();
    __syncwarp();
    mine.take(held);
    __syncwarp();
    mine.ask(min(first + WK, last));
    cp_async_commit();
#pragma unroll 1
    for (u32 i = 0; i < rounds; i++) {
        const u32 phase = i / PHASE;
        if (i % PHASE == 0) {
            // Everyone's part of this phase is there, and nobody reads the one before it any more.
            if (phase == 0) {
                cp_async_wait<BUFFERS>();
            } else {
                cp_async_wait<0>();
            }
            __syncthreads();
            if (phase > 0 && phase + BUFFERS - 1 < share.phases()) share.ask(A, phase + BUFFERS - 1);
            cp_async_commit();
        }
        const u32 line = first + i * WK;
        const u8* x = share.shared + phase % BUFFERS * share.BYTES + (i % PHASE * WK + wk) * (LP * NT * 2048);
#pragma unroll
        for (u32 q = 0; q < LP; q++) {
            if (line <= last && (share.PIECES % LP == 0 || line * LP + q < share.PIECES)) {
                Mine::template meet<NT>(held[q], x + q * (NT * 2048), mask, acc);
            }
        }
        // The last are asked for again, to no purpose, rather than with a branch.
        cp_async_wait<0>();
        __syncwarp();
        mine.take(held);
        __syncwarp();
        mine.ask(min(line + 2 * WK, last));
        cp_async_commit();
    }
    cp_async_wait<0>();
    __syncthreads();
    const u32 lane = lane_index();
    float* part = (float*)share.shared + (wk * NT * 8 + lane % 4 * 2) * PART_ROW + slab0 * 16 + lane / 4;
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) part[(n * 8 + i % 2) * PART_ROW + m * 16 + i / 2 * 8] = acc[m][n][i];
        }
    }
}

// Eight numbers of an operand from column `row` of n.
template <bool WHOLE> DEVICE void eight(const float* p, u32 row, u32 n, float (&v)[8]) {
#pragma unroll
    for (u32 i = 0; i < 8; i += WHOLE ? 4 : 1) {
        if (WHOLE) {
            const float4 x = row < n ? *(const float4*)(p + i) : make_float4(0, 0, 0, 0);
            v[i] = x.x, v[i + 1] = x.y, v[i + 2] = x.z, v[i + 3] = x.w;
        } else {
            v[i] = row + i < n ? p[i] : 0;
        }
    }
}

// The sums of eight numbers over a block's warps and a cluster's blocks.
template <int NT> DEVICE void whole(const float* part, float (&sums)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) sums[i] = 0;
#pragma unroll
    for (int rank = 0; rank < CLUSTER; rank++) {
#pragma unroll
        for (int k = 0; k < WK; k++) {
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const float* p = part + k * (NT * 8 * PART_ROW) + i;
                const float4 v = CLUSTER == 1 ? *(const float4*)p : four_of_block(p, rank);
                sums[i] += v.x, sums[i + 1] += v.y, sums[i + 2] += v.z, sums[i + 3] += v.w;
            }
        }
    }
}

// One tile of outputs whose products have one form, for tokens from t0. `finish(unit, r, t, sums)` makes outputs r .. r + 7
// of a unit for a token.
template <class W, int PRODUCTS, int NT, int PHASE, int BUFFERS, class Find, class Finish>
DEVICE void run(const Args& A, const Find& find, const Finish& finish, u32 tile, u32 units, u32 t0, u32 rows, u8* shared) {
    const u32 side = warp_index() / WK, rank = CLUSTER == 1 ? 0 : group_index() % CLUSTER;
    constexpr int LP = Slabs<W, 1>::PIECES;
    Share<NT, PHASE * LINE / LP, BUFFERS, LP> share;
    share.first = share.LINES * rank / CLUSTER, share.end = share.LINES * (rank + 1) / CLUSTER;
    share.t0 = t0, share.tiles = (rows + 7) / 8, share.shared = shared;
    // FULL warps have MOST slabs, the others one less.
    if (FULL == WARPS / WK || side < FULL) {
        products<W, PRODUCTS, MOST>(A, find, share, tile, units, side * MOST);
    } else {
        products<W, PRODUCTS, MOST == 1 ? 1 : MOST - 1>(A, find, share, tile, units, side * (MOST - 1) + FULL);
    }
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    const u32 row = SLABS / PRODUCTS * (UNIT / 8), all = min(rows - t0, (u32)NT * 8) * row;
    for (u32 e = all * rank / CLUSTER + threadIdx.x; e < all * (rank + 1) / CLUSTER; e += THREADS) {
        const u32 t = e / row, u = e % row / 2, r = e % 2 * 8, unit = tile * (SLABS / PRODUCTS) + u;
        if (unit < units) finish(unit, r, t0 + t, (const float*)shared + t * PART_ROW + u * (PRODUCTS * UNIT) + r);
    }
    if (CLUSTER > 1) cluster_leave();
}

template <int NT, int PHASE, int BUFFERS> DEVICE void outputs(const Args& A, u32 tile, u32 t0, u32 rows, u8* shared) {
    STREAM_RUN
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    // Neighbours share a tile of weights.
    const u32 rows = ROWS, along = (rows + 31) / 32, tile = group_index() / CLUSTER / along;
    if (tile >= TILES) {
        wait_for_inputs();
        return;
    }
    const u32 t0 = group_index() / CLUSTER % along * 32;
    if (rows > 16) {
        outputs<4, PHASE_4, BUFFERS_4>(A, tile, t0, rows, (u8*)dynamic);
    } else {
        outputs<2, PHASE_2, BUFFERS_2>(A, tile, t0, rows, (u8*)dynamic);
    }
}
