// Matmul of one row: weights go from memory to registers, and meet activations that stay in registers.
//
// A block owns adjacent rows of the outputs. KW warps lie side by side along a row, each thread with the activations of
// its columns; TEAMS such teams go through the rows, DEPTH of them on their way at any time. The first are asked for
// before the kernel in front is done, and the lines behind them are fetched to the second-level cache. Nothing is reduced
// before the products: int8 codes do not depend on the norm's factor, which the sums are multiplied by at the end.
//
// v1 (as `kernel.cu`): activations in shared memory, a block reduction for the norm. Ticks on an H200: Qwen2.5-0.5B F16 759
//     µs, Q4_0 551, Llama-8B Q4_0 1862.
// v2: activations in registers, the norm's factor at the end, sums of several rows in one exchange, residuals read early:
//     615, 483, 1677 µs. Chains of one dispatch: q/k/v of the 0.5B in F16 3.0 to 1.8 µs, gate and up 7.6 to 5.6, down 4.6
//     to 3.1; of Llama-8B in Q4_0 gate and up 19.2 to 16.8, down 13.5 to 11.2, head 78 to 64 (4.6 TB/s).
// v3: cut by measurement (`cuda/row.rs`): one chunk a thread where rows are few; some small blocks a multiprocessor for
//     long matrices of floats; no fetching ahead where a block has more than 100 KB. With attention at 4 to 5 µs in the
//     place of 8: 493, 475, 1514 µs, Llama-8B Q8_0 2259.
//
// Tried and given up: registers bounded for two blocks a multiprocessor (664 µs; they spill); weights through shared memory
// with 50 to 140 KB of a block under way (677 to 786, 540 to 632 and 1722 to 2155 µs: no faster by itself, and less overlap between
// kernels: where neighbours want first-level memory divided differently, they wait for each other).

// The rows that a block has of products of one type, flattened: `find(i, row, at)` gives the weight of the i-th, its row
// there, and where its sum goes.
template <class W> struct Stream {
    static const int CHUNKS = K / W::ELEMENTS;
    static const int EACH = (CHUNKS + 32 * KW - 1) / (32 * KW);  // chunks of a row that a thread has
    static const bool EXACT = CHUNKS % (32 * KW) == 0;
    typename W::Chunk ring[DEPTH][EACH];

    DEVICE static u32 chunk(u32 along, int c) { return (along + c * KW) * 32 + lane_index(); }
    DEVICE static bool inside(u32 along, int c) { return EXACT || chunk(along, c) < CHUNKS; }

    template <class Find> DEVICE void ask(const Find& find, int d, u32 i, u32 n, u32 along) {
        if (i >= n) return;
        u32 row, at;
        const W w = find(i, row, at);
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            if (inside(along, c)) ring[d][c] = w.load(row, chunk(along, c));
        }
    }
    template <class Find> DEVICE void begin(const Find& find, u32 n, u32 team, u32 along) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) ask(find, d, team + d * TEAMS, n, along);
    }
    // All rows, their sums over this warp's columns into `part`.
    template <class Find>
    DEVICE void run(const Find& find, const typename W::Mine (&mine)[EACH], u32 n, u32 team, u32 along, float* part) {
        for (u32 base = team; base < n; base += TEAMS * DEPTH) {
            float sums[DEPTH];
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                sums[d] = 0;
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    if (inside(along, c)) sums[d] = W::meet(ring[d][c], mine[c], sums[d]);
                }
                ask(find, d, base + (DEPTH + d) * TEAMS, n, along);
            }
            const float sum = warp_sums<DEPTH>(sums);
            const u32 i = base + lane_index() * TEAMS;
            if (lane_index() < DEPTH && i < n) {
                u32 row, at;
                find(i, row, at);
                part[along * (PRODUCTS * SPAN) + at] = sum;
            }
        }
    }
};

// The norm's weight of this warp's columns: no kernel writes it, so it may be read early.
template <class W> DEVICE void hold_norm(const float* g, u32 along, typename W::Mine (&mine)[Stream<W>::EACH]) {
#pragma unroll
    for (int c = 0; c < Stream<W>::EACH; c++) {
        mine[c] = W::nothing();
        if (NORM && Stream<W>::inside(along, c)) mine[c] = W::mine(g, Stream<W>::chunk(along, c));
    }
}
// This warp's columns of the row as floats, times the norm's weight; the sum of their squares without it.
template <class W>
DEVICE void hold_floats(const float* row, u32 along, typename W::Mine (&mine)[Stream<W>::EACH], float& squares) {
    typename W::Mine x[Stream<W>::EACH];
#pragma unroll
    for (int c = 0; c < Stream<W>::EACH; c++) {
        x[c] = Stream<W>::inside(along, c) ? W::mine(row, Stream<W>::chunk(along, c)) : W::nothing();
    }
#pragma unroll
    for (int c = 0; c < Stream<W>::EACH; c++) {
#pragma unroll
        for (int i = 0; i < W::ELEMENTS; i++) {
            if (NORM) squares = fmaf(x[c].x[i], x[c].x[i], squares), x[c].x[i] *= mine[c].x[i];
        }
        mine[c] = x[c];
    }
}
// The same as codes, from shared memory.
template <class W> DEVICE void hold_codes(const X& x, u32 along, typename W::Mine (&mine)[Stream<W>::EACH]) {
#pragma unroll
    for (int c = 0; c < Stream<W>::EACH; c++) {
        mine[c] = Stream<W>::inside(along, c) ? W::mine(x, 0, Stream<W>::chunk(along, c)) : W::nothing();
    }
}

