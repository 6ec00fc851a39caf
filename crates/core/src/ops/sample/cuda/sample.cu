// Chooses the next token of each sequence. SPLITS blocks per row find its best logit; a semaphore finds the block that finishes
// last, and this block combines the splits' results and chooses the token.
//
// Greedy sampling ends there. A random draw has to find ranks in the order of descending logits (lower ids first among equal
// ones). It does so without a sort, by radix select: a histogram of 256 bins over the 8 highest bits of the keys, then over the
// next 8 bits of the keys in the chosen bin, and so on. Weights are fixed-point integers in units of 2^-40, so that sums, and
// with them draws, do not depend on the order of the atomic additions.
//
// v1: 38 blocks per row, scalar loads: 8 µs for 152k logits on an H200.
// v2: 16-byte loads by twice as many blocks; the batch's words are read before the wait for the logits.
#ifndef ONETRIP_LAUNCH
#define THREADS 512
#include "defaults.cuh"
#define ROWS (Batch{BATCH}.t())
#define VOCABULARY 32000
#define TOP 0
#define SPLITS 16
#define LOGITS ((const float*)A.a1)
#define PENDING_TOKENS ((u32*)A.a2)
#define SPLIT_BEST ((float2*)A.a3)
#define SEMAPHORES ((u32*)A.a4)
#define OUT ((float*)A.a5)
#endif

// An integer key that compares as f32::total_cmp orders the floats.
DEVICE u32 order_of(float x) {
    const u32 b = __float_as_uint(x);
    return b ^ ((b >> 31) ? FULL : 0x80000000u);
}

struct Row {
    const float* logits;
    const u32* seen;  // a bit per token id, set for those in the history; null where no penalty applies
    float penalty;
    DEVICE float at(u32 i) const {
        float x = logits[i];
        if (seen && (seen[i / 32] >> (i % 32) & 1)) x = x > 0 ? __fdiv_rn(x, penalty) : __fmul_rn(x, penalty);
        return x;
    }
};

struct Best {
    float x;
    u32 id;
    DEVICE void merge(float y, u32 j) {
        if (y > x || (y == x && j < id)) x = y, id = j;
    }
};

DEVICE Best block_best(Best b, Best* smem) {
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) b.merge(__shfl_xor_sync(FULL, b.x, i), __shfl_xor_sync(FULL, b.id, i));
    __syncthreads();
    if (lane_index() == 0) smem[warp_index()] = b;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) b.merge(smem[i].x, smem[i].id);
    return b;
}

// A uniform number in [0, 1): Philox 4x32 with 10 rounds, first word, as `uniform` in core/src/ops/sample/mod.rs.
DEVICE float uniform(u32 seed_low, u32 seed_high, u64 counter) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0, k0 = seed_low, k1 = seed_high;
    for (int i = 0; i < 10; i++) {
        const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(b >> 32) ^ c1 ^ k0;
        c1 = (u32)b;
        c2 = (u32)(a >> 32) ^ c3 ^ k1;
        c3 = (u32)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (float)(c0 >> 8) / 16777216.0f;
}

#define ONE 1099511627776.0  // 2^40: the weight of the best token

struct Draw {
    Row row;
    float best, temperature, floor;
    bool by_floor;
    u64* bins;
    u64* found;
    DEVICE bool has(float x) const { return x == x && (!by_floor || x >= floor); }
    DEVICE double weight(float x) const { return exp((double)__fdiv_rn(x - best, temperature)); }
    DEVICE u64 whole(float x) const { return (u64)(weight(x) * ONE); }
};

// A rank in the order of descending logits: the key of the logit there, how many of the logits equal to it are included
// (from 1), and the sum of counts or weights up to and including this rank.
struct Place {
    u32 key;
    u64 equal;
    u64 sum;
};

// The first rank at which the sum, of tokens (COUNT) or of their weights, exceeds `limit`; the last rank if it never does.
template <bool COUNT> DEVICE Place search(const Draw& d, u64 limit) {
    u32 prefix = 0, mask = 0;
    u64 before = 0, here = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (u32 i = threadIdx.x; i < 256; i += THREADS) d.bins[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < VOCABULARY; i += THREADS) {
            const float x = d.row.at(i);
            const u32 key = order_of(x);
            if (d.has(x) && (key & mask) == prefix) atomicAdd(&d.bins[key >> shift & 255], COUNT ? 1ull : d.whole(x));
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 sum = before;
            int bin = 255, last = -1;
            for (; bin >= 0; bin--) {
                if (d.bins[bin] == 0) continue;
                last = bin;
                if (sum + d.bins[bin] > limit) break;
                sum += d.bins[bin];
            }
            if (bin < 0) {
                bin = last < 0 ? 0 : last;
                sum -= d.bins[bin];
            }
            d.found[0] = bin;
            d.found[1] = sum;
            d.found[2] = d.bins[bin];
        }
        __syncthreads();
        prefix |= (u32)d.found[0] << shift;
        mask |= 255u << shift;
        before = d.found[1];
        here = d.found[2];
        __syncthreads();
    }
    Place p;
    p.key = prefix;
    const u32 bits = prefix ^ ((prefix >> 31) ? 0x80000000u : FULL);
    const u64 each = COUNT ? 1 : d.whole(__uint_as_float(bits));
    const u64 all = each ? here / each : 1;
    p.equal = each && limit >= before ? (limit - before) / each + 1 : 1;
    if (p.equal > all) p.equal = all ? all : 1;
    p.sum = before + p.equal * each;
    return p;
}

