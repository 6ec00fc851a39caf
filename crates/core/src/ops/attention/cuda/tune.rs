//! Tile sizes, splits and thresholds of the CUDA attention kernels. All were measured on one NVIDIA H200 (132 SMs), 2026-11-29
//! and 2026-11-30 (the kernels' headers have the times), and are used on every device; what scales with a device is computed
//! from its caps.

use super::*;

/// Query heads of a block at most: they share keys, and each takes registers.
const HEADS_PER_BLOCK: usize = 8;
/// Queries and keys of a tile of `prefill_simt`.
pub(super) const PREFILL_SIMT: [usize; 2] = [16, 32];

/// Query heads of a block: the largest divisor of the query heads of a key head that is at most `most`.
pub(super) fn together(op: &Attention, most: usize) -> usize {
    let group = op.heads / op.kv_heads;
    (1..=group.min(most)).rev().find(|n| group.is_multiple_of(*n)).unwrap_or(1)
}

/// The most splits of the visible positions such that blocks of `together` heads fill a share of the device: `filled` blocks on
/// every two SMs.
fn splits(c: &Cuda, together: usize, filled: usize) -> usize {
    // One token fills the device; more tokens need fewer splits.
    let tokens = if c.site.bucket == RowBucket::R1 { 1 } else { 8 };
    let blocks = filled * caps(c.site).sms as usize / 2;
    blocks.div_ceil(c.op.heads / together * tokens).clamp(1, 128)
}

/// Launch shape of `decode_split_kv_simt`: query heads of a block, splits of the visible positions, threads, keys in flight.
pub(super) struct Shares {
    pub(super) together: usize,
    pub(super) splits: usize,
    pub(super) threads: usize,
    pub(super) unroll: usize,
}

/// The launch shape of `decode_split_kv_simt`.
pub(super) fn split_kv_simt(c: &Cuda) -> Shares {
    let together = together(c.op, if c.op.dim > 128 { HEADS_PER_BLOCK / 2 } else { HEADS_PER_BLOCK });
    let lanes = (c.op.dim / 8).next_power_of_two();
    Shares { together, splits: splits(c, together, 4), threads: 256, unroll: (lanes / 8).max(2) }
}

/// Launch shape of `decode_split_kv_mma`: query heads of a block, blocks of a cluster, clusters of a head, the fewest positions
/// of a split, threads.
pub(super) struct SplitKvMma {
    pub(super) together: usize,
    pub(super) cluster: usize,
    pub(super) clusters: usize,
    pub(super) least: usize,
    pub(super) threads: usize,
}

/// The launch shape of `decode_split_kv_mma`.
pub(super) fn split_kv_mma(c: &Cuda) -> SplitKvMma {
    let together = together(c.op, HEADS_PER_BLOCK);
    // Registers limit occupancy to three blocks an SM, two with large heads; not all of those SMs can host a whole cluster.
    let splits = splits(c, together, if c.op.dim > 128 { 3 } else { 5 });
    // Clusters exist from compute capability 9.0; eight blocks is the portable limit. Smaller clusters fill a device better.
    let largest = if c.site.bucket == RowBucket::R1 { 8 } else { 4 };
    let cluster = if caps(c.site).sm >= 90 { 1 << splits.min(largest).ilog2() } else { 1 };
    let least = if cluster == 1 { 32 } else { 128 };
    SplitKvMma { together, cluster, clusters: splits / cluster, least, threads: 128 }
}

/// Launch shape of `decode_batched`: threads, query heads of a block, blocks that are resident at once, the fewest splits in all
/// that rows get beyond one each, the fewest positions of a split.
pub(super) struct Batched {
    pub(super) threads: usize,
    pub(super) together: usize,
    pub(super) resident_blocks: usize,
    pub(super) extra: usize,
    pub(super) least: usize,
}

/// The launch shape of `decode_batched`: two blocks on an SM, each with so many warps that few positions are left to one after
/// the other.
pub(super) fn batched(c: &Cuda) -> Batched {
    let resident_blocks = 2 * caps(c.site).sms as usize;
    let threads = if c.op.dim > 128 { 128 } else { 256 };
    Batched {
        threads,
        together: together(c.op, HEADS_PER_BLOCK),
        resident_blocks,
        extra: resident_blocks / 2,
        least: 128,
    }
}

/// Launch shape of `prefill_mma`: warps, keys of a tile, query rows of a tile, whether warps split the keys rather than the rows,
/// bytes of shared memory.
pub(super) struct PrefillMma {
    pub(super) warps: usize,
    pub(super) keys: usize,
    pub(super) rows: usize,
    pub(super) is_split: bool,
    pub(super) shared: usize,
}

/// The fastest shape of `prefill_mma` that fits shared memory.
pub(super) fn prefill_mma(c: &Cuda) -> Option<PrefillMma> {
    let dim = c.op.dim;
    // With few rows, warps divide the keys among them instead of the rows.
    let is_split = c.site.bucket == RowBucket::R9To64;
    let row_stride = dim.next_multiple_of(16) + 8;
    let parts = if c.caches == ["CACHE_F16"; 2] { 1 } else { 2 };
    let bytes =
        |rows: usize, warp_groups: usize, keys: usize| 2 * row_stride * (2 * rows + warp_groups * 4 * parts * keys);
    // Pairs of warps and keys of a tile, the fastest first.
    let forms: &[(usize, usize)] = match (is_split, dim <= 128) {
        (true, _) => &[(4, 16), (2, 16)],
        (false, true) => &[(8, 64), (4, 64), (4, 32)],
        (false, false) => &[(8, 32), (4, 32), (4, 16)],
    };
    let shared = |(warps, keys): (usize, usize)| {
        if is_split { bytes(16, warps, keys) } else { bytes(16 * warps, 1, keys) }
    };
    let (warps, keys) = *forms.iter().find(|form| shared(**form) <= caps(c.site).shared as usize)?;
    let rows = if is_split { 16 } else { 16 * warps };
    Some(PrefillMma { warps, keys, rows, is_split, shared: shared((warps, keys)) })
}