// The sum over a team's warps.
DEVICE float team_sum(const float* part, u32 at) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < KW; w++) sum += part[w * (PRODUCTS * SPAN) + at];
    return sum;
}

// Eight numbers of a thread at a time, for rounding.
#define HELD ((K + 8 * THREADS - 1) / (8 * THREADS))
struct Eights {
    float v[HELD][8];
    DEVICE static u32 element(int r) { return (r * WARPS + warp_index()) * 256 + lane_index() * 8; }
    DEVICE void read(const float* x) {
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            float4 lo = make_float4(0, 0, 0, 0), hi = lo;
            const u32 e = element(r);
            if (e < K) lo = *(const float4*)(x + e), hi = *(const float4*)(x + e + 4);
            v[r][0] = lo.x, v[r][1] = lo.y, v[r][2] = lo.z, v[r][3] = lo.w;
            v[r][4] = hi.x, v[r][5] = hi.y, v[r][6] = hi.z, v[r][7] = hi.w;
        }
    }
};

// The row times the norm's weight, rounded, to shared memory; the sum of its squares.
DEVICE void round_row(Eights& x, const Eights& g, const X& to, float& squares) {
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        if ((r * WARPS + warp_index()) * 256 >= K) break;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (NORM) squares = fmaf(x.v[r][i], x.v[r][i], squares), x.v[r][i] *= g.v[r][i];
        }
        uint2 codes;
        float d;
        int sum16;
        round_int8(x.v[r], codes, d, sum16);
        const u32 e = Eights::element(r);
        if (e >= K) continue;
        if (NEED_Q) *(uint2*)((u8*)to.q + e) = codes;
        if (NEED_EO) {
            *(u32*)((u8*)to.eo + e / 2) = __byte_perm(codes.x, codes.y, 0x6420);
            *(u32*)((u8*)to.eo + K / 2 + e / 2) = __byte_perm(codes.x, codes.y, 0x7531);
        }
        if (e % 32 == 0) ((float*)to.scale)[e / 32] = d;
        if (e % 16 == 0) ((float*)to.sum)[e / 16] = d * (float)sum16;
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    const Args A = ARGS;
    allow_next();
    const u32 group = group_index(), team = warp_index() / KW, along = warp_index() % KW;
    const u32 first = (u32)((u64)UNITS * group / GROUPS), end = (u32)((u64)UNITS * (group + 1) / GROUPS);
    float* part = (float*)dynamic;
    float* squares_of = part + KW * PRODUCTS * SPAN;
    u8* q = (u8*)dynamic + ROOM_BYTES;
    u8* eo = q + (NEED_Q ? K : 0);
    // Sums first: they are read in pairs, and the scales may be an odd number.
    float* sum = (float*)(eo + (NEED_EO ? K : 0));
    const X view{0, q, eo, sum + K / 16, sum};
    if (group >= GROUPS) {
        wait_for_inputs();
        return;
    }
    ROW_BEGIN
    ROW_FETCHES
    Eights g;
    if (NORM && NEED_INT8) g.read(NORM_WEIGHT);
    float squares = 0;
    ROW_NORMS
    wait_for_inputs();
    const u32 unit = first + threadIdx.x;
    ROW_EARLY
    if (NEED_INT8) {
        Eights x;
        x.read(X_IN);
        round_row(x, g, view, squares);
        __syncthreads();
    }
    ROW_STREAMS
    if (NORM) {
        squares = warp_sum(squares);
        if (lane_index() == 0) squares_of[warp_index()] = squares;
    }
    __syncthreads();
    float factor = 1;
    if (NORM) {
        float s = 0;
        // A row that is rounded was read once by the block, otherwise once by each team.
        for (int w = 0; w < (NEED_INT8 ? WARPS : KW); w++) s += squares_of[w];
        factor = 1.0f / sqrtf(s / (float)K + NORM_EPS);
    }
    ROW_OUTPUTS
}