// The sum of the weights down to a rank that was found by counting.
DEVICE u64 weight_to(const Draw& d, const Place& p) {
    if (threadIdx.x == 0) d.found[0] = 0;
    __syncthreads();
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < VOCABULARY; i += THREADS) {
        const float x = d.row.at(i);
        if (d.has(x) && order_of(x) > p.key) sum += d.whole(x);
    }
    atomicAdd(d.found, sum);
    __syncthreads();
    const u32 bits = p.key ^ ((p.key >> 31) ? 0x80000000u : FULL);
    const u64 all = d.found[0] + p.equal * d.whole(__uint_as_float(bits));
    __syncthreads();
    return all;
}

// The id at a rank: in ascending order of ids, the `equal`th (from 1) of the tokens with its key.
DEVICE u32 id_at(const Draw& d, const Place& p, u32* counts) {
    const u32 share = (VOCABULARY + THREADS - 1) / THREADS;
    const u32 from = threadIdx.x * share, to = min(from + share, (u32)VOCABULARY);
    u32 mine = 0;
    for (u32 i = from; i < to; i++) {
        const float x = d.row.at(i);
        mine += d.has(x) && order_of(x) == p.key;
    }
    counts[threadIdx.x] = mine;
    if (threadIdx.x == 0) d.found[0] = 0;
    __syncthreads();
    u64 before = 0;
    for (u32 i = 0; i < threadIdx.x; i++) before += counts[i];
    if (before < p.equal && p.equal <= before + mine) {
        u64 at = before;
        for (u32 i = from; i < to; i++) {
            const float x = d.row.at(i);
            if (d.has(x) && order_of(x) == p.key && ++at == p.equal) d.found[0] = i;
        }
    }
    __syncthreads();
    const u32 id = (u32)d.found[0];
    __syncthreads();
    return id;
}

DEVICE u32 draw(const Batch& batch, u32 r, const Draw& base, u32* counts) {
    Draw d = base;
    const u32 top_k = batch.span(r, 6);
    const float top_p = batch.span_f32(r, 7), min_p = batch.span_f32(r, 8);
    d.by_floor = top_k == 0 || top_k >= VOCABULARY;
    d.floor = d.best - 40.0f * fmaxf(d.temperature, 0.01f);
    u64 total = d.by_floor ? weight_to(d, Place{0, 0, 0}) : weight_to(d, search<true>(d, top_k - 1));
    u64 kept = total;
    if (top_p < 1.0f) {
        const double reach = ceil((double)top_p * (double)total);
        const u64 limit = reach < 1.0 ? 0 : (u64)reach - 1;
        kept = min(kept, search<false>(d, min(limit, total - 1)).sum);
    }
    if (min_p > 0.0f) {
        if (threadIdx.x == 0) d.found[0] = 0;
        __syncthreads();
        u64 sum = 0;
        for (u32 i = threadIdx.x; i < VOCABULARY; i += THREADS) {
            const float x = d.row.at(i);
            if (d.has(x) && !(d.weight(x) < (double)min_p)) sum += d.whole(x);
        }
        atomicAdd(d.found, sum);
        __syncthreads();
        kept = min(kept, max(d.found[0], (u64)ONE));
        __syncthreads();
    }
    const u64 counter = batch.span(r, 2);
    const double left = (double)uniform(batch.span(r, 10), batch.span(r, 11), counter) * (double)kept;
    return id_at(d, search<false>(d, min((u64)left, kept - 1)), counts);
}

