// Matmul of many rows on tensor cores: a block makes TILE_N rows of one output for TILE_T tokens, all products of its
// tree, from 16-bit numbers with sums in f32.
//
// v1: STAGES tiles of 32 columns on their way to shared memory (16-bit weights and activations without passing
//     registers; other weights decoded on the way), eight warps of m16n8k16.

// Warps along the tokens and along the rows; what a warp makes, in squares of 16 tokens and 8 rows.
#define WARPS_T 2
#define WARPS_N 4
#define SQUARES_T (TILE_T / WARPS_T / 16)
#define SQUARES_N (TILE_N / WARPS_N / 8)

// Rows of a tile lie ROW numbers apart, so that the 32 loads of a warp meet 32 banks.
#define X_WORDS (TILE_T * ROW / 2)
#define STAGE_WORDS ((TILE_T + TILE_N) * ROW / 2)

// What a thread has of a tile of sums.
struct Sums {
    float at[SQUARES_T][SQUARES_N][4];
};
DEVICE u32 number_t(int a, int i) {
    return warp_index() / WARPS_N * (TILE_T / WARPS_T) + a * 16 + lane_index() / 4 + i / 2 * 8;
}
DEVICE u32 number_n(int b, int i) {
    return warp_index() % WARPS_N * (TILE_N / WARPS_N) + b * 8 + lane_index() % 4 * 2 + i % 2;
}
#define EACH_NUMBER \
    _Pragma("unroll") for (int a = 0; a < SQUARES_T; a++) _Pragma("unroll") for (int b = 0; b < SQUARES_N; b++) \
        _Pragma("unroll") for (int i = 0; i < 4; i++)

// Pieces of eight numbers that a thread brings of a tile of weights.
#define PIECES_N (TILE_N * 4 / THREADS)
#define PIECES_T (TILE_T * 4 / THREADS)

// A weight of 16-bit numbers as they are multiplied.
struct Direct {
    const u16* data;
    struct Held {};
    DEVICE void begin(Held&, u32* to, u32 row0, u32 n, u32 k) const {
#pragma unroll
        for (int i = 0; i < PIECES_N; i++) {
            const u32 piece = i * THREADS + threadIdx.x, line = piece / 4, e = piece % 4 * 8;
            cp_async16(to + (line * ROW + e) / 2, data + (size_t)min(row0 + line, n - 1) * K + k + e);
        }
    }
    DEVICE void end(const Held&, u32*) const {}
};
// Any other weight: decoded in registers while the tile before it is multiplied.
template <class W> struct Decoded {
    W w;
    struct Held {
        uint4 piece[PIECES_N];
    };
    DEVICE void begin(Held& held, u32*, u32 row0, u32 n, u32 k) const {
#pragma unroll
        for (int i = 0; i < PIECES_N; i++) {
            const u32 piece = i * THREADS + threadIdx.x, line = piece / 4, e = piece % 4 * 8;
            float v[8];
            w.load8(min(row0 + line, n - 1), k + e, v);
            held.piece[i] = to_half8(v);
        }
    }
    DEVICE void end(const Held& held, u32* to) const {
#pragma unroll
        for (int i = 0; i < PIECES_N; i++) {
            const u32 piece = i * THREADS + threadIdx.x, line = piece / 4, e = piece % 4 * 8;
            *(uint4*)(to + (line * ROW + e) / 2) = held.piece[i];
        }
    }
};
template <class W> DEVICE Decoded<W> decoded(const W& w) { return Decoded<W>{w}; }

DEVICE void begin_x(const u16* x, u32* to, u32 t0, u32 rows, u32 k) {
#pragma unroll
    for (int i = 0; i < PIECES_T; i++) {
        const u32 piece = i * THREADS + threadIdx.x, line = piece / 4, e = piece % 4 * 8;
        cp_async16(to + (line * ROW + e) / 2, x + (size_t)min(t0 + line, rows - 1) * K + k + e);
    }
}

// sums += the 32 columns of a stage.
DEVICE void multiply(const u32* xs, const u32* ws, Sums& sums) {
    const u32 lane = lane_index() / 4 * (ROW / 2) + lane_index() % 4;
    xs += warp_index() / WARPS_N * (TILE_T / WARPS_T) * (ROW / 2) + lane;
    ws += warp_index() % WARPS_N * (TILE_N / WARPS_N) * (ROW / 2) + lane;
#pragma unroll
    for (int k = 0; k < 16; k += 8) {
        u32 x[SQUARES_T][4], w[SQUARES_N][2];
#pragma unroll
        for (int a = 0; a < SQUARES_T; a++) {
            const u32* p = xs + a * 16 * (ROW / 2) + k;
            x[a][0] = p[0], x[a][1] = p[8 * (ROW / 2)], x[a][2] = p[4], x[a][3] = p[8 * (ROW / 2) + 4];
        }
#pragma unroll
        for (int b = 0; b < SQUARES_N; b++) {
            const u32* p = ws + b * 8 * (ROW / 2) + k;
            w[b][0] = p[0], w[b][1] = p[4];
        }
#pragma unroll
        for (int a = 0; a < SQUARES_T; a++) {
#pragma unroll
            for (int b = 0; b < SQUARES_N; b++) {
                if (HALF_BF16) {
                    mma_bf16(sums.at[a][b], x[a], w[b]);
                } else {
                    mma_f16(sums.at[a][b], x[a], w[b]);
                }
            }
        }
    }
}

// sums = rows row0.. of a weight of `n` rows times tokens t0.. of `rows`.
template <class W>
DEVICE void product(const W& w, const u16* x, u32 row0, u32 n, u32 t0, u32 rows, u32* room, Sums& sums) {
    const u32 steps = K / 32;
    typename W::Held held;
    EACH_NUMBER sums.at[a][b][i] = 0;
#pragma unroll
    for (u32 s = 0; s < STAGES - 1; s++) {
        u32* stage = room + s * STAGE_WORDS;
        if (s < steps) {
            begin_x(x, stage, t0, rows, s * 32);
            w.begin(held, stage + X_WORDS, row0, n, s * 32);
            w.end(held, stage + X_WORDS);
        }
        cp_async_commit();
    }
    for (u32 s = 0; s < steps; s++) {
        cp_async_wait<STAGES - 2>();
        // Everyone's part of this stage is there, and nobody reads the one before it any more.
        __syncthreads();
        const u32 next = s + STAGES - 1;
        u32* stage = room + next % STAGES * STAGE_WORDS;
        if (next < steps) {
            begin_x(x, stage, t0, rows, next * 32);
            w.begin(held, stage + X_WORDS, row0, n, next * 32);
        }
        cp_async_commit();
        const u32* here = room + s % STAGES * STAGE_WORDS;
        multiply(here, here + X_WORDS, sums);
        if (next < steps) w.end(held, stage + X_WORDS);
    }
    cp_async_wait<0>();
    __syncthreads();
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    wait_for_inputs();
    const u32 rows = ROWS, along = (rows + TILE_T - 1) / TILE_T;
    // Neighbours share a tile of weights.
    const u32 tile = group_index() / along, t0 = group_index() % along * TILE_T;
    if (tile >= TILES) return;
    u32* room = (u32*)dynamic;
    TILE_OUTPUTS
}
