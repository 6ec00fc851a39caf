// Matmul of 9 to 64 rows whose weights are codes: a stream of weights past activations that wait in shared memory.
//
// A block has WR units of 32 rows of weights, a warp each, and WK such rows of warps side by side along the columns; the
// CLUSTER blocks of a cluster share the columns, and add up in the end. Weights go to registers, DEPTH pieces of 128 columns
// under way; a lane decodes whole blocks of 32 of a row, so with scales of its own, to 16 bits. Activations of 8 * NT tokens
// wait in shared memory, in the order of the registers that take them (`round.cu`): all at once, or in phases of PHASE
// pieces a warp, at which alone warps wait for each other. The first weights are asked for before the inputs are there.
// More than 32 tokens are more blocks. A code times its scale that is beyond f16 becomes infinite here, where other kernels
// take the largest f16.
//
// Times of gate and up of Llama-8B Q4_0 for 32 rows, 66 MB, one after the other on an H200; their bytes take 16 us.
// Before: int8 sums, each block of 32 scaled by itself, as `codes.cu` has up to 8 rows: 60 us.
// v1: 64 bytes of a row at a time through a ring with activations beside them, a barrier every 128 columns, clusters of
//     eight (of which only 15 find room): 52 us.
// v2: 128 bytes of a row at a time, the mask of codes kept from the compiler, which made it anew for every word (a sixth of
//     all instructions), sums collected four at a time: 38 us. Copies spread over the products brought nothing.
// v3: weights to registers, activations at once: 34.9 us; asking for whole lines of the second-level cache: 33.5 us. A tick of
//     32 sequences: 5.6 ms before, 3.8 ms with this and `attention/each.cu`.
// v4: activations and outputs may be pieces that their maker, or this, rounds: a dispatch less each. Not measured yet.
// What did not help: three or four pieces under way (registers spill: 37 and 45 us), four slabs a warp (37 us), one
// instruction for zero point and scale (36 us), tensor cores of four warps together (wgmma, factors in registers: without
// loading weights 27 us instead of 37, but with them 36 to 43 us, with weights through a ring in shared memory 36 us).
// What is left: 8.5 us are launch, first load and sums; products without decoding take 16 us, decoding 10 us more, for tensor
// cores and arithmetic take turns.

#define SLABS 2  // of 16 rows, of a unit
#define DEPTH 2

DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// 128 columns of a warp's rows: what its lanes hold of them, and how they meet activations.
template <class W> struct Piece;
template <int BITS, int GROUP, int ZERO, bool OFFSET, bool INT8> struct Piece<Planes<BITS, GROUP, ZERO, OFFSET, INT8>> {
    typedef Planes<BITS, GROUP, ZERO, OFFSET, INT8> W;
    static const int ROW_BYTES = K / 8 * BITS, GROUPS_ROW = K / GROUP, SCALES = 32 / GROUP;
    // Of each slab the blocks of rows lane / 4 and lane / 4 + 8.
    uint4 codes[SLABS][2][BITS / 4];
    u16 scale[SLABS][2][SCALES], offset[SLABS][2][SCALES];

    // Of rows row0[m] .. of weights of n[m] rows.
    DEVICE void load(const W (&w)[SLABS], const u32 (&row0)[SLABS], const u32 (&n)[SLABS], u32 piece) {
        // Beyond the last column activations are zero.
        const u32 e = piece * 128 + lane_index() % 4 * 32, block = K % 128 == 0 || e < K ? e / 32 : 0;
#pragma unroll
        for (int m = 0; m < SLABS; m++) {
            const u8* from = w[m].codes + block * (4 * BITS);
            const u8* scales = w[m].scales + block * (2 * SCALES);
            const u8* offsets = w[m].offsets + block * (2 * SCALES);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const size_t row = min(row0[m] + h * 8 + lane_index() / 4, n[m] - 1);
#pragma unroll
                for (int i = 0; i < BITS / 4; i++) codes[m][h][i] = stream16_line(from + row * ROW_BYTES + i * 16);
#pragma unroll
                for (int i = 0; i < SCALES; i++) {
                    scale[m][h][i] = stream2(scales + (row * GROUPS_ROW + i) * 2);
                    if (OFFSET) offset[m][h][i] = stream2(offsets + (row * GROUPS_ROW + i) * 2);
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

    // acc += this times the tokens of NT tiles of eight.
    template <int NT> DEVICE void meet(const u8* x, u32 mask, float (&acc)[SLABS][NT][4]) const {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 y[NT];
#pragma unroll
            for (int n = 0; n < NT; n++) y[n] = *(const uint4*)(x + n * 2048 + j * 512 + lane_index() * 16);
#pragma unroll
            for (int m = 0; m < SLABS; m++) {
                u32 a[2][4];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int s = SCALES == 1 ? 0 : j / 2;
                    u32 p[4];
                    widen(codes[m][h], j, scale[m][h][s] * 0x10001u, OFFSET ? offset[m][h][s] * 0x10001u : 0, mask, p);
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

// A block's sums: [WK][tokens][PART_ROW], rows of units side by side.
#define UNIT (SLABS * 16)
#define PART_ROW (WR * UNIT + 4)

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

// One tile of outputs whose products have one form, for tokens from t0. `find(unit, slab, row0, n)` gives the weight of a
// slab of a unit, its first row and the weight's rows; `finish(unit, r, t, sums)` makes outputs r .. r + 7 of a unit's OUTS for
// a token.
template <class W, int NT, int PHASE, int OUTS, class Find, class Finish>
DEVICE void run(const Args& A, const Find& find, const Finish& finish, u32 tile, u32 units, u32 t0, u32 rows, u8* shared) {
    typedef Piece<W> P;
    const u32 warp = warp_index(), rank = CLUSTER == 1 ? 0 : group_index() % CLUSTER;
    const u32 unit = tile * WR + warp % WR, wk = warp / WR;
    const u32 pieces = (K + 127) / 128, first = pieces * rank / CLUSTER, end = pieces * (rank + 1) / CLUSTER;
    const u32 phases = (end - first + WK * PHASE - 1) / (WK * PHASE), tiles = (rows + 7) / 8;
    const u32 mask = 0x000f000f | BATCH[2] >> 31 << 4;
    W weights[SLABS];
    u32 row0[SLABS], n[SLABS];
#pragma unroll
    for (int m = 0; m < SLABS; m++) weights[m] = find(min(unit, units - 1), m, row0[m], n[m]);
    // The warp's piece i.
    auto piece_of = [&](u32 i) { return first + (i / PHASE * WK + wk) * PHASE + i % PHASE; };
    auto ask = [&](u32 phase) {
        u8* to = shared + phase % 2 * (WK * PHASE * NT * 2048);
        for (u32 u = threadIdx.x; u < WK * PHASE * NT * 128; u += THREADS) {
            const u32 piece = first + phase * WK * PHASE + u / (NT * 128);
            // Tiles beyond the last are made as well, of the last one's numbers: nobody stores them.
            const u32 eight = min(t0 / 8 + u / 128 % NT, tiles - 1);
            if (piece < end) cp_async16(to + u * 16, (const u8*)ROUNDED + ((size_t)(eight * pieces + piece) * 128 + u % 128) * 16);
        }
    };
    float acc[SLABS][NT][4];
#pragma unroll
    for (int m = 0; m < SLABS; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
    P held[DEPTH];
#pragma unroll
    for (u32 d = 0; d < DEPTH; d++) held[d].load(weights, row0, n, min(piece_of(d), end - 1));
    wait_for_inputs();
    ask(0);
    cp_async_commit();
    if (phases > 1) ask(1);
    cp_async_commit();
    for (u32 i0 = 0; i0 < phases * PHASE; i0 += DEPTH) {
#pragma unroll
        for (u32 d = 0; d < DEPTH; d++) {
            const u32 i = i0 + d, phase = i / PHASE;
            if (i >= phases * PHASE) break;
            if (i % PHASE == 0) {
                // Everyone's part of this phase is there, and nobody reads the one before it any more.
                if (phase == 0) {
                    cp_async_wait<1>();
                } else {
                    cp_async_wait<0>();
                }
                __syncthreads();
                if (phase > 0 && phase + 1 < phases) ask(phase + 1);
                cp_async_commit();
            }
            if (piece_of(i) < end) {
                held[d].template meet<NT>(shared + ((phase % 2 * WK + wk) * PHASE + i % PHASE) * (NT * 2048), mask, acc);
            }
            // The last are asked for again, to no purpose, rather than with a branch.
            held[d].load(weights, row0, n, min(piece_of(i + DEPTH), end - 1));
        }
    }
    cp_async_wait<0>();
    __syncthreads();
    float* part = (float*)shared;
    const u32 lane = lane_index();
#pragma unroll
    for (int m = 0; m < SLABS; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 t = n * 8 + lane % 4 * 2 + i % 2, row = warp % WR * UNIT + m * 16 + lane / 4 + i / 2 * 8;
                part[(wk * NT * 8 + t) * PART_ROW + row] = acc[m][n][i];
            }
        }
    }
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    const u32 eights = WR * OUTS / 8, all = min(rows - t0, (u32)NT * 8) * eights;
    for (u32 e = all * rank / CLUSTER + threadIdx.x; e < all * (rank + 1) / CLUSTER; e += THREADS) {
        const u32 t = e / eights, r = e % eights * 8, u = r / OUTS;
        if (tile * WR + u < units) finish(tile * WR + u, r % OUTS, t0 + t, part + t * PART_ROW + u * UNIT + r % OUTS);
    }
    if (CLUSTER > 1) cluster_leave();
}

template <int NT, int PHASE> DEVICE void outputs(const Args& A, u32 tile, u32 t0, u32 rows, u8* shared) {
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
    if (rows <= 16) {
        outputs<2, PHASE_2>(A, tile, t0, rows, (u8*)dynamic);
    } else {
        outputs<4, PHASE_4>(A, tile, t0, rows, (u8*)dynamic);
    }
}
