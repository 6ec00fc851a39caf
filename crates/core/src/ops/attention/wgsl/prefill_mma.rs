//! Attention of many rows through cooperative matrices. The code generated here declares the cooperative matrices and unrolls
//! their loads, products and stores; `prefill_mma.wgsl` is the rest of the kernel.

use super::*;

/// Keys of a tile.
const KEYS: usize = 32;
/// Subgroups of a workgroup; each has as many rows as a cooperative matrix.
const SUBGROUPS: usize = 4;
/// Padding elements after each row in workgroup memory, against bank conflicts: of f16 rows, and of f32 rows.
const GAP: usize = 8;
const GAP_F32: usize = 4;

/// How a workgroup's tile is divided into cooperative matrices.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Side of a cooperative matrix, and threads of a subgroup.
    side: usize,
    lanes: usize,
    /// Matrices are loaded from arrays of vec4 in workgroup memory; Metal needs arrays of scalars.
    is_wide: bool,
}

impl Cut {
    /// The division for a site. `None` if the adapter has no cooperative matrices, rows are few, the caches are not in f16,
    /// heads are not a multiple of 16, or heads are so large that the registers of a subgroup do not suffice.
    pub(super) fn new(op: &Attention, site: &OpSite) -> Option<Cut> {
        let caps = caps(site.target);
        let (_, most) = caps.subgroups?;
        let side = caps.coop as usize;
        let lanes = if side == 8 { most.min(32) } else { most } as usize;
        let cut = Cut { side, lanes, is_wide: side > 8 };
        let bytes = cut.bytes(op.dim) + 4 * op.dim + 256;
        let fits = bytes <= caps.workgroup_bytes as usize && cut.threads() <= caps.invocations as usize;
        fits.then_some(cut)
    }

    pub(super) fn threads(&self) -> usize {
        SUBGROUPS * self.lanes
    }

    fn rows(&self) -> usize {
        SUBGROUPS * self.side
    }

    /// Bytes of workgroup memory: keys and values (queries before them), scores, weights as two f16 values each, and two floats
    /// for each thread.
    fn bytes(&self, dim: usize) -> usize {
        let staged = self.rows().max(2 * KEYS) * (dim + GAP) * 2;
        let weights = 2 * self.rows() * (KEYS + GAP) * 2;
        staged + self.rows() * (KEYS + GAP_F32) * 4 + weights + 8 * self.threads()
    }

    /// Number of workgroups, as if every sequence ended in a partial tile.
    pub(super) fn grid(&self, heads: usize) -> Expr {
        (Expr::CeilDiv(Box::new(Expr::T), self.rows() as u64) + Expr::S) * heads
    }

    /// Adds the kernel's WGSL to `w`.
    pub(super) fn text(&self, w: &mut Wgsl, dim: usize) {
        let (side, rows) = (self.side, self.rows());
        w.enable("f16");
        w.enable("wgpu_cooperative_matrix");
        for (name, scalar, role) in [("MatA", "f16", "A"), ("MatB", "f16", "B"), ("MatC", "f32", "C")] {
            w.line(format!("alias {name} = coop_mat{side}x{side}<{scalar}, {role}>;"));
        }
        w.number("ROWS", rows);
        w.number("SUBGROUPS", SUBGROUPS);
        w.number("KEYS", KEYS);
        let unit = if self.is_wide { 4 } else { 1 };
        let memory = |w: &mut Wgsl, name: &str, scalar: &str, elements: usize| {
            let of = if self.is_wide { format!("vec4<{scalar}>") } else { scalar.into() };
            w.line(format!("var<workgroup> {name}: array<{of}, {}>;", elements / unit));
            // A store and a load of four elements from element `at`.
            if self.is_wide {
                w.line(format!("fn put_{name}(at: u32, x: vec4<{scalar}>) {{ {name}[at / 4u] = x; }}"));
                w.line(format!("fn {name}_four(at: u32) -> vec4<{scalar}> {{ return {name}[at / 4u]; }}"));
                return;
            }
            let each = |text: &dyn Fn(usize) -> String, by: &str| (0..4).map(text).collect::<Vec<_>>().join(by);
            let puts = each(&|i| format!("{name}[at + {i}u] = x[{i}];"), " ");
            w.line(format!("fn put_{name}(at: u32, x: vec4<{scalar}>) {{ {puts} }}"));
            let fours = each(&|i| format!("{name}[at + {i}u]"), ", ");
            w.line(format!("fn {name}_four(at: u32) -> vec4<{scalar}> {{ return vec4<{scalar}>({fours}); }}"));
        };
        let (at_row, at_weight, at_score) = (dim + GAP, KEYS + GAP, KEYS + GAP_F32);
        w.number("AT_ROW", at_row);
        w.number("AT_WEIGHT", at_weight);
        w.number("AT_SCORE", at_score);
        memory(w, "tile", "f16", rows.max(2 * KEYS) * at_row);
        memory(w, "weights", "f16", 2 * rows * at_weight);
        memory(w, "scores", "f32", rows * at_score);
        w.number("SIDE", side);
        w.number("UNIT", unit);
        w.number("CHUNKS", dim.div_ceil(KEYS));
        w.file(include_str!("rotated.wgsl"));
        // Matrices along a head and along the keys, and loads of each thread.
        let counts = [("j", KEYS / side), ("d", dim / side), ("i", (KEYS * dim / 8).div_ceil(self.threads()))];
        let text = counts.iter().fold(include_str!("prefill_mma.wgsl").to_string(), |text, (what, count)| {
            each(&text, what, &(0..*count).collect::<Vec<_>>(), |_, text| text)
        });
        w.file(&text);
    }
}
