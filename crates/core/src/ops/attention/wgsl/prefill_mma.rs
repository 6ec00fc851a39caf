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
        let stride = |n: usize| format!("{}u", n / unit);
        let place = |row: String, at: usize, column: usize| format!("(({row}) * {at}u + {column}u) / {unit}u");
        let own = format!("part * {side}u");
        // Loads the upper or lower f16 values of the queries to registers.
        for half in ["high", "low"] {
            for d in (0..dim).step_by(side) {
                w.line(format!("var<private> q_{half}_{d}: MatA;"));
            }
            w.line(format!("fn take_{half}() {{"));
            for d in (0..dim).step_by(side) {
                let from = place(own.clone(), at_row, d);
                w.line(format!("    q_{half}_{d} = coopLoadT<MatA>(&tile[{from}], {});", stride(at_row)));
            }
            w.line("}");
        }
        // Scores of this subgroup's rows with the staged keys.
        w.line("fn make_scores() {");
        for j in (0..KEYS).step_by(side) {
            w.line(format!("    var s_{j}: MatC;"));
            for d in (0..dim).step_by(side) {
                let from = place(format!("{j}u"), at_row, d);
                w.line(format!("    let k_{j}_{d} = coopLoad<MatB>(&tile[{from}], {});", stride(at_row)));
                w.line(format!("    s_{j} = coopMultiplyAdd(q_low_{d}, k_{j}_{d}, s_{j});"));
                w.line(format!("    s_{j} = coopMultiplyAdd(q_high_{d}, k_{j}_{d}, s_{j});"));
            }
            let to = place(own.clone(), at_score, j);
            w.line(format!("    coopStoreT(s_{j}, &scores[{to}], {});", stride(at_score)));
        }
        w.line("}");
        // Product of the weights with the staged values.
        for d in (0..dim).step_by(side) {
            w.line(format!("var<private> mix_{d}: MatC;"));
        }
        w.line("fn mix_values() {");
        for j in (0..KEYS).step_by(side) {
            for (half, first) in [("high", 0), ("low", rows)] {
                let from = place(format!("{own} + {first}u"), at_weight, j);
                w.line(format!("    let w_{half}_{j} = coopLoadT<MatA>(&weights[{from}], {});", stride(at_weight)));
            }
            for d in (0..dim).step_by(side) {
                let from = place(format!("{}u", KEYS + j), at_row, d);
                w.line(format!("    let v_{j}_{d} = coopLoadT<MatB>(&tile[{from}], {});", stride(at_row)));
                w.line(format!("    mix_{d} = coopMultiplyAdd(w_low_{j}, v_{j}_{d}, mix_{d});"));
                w.line(format!("    mix_{d} = coopMultiplyAdd(w_high_{j}, v_{j}_{d}, mix_{d});"));
            }
        }
        w.line("}");
        // Stores KEYS columns of the output, from `c * KEYS`, over the scores.
        w.line("fn put_mix(c: u32) {");
        for d in (0..dim).step_by(side) {
            let to = place(own.clone(), at_score, d % KEYS);
            w.line(format!(
                "    if c == {}u {{ coopStoreT(mix_{d}, &scores[{to}], {}); }}",
                d / KEYS,
                stride(at_score)
            ));
        }
        w.line("}");
        w.number("CHUNKS", dim.div_ceil(KEYS));
        // Registers in which a thread holds its share of the next tile's keys and values while the present tile is multiplied.
        let turns = (KEYS * dim / 8).div_ceil(self.threads());
        let place = |turn: usize| format!("min(lid + {}u, {}u)", turn * self.threads(), KEYS * dim / 8 - 1);
        for (what, cache, first) in [("keys", "kc", 0), ("values", "vc", KEYS)] {
            (0..turns).for_each(|i| w.line(format!("var<private> {what}_{i}: vec4<u32>;")));
            w.line(format!("fn fetch_{what}(seq: u32, kv: u32, from_: u32, end: u32, lid: u32) {{"));
            for i in 0..turns {
                w.line(format!("    {what}_{i} = {cache}[eight_at(seq, kv, from_, end, {})];", place(i)));
            }
            w.line(format!("}}\nfn put_{what}(lid: u32) {{"));
            (0..turns).for_each(|i| w.line(format!("    put_eight({first}u, {}, {what}_{i});", place(i))));
            w.line("}");
        }
        w.line(include_str!("rotated.wgsl"));
        w.line(include_str!("prefill_mma.wgsl"));
    }
}