// Writes the log-probabilities of the chosen id and of the `top` best tokens.
DEVICE void report(const Row& row, float best, u32 id, u32 top, float* out, double* sums, Best* smem) {
    double sum = 0;
    for (u32 i = threadIdx.x; i < VOCABULARY; i += THREADS) sum += exp((double)(row.at(i) - best));
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) sum += __shfl_xor_sync(FULL, sum, i);
    if (lane_index() == 0) sums[warp_index()] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < WARPS; i++) sum += sums[i];
    const double log_sum = (double)best + log(sum);
    if (threadIdx.x == 0) out[1] = (float)((double)row.at(id) - log_sum);
    u32 last_key = FULL, last_id = 0;
    bool any = false;
    for (u32 n = 0; n < min(top, (u32)TOP); n++) {
        // The best token among those behind the one found last.
        u32 key = 0, found = FULL;
        for (u32 i = threadIdx.x; i < VOCABULARY; i += THREADS) {
            const float x = row.at(i);
            const u32 k = order_of(x);
            const bool after = !any || k < last_key || (k == last_key && i > last_id);
            if (x == x && after && (found == FULL || k > key)) key = k, found = i;
        }
#pragma unroll
        for (int i = 16; i > 0; i >>= 1) {
            const u32 k = __shfl_xor_sync(FULL, key, i), f = __shfl_xor_sync(FULL, found, i);
            if (f != FULL && (found == FULL || k > key || (k == key && f < found))) key = k, found = f;
        }
        __syncthreads();
        if (lane_index() == 0) smem[warp_index()].x = __uint_as_float(key), smem[warp_index()].id = found;
        __syncthreads();
        for (int i = 0; i < WARPS; i++) {
            const u32 k = __float_as_uint(smem[i].x), f = smem[i].id;
            if (f != FULL && (found == FULL || k > key || (k == key && f < found))) key = k, found = f;
        }
        if (found == FULL) return;
        last_key = key, last_id = found, any = true;
        if (threadIdx.x == 0) {
            out[2 + 2 * n] = __uint_as_float(found);
            out[3 + 2 * n] = (float)((double)row.at(found) - log_sum);
        }
    }
}

KERNEL {
    extern __shared__ uint4 dynamic[];
    __shared__ Best smem[WARPS];
    __shared__ double sums[WARPS];
    __shared__ u64 bins[256], found[3];
    __shared__ u32 counts[THREADS];
    __shared__ bool is_last;
    const Args A = ARGS;
    allow_next();
    // No kernel writes the batch's words, so they may be read before the wait.
    const Batch batch{BATCH};
    const u32 r = block_index() / SPLITS, split = block_index() % SPLITS;
    const bool inside = r < ROWS;
    const float penalty = inside ? batch.span_f32(r, 9) : 1.0f, temperature = inside ? batch.span_f32(r, 5) : 0.0f;
    const u32 past = inside ? batch.span(r, 14) : 0, top = inside ? batch.span(r, 12) : 0;
    wait_for_inputs();
    if (!inside) return;
    Row row{LOGITS + (size_t)r * VOCABULARY, 0, penalty};
    if (penalty != 1.0f && past > 0) {
        u32* seen = (u32*)dynamic;
        for (u32 i = threadIdx.x; i < (VOCABULARY + 31) / 32; i += THREADS) seen[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < past; i += THREADS) {
            const u32 id = batch.history(r, i);
            if (id < VOCABULARY) atomicOr(&seen[id / 32], 1u << (id % 32));
        }
        __syncthreads();
        row.seen = seen;
    }
    Best best{-INFINITE, 0};
    const u32 share = ((VOCABULARY + SPLITS - 1) / SPLITS + 3) / 4 * 4;
    const u32 begin = min(split * share, (u32)VOCABULARY), end = min(begin + share, (u32)VOCABULARY);
    if (VOCABULARY % 4 == 0 && !row.seen) {
        for (u32 i = begin + threadIdx.x * 4; i < end; i += THREADS * 4) {
            const float4 x = *(const float4*)(row.logits + i);
            best.merge(x.x, i), best.merge(x.y, i + 1), best.merge(x.z, i + 2), best.merge(x.w, i + 3);
        }
    } else {
        for (u32 i = begin + threadIdx.x; i < end; i += THREADS) best.merge(row.at(i), i);
    }
    best = block_best(best, smem);
    if (SPLITS > 1) {
        Best* splits = (Best*)SPLIT_BEST + r * SPLITS;
        if (threadIdx.x == 0) {
            splits[split] = best;
            __threadfence();
            is_last = atomicAdd(SEMAPHORES + r, 1) == SPLITS - 1;
        }
        __syncthreads();
        if (!is_last) return;
        __threadfence();
        if (threadIdx.x == 0) SEMAPHORES[r] = 0;
        best = Best{-INFINITE, 0};
        for (u32 i = threadIdx.x; i < SPLITS; i += THREADS) {
            const float2 b = __ldcg((const float2*)(splits + i));
            best.merge(b.x, __float_as_uint(b.y));
        }
        best = block_best(best, smem);
    }
    float* out = OUT + (size_t)r * (2 + 2 * TOP);
    for (u32 i = threadIdx.x; i < 2 + 2 * TOP; i += THREADS) out[i] = NOT_A_NUMBER;
    __syncthreads();
    u32 id = FULL;
    if (best.x < INFINITE && best.x > -INFINITE) {
        id = best.id;
        if (temperature > 0) {
            const Draw d{row, best.x, temperature, 0, false, bins, found};
            id = draw(batch, r, d, counts);
        }
        if (top > 0) report(row, best.x, id, top, out, sums, smem);
    }
    if (threadIdx.x == 0) {
        out[0] = __uint_as_float(id);
        PENDING_TOKENS[r] = id;
    }
}
