//! The block shape of `gemm_skinny`. Of all shapes that fit a device the one with the least estimated time is taken. The
//! estimate ranks the shapes of one kernel and is no price: prices come from the cost model.

use super::*;

/// Rows of a warp tile, as many as an mma has; a unit of outputs has one warp tile for each of its products.
pub(in super::super) const WARP_TILE: usize = 16;
/// Columns of a k-block.
pub(in super::super) const K_BLOCK: usize = 128;
/// Tiles of eight tokens in a block: the kernel has one path for up to 16 rows and one for more.
pub(in super::super) const TILES: [usize; 2] = [2, 4];
/// Bytes of the 16-bit activations of eight tokens in one k-block.
const TOKENS: usize = 8 * K_BLOCK * 2;
/// Most warp tiles of a warp, and most warps of a block: more would not fit the register file.
const MOST_WARP_TILES: usize = 2;
const MOST_WARPS: usize = 16;
/// Warp schedulers of an SM: warp i of a block runs on scheduler i % SCHEDULERS.
const SCHEDULERS: usize = 4;

/// Times of the parts of a block, in µs.
struct Times {
    /// Each k-block of a warp tile on a scheduler.
    warp_tile: f64,
    /// Each k-block of activations.
    tokens: f64,
    /// Each block.
    block: f64,
    /// Each further block of a cluster.
    cluster: f64,
    /// Each further K warp.
    k_warp: f64,
    /// Each warp.
    warp: f64,
}

/// Fitted to single kernels of 32 rows, measured on one NVIDIA H200, 2026-11-30. The ranking is used on every device.
const H200: Times = Times { warp_tile: 0.225, tokens: 0.1, block: 3.2, cluster: 0.2, k_warp: 0.35, warp: 0.02 };

/// Shape of a block: warp tiles, N warps that share them, K warps that slice K, and blocks of a cluster. For each of [`TILES`]:
/// the k-tiles of a warp in a phase of activations, and the phases that shared memory holds at once. `stages_at` is the byte
/// offset at which the weights' shared-memory stages begin, and `shared` all bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) warp_tiles: usize,
    pub(in super::super) n_warps: usize,
    pub(in super::super) k_warps: usize,
    pub(in super::super) cluster: usize,
    pub(in super::super) phase: [usize; 2],
    pub(in super::super) buffers: [usize; 2],
    pub(in super::super) stages_at: usize,
    pub(in super::super) shared: usize,
}

impl Shape {
    pub(in super::super) fn most(&self) -> usize {
        self.warp_tiles.div_ceil(self.n_warps)
    }

    /// N warps that have [`Shape::most`] warp tiles; the others have one fewer.
    pub(in super::super) fn full(&self) -> usize {
        self.warp_tiles - self.n_warps * (self.most() - 1)
    }
}

/// The work from which [`shape`] chooses.
pub(in super::super) struct Work {
    /// k-blocks of a row.
    pub(in super::super) k_blocks: usize,
    /// k-blocks of a k-tile, the most of all grouped problems.
    pub(in super::super) k_tile: usize,
    /// Bytes of a warp tile's shared-memory stage, the most of all grouped problems.
    pub(in super::super) stage: usize,
    /// Units of each grouped problem and products of a unit.
    pub(in super::super) problems: Vec<(usize, usize)>,
}

/// The block shape with the least estimated time, by [`H200`].
pub(in super::super) fn shape(work: &Work, caps: CudaCaps) -> Option<Shape> {
    let us = &H200;
    let products = work.problems.iter().map(|b| b.1).max().unwrap_or(1);
    let mut best: Option<(f64, Shape)> = None;
    let k_tiles = work.k_blocks.div_ceil(work.k_tile);
    for (cluster, k_warps) in [1, 2, 4, 8].into_iter().flat_map(|c| [1, 2, 4].map(|a| (c, a))) {
        let share = k_tiles.div_ceil(cluster);
        if cluster > 1 && caps.sm < 90 || cluster > k_tiles || k_warps > share {
            continue;
        }
        // A cluster runs within one GPC. GPCs have no whole number of clusters of more than two blocks, so some SMs stay idle.
        let sms = caps.sms as usize;
        let places = if cluster > 2 { (sms * 10 / 11 / cluster).max(1) * cluster } else { sms };
        for most in 1..=MOST_WARP_TILES {
            for n_warps in 1..=MOST_WARPS / k_warps {
                for warp_tiles in
                    (n_warps.max(n_warps * (most - 1) + 1)..=n_warps * most).filter(|s| s.is_multiple_of(products))
                {
                    let Some(shape) = cut(work, warp_tiles, n_warps, k_warps, cluster, caps.shared as usize) else {
                        continue;
                    };
                    let busy = |scheduler: usize| -> usize {
                        let warps = (scheduler..n_warps * k_warps).step_by(SCHEDULERS);
                        let warp_tiles = |w: usize| if w / k_warps < shape.full() { most } else { most - 1 };
                        warps.map(|w| warp_tiles(w) * (share - w % k_warps).div_ceil(k_warps) * work.k_tile).sum()
                    };
                    let busiest = (0..SCHEDULERS).map(busy).max().unwrap_or(0);
                    let blocks =
                        work.problems.iter().map(|(n, p)| (n * p).div_ceil(warp_tiles)).sum::<usize>() * cluster;
                    // Few warps hide less latency, and phases of activations add barriers.
                    let few = if n_warps * k_warps < 8 { 1.25 } else { 1.0 };
                    let idle = few * if shape.buffers.contains(&2) { 1.1 } else { 1.0 };
                    let block = us.block
                        + us.cluster * (cluster - 1) as f64
                        + us.k_warp * (k_warps - 1) as f64
                        + us.warp * (n_warps * k_warps) as f64;
                    let tokens = (share * work.k_tile) as f64 * us.tokens;
                    let time = blocks.div_ceil(places) as f64 * (busiest as f64 * us.warp_tile * idle + tokens + block);
                    if best.as_ref().is_none_or(|(least, _)| time < *least) {
                        best = Some((time, shape));
                    }
                }
            }
        }
    }
    best.map(|(_, shape)| shape)
}

