//! Tile sizes, launch shapes and thresholds of the CUDA matmul kernels, by device. They are the only place where such a number
//! is chosen; the kernels' builders take what stands here, and it becomes part of the kernel's id.
//!
//! A stored profile never changes what is chosen here: two machines with one kind of GPU make the same plan.

use super::*;

pub(super) mod skinny;

/// Weights that would take more bytes than this in 16 bits are dequantized tile by tile, by our own kernel: the scratch slot
/// would cost more memory than the library saves time.
pub(super) const MOST_DEQUANTIZED: usize = 512 << 20;

/// What was measured on one kind of device. All times are of chains of one dispatch; the kernels' headers have the history.
pub(super) struct Tuning {
    /// The least compute capability, times ten, to which the numbers are applied.
    sm: u32,
    /// `gemv`: most warps of a block where an SM has few rows, and where it has many.
    gemv_warps: (usize, usize),
    /// `gemv`: up to so many rows for each SM, the loads of all rows can be in flight at once.
    gemv_few: usize,
    /// `gemv`: bytes of a block's weights up to which the rows beyond those in registers are prefetched to L2.
    pub(super) gemv_prefetch: usize,
    /// `gemv_multi`: threads of a block; and for one token and a matrix with at most half as many rows as the device then has
    /// warps.
    multi_threads: (usize, usize),
    /// `gemv_multi`: bytes of weights that a block prefetches to L2 before the dependency wait; those of all blocks fit L2.
    pub(super) multi_prefetch: usize,
    /// `gemm_int8_mma`: shared-memory stages of a warp's ring, one k-tile in use while the others are in flight; and thread
    /// blocks that are resident on an SM.
    pub(super) int8_mma: (usize, usize),
    /// `gemm_f16_mma`: tokens and rows of a tile for more than 64 rows, by the products of an output (1, 2, more); and for up
    /// to 64 rows, which are bound by the bandwidth of weights: narrow tiles make enough blocks for all SMs to load some.
    f16_mma: [(usize, usize); 4],
    /// `gemm_f16_mma`: shared-memory stages and columns of one.
    pub(super) f16_stages: (usize, usize),
}

/// Measured on one NVIDIA H200 (132 SMs), 2026-11-29 and 2026-11-30: `gemv.cu`, `gemv_multi.cu`, `gemm_int8_mma.cu` and
/// `gemm_f16_mma.cu` have the times.
const H200: Tuning = Tuning {
    sm: 0,
    gemv_warps: (28, 16),
    gemv_few: 16,
    gemv_prefetch: 100 * 1024,
    multi_threads: (512, 1024),
    multi_prefetch: 160 * 1024,
    int8_mma: (3, 2),
    f16_mma: [(128, 128), (128, 64), (64, 64), (64, 32)],
    f16_stages: (2, 64),
};

/// The devices that were measured, the newest first. An older device takes the last entry.
const DEVICES: [Tuning; 1] = [H200];

/// The numbers for a device.
pub(super) fn of(caps: CudaCaps) -> &'static Tuning {
    DEVICES.iter().find(|t| caps.sm >= t.sm).unwrap_or(&H200)
}

/// Launch shape of `gemv`.
pub(super) struct Gemv {
    /// Warps that share a row, each with its slice of K.
    pub(super) k_warps: usize,
    /// Groups of such warps in a block.
    pub(super) warp_groups: usize,
    /// Rows in flight for each group.
    pub(super) depth: usize,
    /// Thread blocks.
    pub(super) blocks: usize,
}

/// Launch shape of `gemv_multi`.
pub(super) struct GemvMulti {
    /// Threads of a block.
    pub(super) threads: usize,
    /// Rows of a unit.
    pub(super) rows: usize,
    /// Warps that share a unit, each with its slice of K.
    pub(super) k_warps: usize,
    /// Loads in flight for each row.
    pub(super) unroll: usize,
}

/// Whether the activations of a row fit the registers of a block of `gemv`.
pub(super) fn rows_fit_registers(c: &Cuda) -> bool {
    let warps = of(caps(c.site)).gemv_warps.1;
    c.products.iter().all(|p| c.chunks(p) <= 32 * warps * if p.int8 { 2 } else { 4 })
}

