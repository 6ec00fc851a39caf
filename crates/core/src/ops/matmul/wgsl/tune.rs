//! Workgroup sizes, tile sizes and thresholds of the WGSL matmul kernels, by what an adapter can do. They are the only place
//! where such a number is chosen; the kernels' builders take what stands here, and it becomes part of the kernel's id.
//!
//! A stored profile never changes what is chosen here: two machines with one kind of adapter make the same plan.

use super::*;

/// Padding elements behind each staged row of `gemm_f16_mma`, so that adjacent rows begin in different banks.
pub(super) const GAP: usize = 8;

/// Numbers for adapters of one kind. "Not measured" marks those that no measurement chose.
pub(super) struct Tuning {
    /// The least threads that reduce by subgroup shuffles ([`lanes`]) to which the numbers are applied; 0 includes adapters
    /// without usable subgroups.
    lanes: u32,
    /// Threads of a workgroup of every kernel without tiles, but for long rows. Not measured.
    pub(super) workgroup: u32,
    /// `gemv` that stages its row in each workgroup: the fewest elements of a long row, and threads of a workgroup that stages
    /// one. Measured: Llama-8B's down (14,336 elements) takes 15 µs on an H200; with 128 threads it took 54.
    long: (usize, u32),
    /// `gemv` that stages a long row: the output columns from which lanes compute two rows of the weight, not one, one after
    /// the other. Not measured.
    long_turns: usize,
    /// `gemv` that stages a row which is not long: the output columns from which lanes compute two and four rows of the weight
    /// one after the other. Fewer workgroups then stage the row. Not measured.
    turns: [usize; 2],
    /// `gemv_lanes`: vectors of eight elements of a row that a lane has at most before several subgroups share the row. Not
    /// measured.
    lanes_vectors: u32,
    /// `gemv_lanes`: the most vectors of a row that a lane has in flight all at once, and those in flight where there are
    /// more. Not measured.
    lanes_unroll: (usize, usize),
    /// `gemv_lanes`: output columns from which lanes compute two and four rows of weights at once: only then do the workgroups
    /// that are left fill a large GPU. Not measured.
    lanes_rows: [usize; 2],
    /// `gemv_multi` of four rows of a weight at once: the fewest output columns. Fewer leave too few workgroups to fill a GPU.
    /// Not measured.
    multi_columns: usize,
    /// `gemm_f16_mma` with more than 64 rows: tiles, the fastest first. Measured on an H200 through Vulkan, 2048 rows:
    /// Qwen2.5-0.5B's down reaches 105 TFLOP/s with the first tile and 65 with the second; `gemm_f16_mma.wgsl` has the rest.
    f16_mma: [F16Tile; 3],
    /// `gemm_f16_mma` with up to 64 rows. Not measured.
    f16_mma_few: F16Tile,
}

/// A tile of `gemm_f16_mma` in subgroups, before it is fitted to a site.
#[derive(Clone, Copy)]
struct F16Tile {
    /// Subgroups along the rows (tokens) and along the columns of a tile.
    subgroups: (usize, usize),
    /// Rows of a subgroup's sub-tile, and its columns, those of all products together.
    sub_tile: (usize, usize),
    /// Elements along k of a k-tile; a row must be a multiple of it.
    depth: usize,
}

/// Chosen for one NVIDIA H200 through Vulkan, 2026-11-29 and 2026-11-30, where a field names a measurement.
const ANY: Tuning = Tuning {
    lanes: 0,
    workgroup: 128,
    long: (8192, 512),
    long_turns: 16384,
    turns: [2048, 8192],
    lanes_vectors: 4,
    lanes_unroll: (6, 4),
    lanes_rows: [1 << 14, 1 << 15],
    multi_columns: 2048,
    f16_mma: [
        F16Tile { subgroups: (2, 4), sub_tile: (64, 32), depth: 32 },
        F16Tile { subgroups: (2, 2), sub_tile: (32, 32), depth: 64 },
        F16Tile { subgroups: (2, 2), sub_tile: (32, 32), depth: 32 },
    ],
    f16_mma_few: F16Tile { subgroups: (2, 2), sub_tile: (32, 16), depth: 32 },
};

/// The kinds of adapters that have numbers of their own, those with the most lanes first.
const DEVICES: [Tuning; 1] = [ANY];

/// The numbers for an adapter.
pub(super) fn of(caps: &WgslCaps) -> &'static Tuning {
    let lanes = lanes(caps).unwrap_or(0);
    DEVICES.iter().find(|t| lanes >= t.lanes).unwrap_or(&ANY)
}

/// `gemm_f32_simt`: threads of a workgroup, 16 x 16 of 4 x 4 elements each, and rows and columns of its tile. The kernel's file
/// is written for these. Not measured.
pub(super) const F32_SIMT: (u32, u64) = (256, 64);

/// `gemv_multi` of four rows of a weight at once: rows of a weight, and rows of activations. The kernel's file is written for
/// these. Not measured.
pub(super) const MULTI: (usize, usize) = (4, 8);

/// How many of two thresholds `n` reaches, as a power of two: 1, 2 or 4.
fn doubled(n: usize, thresholds: [usize; 2]) -> usize {
    1 << thresholds.iter().filter(|&&least| n >= least).count()
}

/// Launch shape of `gemv`, and of `gemv_multi` of one row of a weight at a time.
pub(super) struct Gemv {
    /// Threads of a workgroup.
    pub(super) workgroup: u32,
    /// Rows of a weight that the lanes of a row compute one after the other. More of them make fewer workgroups recompute the
    /// prologue, but need enough rows in all to fill the GPU.
    pub(super) turns: usize,
}