/// The shape whose phases of activations fit shared memory of `most` bytes beside the stages of weights.
fn cut(work: &Work, warp_tiles: usize, n_warps: usize, k_warps: usize, cluster: usize, most: usize) -> Option<Shape> {
    let rounds = work.k_blocks.div_ceil(work.k_tile).div_ceil(cluster).div_ceil(k_warps);
    let stages = n_warps * warp_tiles.div_ceil(n_warps) * k_warps * work.stage;
    let left = most.checked_sub(stages)?;
    // All activations at once, or phases that are double-buffered.
    let round = TILES.map(|t| k_warps * work.k_tile * t * TOKENS);
    let phase = round.map(|bytes| if rounds * bytes <= left { rounds } else { left / 2 / bytes });
    let buffers = phase.map(|p| if p == rounds { 1 } else { 2 });
    let bytes = |i: usize| round[i] * phase[i] * buffers[i];
    let sums = k_warps * TILES[1] * 8 * (warp_tiles * WARP_TILE + 4) * 4;
    let stages_at = bytes(0).max(bytes(1));
    let shared = (stages_at + stages).max(sums);
    (shared <= most && phase.iter().all(|&p| p > 0)).then_some(Shape {
        warp_tiles,
        n_warps,
        k_warps,
        cluster,
        phase,
        buffers,
        stages_at,
        shared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of 4 bits, with a scale for each 32.
    fn work(k_blocks: usize, units: usize, products: usize) -> Work {
        Work { k_blocks, k_tile: 2, stage: WARP_TILE * (128 + 16), problems: vec![(units, products)] }
    }

    /// Warp tiles, N warps, K warps and blocks of a cluster, as chosen for 132 SMs.
    fn chosen(k_blocks: usize, units: usize, products: usize) -> [usize; 4] {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() };
        let s = shape(&work(k_blocks, units, products), caps).unwrap();
        [s.warp_tiles, s.n_warps, s.k_warps, s.cluster]
    }

    #[test]
    fn shapes_are_those_that_were_fastest_where_they_were_measured() {
        // Llama-8B: gate and up, queries keys and values, output, down, head.
        assert_eq!(chosen(32, 896, 2), [28, 16, 1, 2]);
        assert_eq!(chosen(32, 384, 1), [6, 4, 2, 2]);
        assert_eq!(chosen(32, 256, 1), [4, 4, 2, 2]);
        assert_eq!(chosen(112, 256, 1), [18, 10, 1, 8]);
        assert_eq!(chosen(32, 8016, 1), [31, 16, 1, 2]);
    }

    #[test]
    fn narrow_weights_and_small_devices_have_a_shape() {
        let old = CudaCaps { sm: 80, sms: 40, shared: 99 << 10, ..CudaCaps::default() };
        for (k_blocks, units) in [(1, 1), (1, 3), (7, 36), (5, 2), (224, 1), (32, 8016)] {
            for caps in [old, CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() }] {
                for products in [1, 2] {
                    let s = shape(&work(k_blocks, units, products), caps).unwrap();
                    assert!(s.shared <= caps.shared as usize && s.phase.iter().all(|&p| p > 0), "{s:?}");
                    assert!(
                        s.n_warps * s.k_warps <= MOST_WARPS
                            && s.most() <= MOST_WARP_TILES
                            && s.warp_tiles.is_multiple_of(products),
                        "{s:?}"
                    );
                    assert!((1..=s.n_warps).contains(&s.full()) && (s.cluster == 1 || caps.sm >= 90), "{s:?}");
                }
            }
        }
    }
}