/// The launch shape of `gemv` for `units` rows of all outputs together.
pub(super) fn gemv(c: &Cuda, units: usize) -> Gemv {
    let (tuning, sms) = (of(caps(c.site)), caps(c.site).sms as usize);
    let (few_warps, many_warps) = tuning.gemv_warps;
    let rows = (units * c.products.len() / c.site.outs.len()).div_ceil(units.min(sms).max(1));
    let has_many = rows > tuning.gemv_few;
    // One chunk of activations a thread is fastest. With many rows, floats and 8-bit quants have two: fewer K warps share a
    // row, and fewer partial sums are reduced.
    let wish = |p: &Product| {
        let each = if has_many && p.planes.is_none_or(|s| s.bits == 8) { 2 } else { 1 };
        c.chunks(p).div_ceil(32 * each)
    };
    let most = if has_many { many_warps } else { few_warps };
    let k_warps = c.products.iter().map(wish).max().unwrap_or(1).clamp(1, most);
    let floats = c.products.iter().all(|p| !p.int8);
    let power = |most: usize, n: usize| [8, 4, 2].into_iter().find(|&d| d <= most && d <= n).unwrap_or(1);
    if !has_many {
        let passes = rows.div_ceil((few_warps / k_warps).max(1)).max(1);
        let warp_groups = rows.div_ceil(passes).max(1);
        return Gemv { k_warps, warp_groups, depth: power(4, passes), blocks: units.min(sms) };
    }
    if floats && k_warps <= 2 {
        // Several small blocks an SM lose less time in barriers than one large block.
        let (warp_groups, blocks) = if rows > 512 { (8 / k_warps, 2) } else { (4 / k_warps, 3) };
        return Gemv { k_warps, warp_groups, depth: 8, blocks: units.min(sms * blocks) };
    }
    let warp_groups = if k_warps > 8 && !floats { few_warps / k_warps } else { (many_warps / k_warps).max(1) };
    let each = c.products.iter().map(|p| c.chunks(p).div_ceil(32 * k_warps)).max().unwrap_or(1).max(1);
    let most = 8 / each / if k_warps * warp_groups > many_warps { 2 } else { 1 };
    Gemv { k_warps, warp_groups, depth: power(most, rows.div_ceil(2 * warp_groups)), blocks: units.min(sms) }
}

/// The launch shape of `gemv_multi`.
pub(super) fn gemv_multi(c: &Cuda) -> GemvMulti {
    let (few_threads, more_threads) = of(caps(c.site)).multi_threads;
    let sms = caps(c.site).sms as usize;
    let total: usize = c.site.outs.iter().map(|o| o.width).sum();
    let one = c.site.bucket == RowBucket::R1;
    let chunk = |p: &Product| p.planes.map_or(p.row_bytes, |s| c.k() / 8 * s.bits).div_ceil(16);
    let loads = c.products.iter().map(chunk).max().unwrap_or(1).div_ceil(32);
    let threads = if one { more_threads } else { few_threads };
    let warps = sms * (threads / 32);
    if total * 2 <= warps && loads > 1 {
        // Fewer rows than warps: several warps share a row.
        let k_warps = [8, 4, 2].into_iter().find(|&n| n <= loads && total * n <= warps).unwrap_or(2);
        return GemvMulti { threads, rows: 1, k_warps, unroll: loads.div_ceil(k_warps).clamp(1, 4) };
    }
    let warps = few_threads / 32;
    let most = if one { loads.clamp(1, 4) } else { 1 };
    let fits = |n: &usize| *n == 1 || total >= 2 * n * sms * warps / 3 && n * most <= 8;
    // Rows that the busiest warp computes, where units have n rows.
    let longest = |n: &usize| total.div_ceil(*n).div_ceil(sms).div_ceil(warps) * n;
    let rows = [4, 2, 1].into_iter().filter(fits).min_by_key(longest).unwrap_or(1);
    GemvMulti { threads: few_threads, rows, k_warps: 1, unroll: most }
}

/// Tokens and rows of a tile of `gemm_f16_mma`, where an output has at most `products` products: their accumulators stay in
/// registers, so tiles are narrower where there are more.
pub(super) fn f16_tile(c: &Cuda, products: usize) -> (usize, usize) {
    let tiles = &of(caps(c.site)).f16_mma;
    match c.site.bucket {
        RowBucket::Large => tiles[products.clamp(1, 3) - 1],
        _ => tiles[3],
    }
}