/// The launch shape of `gemv`; `staged`: every workgroup stages the row of activations for itself. Where that row is long,
/// workgroups have more threads and so more rows of the weight, and the row is staged fewer times.
pub(super) fn gemv(p: &Plan, staged: bool) -> Gemv {
    let caps = caps(p.site.target);
    let Tuning { workgroup, long: (long, wide), long_turns, turns, .. } = *of(&caps);
    let columns = p.columns();
    if !staged {
        return Gemv { workgroup, turns: 1 };
    }
    if p.k >= long && caps.invocations >= wide {
        return Gemv { workgroup: wide, turns: 1 + (columns >= long_turns) as usize };
    }
    Gemv { workgroup, turns: doubled(columns, turns) }
}

/// Launch shape of `gemv_lanes`.
pub(super) struct GemvLanes {
    /// Lanes that share a row.
    pub(super) lanes_per_row: u32,
    /// Vectors of eight elements of a row that a lane has in flight.
    pub(super) unroll: usize,
    /// Iterations, of `unroll` vectors each, that a row takes.
    pub(super) turns: usize,
    /// Rows of each weight that the lanes of a row compute at once.
    pub(super) rows: usize,
}

/// The launch shape of `gemv_lanes` where an output has at most `products` products; `lanes` is what reduces by subgroup
/// shuffles.
pub(super) fn gemv_lanes(p: &Plan, products: usize, lanes: u32) -> GemvLanes {
    let tuning = of(&caps(p.site.target));
    let vectors = (p.k / 8) as u32;
    let mut lanes_per_row = lanes;
    while vectors.div_ceil(lanes_per_row) > tuning.lanes_vectors && lanes_per_row < tuning.workgroup {
        lanes_per_row *= 2;
    }
    let each = vectors.div_ceil(lanes_per_row) as usize;
    let (most, unroll) = tuning.lanes_unroll;
    let unroll = if each <= most { each } else { unroll };
    let rows = (doubled(p.columns(), tuning.lanes_rows) / products).max(1);
    GemvLanes { lanes_per_row, unroll, turns: each.div_ceil(unroll), rows }
}

/// Whether there are so many output columns that `gemv_multi` of four rows of a weight has enough workgroups to fill a GPU.
pub(super) fn has_columns_for_four(p: &Plan) -> bool {
    p.columns() >= of(&caps(p.site.target)).multi_columns
}

/// Launch shape of `gemm_f16_mma`: a tile, fitted to a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct F16Mma {
    /// Rows and columns of a cooperative matrix.
    pub(super) side: usize,
    /// Subgroups along the rows (tokens) and along the columns of a tile.
    pub(super) down: usize,
    pub(super) across: usize,
    /// Rows of a subgroup's sub-tile, and its columns, those of all products together.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Elements along k of a k-tile.
    pub(super) depth: usize,
    /// Threads of a subgroup.
    pub(super) lanes: usize,
    /// Whether workgroup memory is declared as `vec4<f16>`; Metal needs single `f16` elements to load matrices from.
    pub(super) is_wide: bool,
}

/// The first tile of `gemm_f16_mma` that fits the adapter, where an output has at most `products` products; none if the adapter
/// has no cooperative matrices or too little workgroup memory.
pub(super) fn f16_mma(p: &Plan, products: usize) -> Option<F16Mma> {
    let caps = &caps(p.site.target);
    let (_, most) = caps.subgroups.filter(|_| caps.coop > 0 && caps.f16)?;
    let side = caps.coop as usize;
    // Apple's adapters report a range of subgroup sizes; those with cooperative matrices use 32.
    let lanes = if side == 8 { most.min(32) } else { most } as usize;
    let tuning = of(caps);
    let tiles = if p.site.bucket == RowBucket::Large { &tuning.f16_mma[..] } else { &[] };
    let fitted = |tile: &F16Tile| F16Mma {
        side,
        down: tile.subgroups.0,
        across: tile.subgroups.1,
        rows: tile.sub_tile.0,
        columns: tile.sub_tile.1.max(products * side),
        depth: tile.depth,
        lanes,
        is_wide: side > 8,
    };
    let fits = |shape: &F16Mma| {
        shape.bytes(products) <= caps.workgroup_bytes as usize && shape.threads() <= caps.invocations as usize
    };
    let all = tiles.iter().chain([&tuning.f16_mma_few]).filter(|tile| p.k.is_multiple_of(tile.depth));
    all.map(fitted).find(fits)
}

impl F16Mma {
    pub(super) fn threads(&self) -> usize {
        self.down * self.across * self.lanes
    }

    /// Rows of a tile.
    pub(super) fn tile_rows(&self) -> usize {
        self.down * self.rows
    }

    /// Columns of one product in a tile; `part`: in a subgroup's sub-tile.
    pub(super) fn tile_columns(&self, products: usize) -> usize {
        self.across * self.part(products)
    }

    pub(super) fn part(&self, products: usize) -> usize {
        (self.columns / products / self.side).max(1) * self.side
    }

    /// Bytes of workgroup memory.
    fn bytes(&self, products: usize) -> usize {
        let staged = self.tile_rows() + products * self.tile_columns(products);
        2 * staged * (self.depth + GAP) + 4 * self.strip(products) * self.down * self.across
    }

    /// Elements of a strip: one row of matrices of a subgroup's sub-tile, as many rows high as a matrix, of all products.
    pub(super) fn strip(&self, products: usize) -> usize {
        products * self.part(products) * self.side
    }
}
