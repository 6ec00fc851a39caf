//! Workgroup sizes, tile sizes, splits and thresholds of the WGSL attention kernels, by what an adapter can do. They are the
//! only place where such a number is chosen; the kernels' builders take what stands here, and it becomes part of the kernel's
//! id.

use super::*;

/// Padding elements after each row of `prefill_mma` in workgroup memory, against bank conflicts: of f16 rows, and of f32 rows.
pub(super) const GAP: usize = 8;
pub(super) const GAP_F32: usize = 4;

/// Numbers for adapters of one kind. "Not measured" marks those that no measurement chose.
struct Tuning {
    /// The least threads that reduce by subgroup shuffles ([`lanes`]) to which the numbers are applied; 0 includes adapters
    /// without usable subgroups.
    lanes: u32,
    /// `decode_no_subgroups`: threads of a workgroup, each with one key of a tile. Not measured.
    no_subgroups: u32,
    /// `decode_split_kv`: threads of a workgroup, the preferred first. Not measured.
    workgroups: [u32; 3],
    /// `decode_split_kv`: vectors of eight query elements, over all heads of a set, that a lane keeps in registers.
    vectors: usize,
    /// `decode_split_kv`: KV splits of all sets of query heads together, and bounds of those of one set. Not measured.
    splits: (usize, [usize; 2]),
    /// `prefill_mma`: keys of a tile, and subgroups of a workgroup; each has as many rows as a cooperative matrix. Not measured
    /// against others; `prefill_mma.wgsl` has the times with these.
    prefill_mma: (usize, usize),
}

/// Chosen for one NVIDIA H200 through Vulkan, 2026-11-29 and 2026-11-30, where a field names a measurement.
const LARGE: Tuning = Tuning {
    lanes: 32,
    no_subgroups: 128,
    workgroups: [256, 128, 64],
    // With seven vectors an H200 runs out of registers: twice as slow as one head alone.
    vectors: 4,
    splits: (128, [8, 64]),
    prefill_mma: (32, 4),
};

/// Small GPUs, and CPUs that emulate one. What differs from [`LARGE`] was not measured.
const SMALL: Tuning = Tuning { lanes: 0, vectors: 2, ..LARGE };

/// The kinds of adapters that have numbers of their own, those with the most lanes first.
const DEVICES: [Tuning; 2] = [LARGE, SMALL];

/// The numbers for an adapter.
fn of(caps: &WgslCaps) -> &'static Tuning {
    let lanes = lanes(caps).unwrap_or(0);
    DEVICES.iter().find(|t| lanes >= t.lanes).unwrap_or(&SMALL)
}

/// Threads of a workgroup of `decode_no_subgroups`.
pub(super) fn no_subgroups(caps: &WgslCaps) -> u32 {
    of(caps).no_subgroups
}

/// Launch shape of `decode_split_kv`.
#[derive(Clone, Copy)]
pub(super) struct SplitKv {
    /// Threads of a workgroup.
    pub(super) workgroup: u32,
    /// Lanes that share a key.
    pub(super) lanes_per_key: u32,
    /// KV splits of one set of query heads.
    pub(super) splits: usize,
    /// Query heads of a set.
    pub(super) together: usize,
}

/// The launch shape of `decode_split_kv`: as many threads and heads as fit beside what else is in workgroup memory; none if no
/// shape fits.
pub(super) fn split_kv(s: &AttentionSite) -> Option<SplitKv> {
    let (op, site, dim, caps) = (s.op, s.site, s.op.dim, &caps(s.site.target));
    let lanes = lanes(caps)?;
    let Tuning { workgroups, vectors, splits: (all, [least, most_splits]), .. } = *of(caps);
    // The most lanes, a power of two, among which a key's vectors of eight elements divide evenly.
    let lanes_per_key = (1 << (dim / 8).trailing_zeros()).min(lanes);
    let group = op.heads / op.kv_heads;
    let most = vectors * lanes_per_key as usize * 8 / dim;
    for most in (1..=group.min(most.max(1))).rev() {
        // All sets have the same size and may overlap: seven heads become two sets of four that share one head.
        let (sets, together) = (group.div_ceil(most), group.div_ceil(group.div_ceil(most)));
        let groups = op.kv_heads * sets;
        // Larger row buckets have enough workgroups without splits; partials must fit the zeroed workspace.
        let rows = if site.bucket == RowBucket::R1 { 1 } else { 8 };
        let mut splits = (all / groups).next_power_of_two().clamp(least, most_splits);
        if !site.bucket.is_small() || rows * groups * together * (1 + splits * (dim + 2)) > ZEROED_WORKSPACE_WORDS {
            splits = 1;
        }
        let parts = |w: u32| together * (4 * dim + (w / lanes) as usize * (4 * dim + 8) + 8 * splits + 4);
        let sizes = workgroups.into_iter().filter(|w| *w <= caps.invocations);
        // Fewer threads are preferred to fewer heads, as long as at least two subgroups are left.
        if let Some(workgroup) = sizes.filter(|w| w / lanes >= 2).find(|&w| s.fits(parts(w))) {
            return Some(SplitKv { workgroup, lanes_per_key, splits, together });
        }
    }
    None
}

/// Launch shape of `prefill_mma`: how a workgroup's tile is divided into cooperative matrices.
#[derive(Clone, Copy)]
pub(super) struct PrefillMma {
    /// Side of a cooperative matrix, and threads of a subgroup.
    pub(super) side: usize,
    lanes: usize,
    /// Keys of a tile, and subgroups of a workgroup.
    pub(super) keys: usize,
    pub(super) subgroups: usize,
    /// Matrices are loaded from arrays of vec4 in workgroup memory; Metal needs arrays of scalars.
    pub(super) is_wide: bool,
}

/// The launch shape of `prefill_mma`; none if the adapter has no subgroups, or if heads of `dim` elements do not fit workgroup
/// memory.
pub(super) fn prefill_mma(dim: usize, caps: &WgslCaps) -> Option<PrefillMma> {
    let (_, most) = caps.subgroups?;
    let side = caps.coop as usize;
    let lanes = if side == 8 { most.min(32) } else { most } as usize;
    let (keys, subgroups) = of(caps).prefill_mma;
    let shape = PrefillMma { side, lanes, keys, subgroups, is_wide: side > 8 };
    let bytes = shape.bytes(dim) + 4 * dim + 256;
    let fits = bytes <= caps.workgroup_bytes as usize && shape.threads() <= caps.invocations as usize;
    fits.then_some(shape)
}

impl PrefillMma {
    pub(super) fn threads(&self) -> usize {
        self.subgroups * self.lanes
    }

    /// Query rows of a tile.
    pub(super) fn rows(&self) -> usize {
        self.subgroups * self.side
    }

    /// Bytes of workgroup memory: keys and values (queries before them), scores, weights as two f16 values each, and two floats
    /// for each thread.
    fn bytes(&self, dim: usize) -> usize {
        let staged = self.rows().max(2 * self.keys) * (dim + GAP) * 2;
        let weights = 2 * self.rows() * (self.keys + GAP) * 2;
        staged + self.rows() * (self.keys + GAP_F32) * 4 + weights + 8 * self.threads()
    }
}
