//! Attention of many rows through cooperative matrices. The code generated here declares the cooperative matrices and unrolls
//! their loads, products and stores; `prefill_mma.wgsl` is the rest of the kernel.

use super::*;
use tune::{GAP, GAP_F32};

impl tune::PrefillMma {
    /// Number of workgroups, as if every sequence ended in a partial tile.
    pub(super) fn grid(&self, heads: usize) -> Expr {
        (Expr::CeilDiv(Box::new(Expr::T), self.rows() as u64) + Expr::S) * heads
    }

    /// Adds the kernel's WGSL to `w`.
    pub(super) fn text(&self, w: &mut Wgsl, dim: usize) {
        let (side, rows, keys) = (self.side, self.rows(), self.keys);
        w.enable("f16");
        w.enable("wgpu_cooperative_matrix");
        for (name, scalar, role) in [("MatA", "f16", "A"), ("MatB", "f16", "B"), ("MatC", "f32", "C")] {
            w.line(format!("alias {name} = coop_mat{side}x{side}<{scalar}, {role}>;"));
        }
        w.number("ROWS", rows);
        w.number("SUBGROUPS", self.subgroups);
        w.number("KEYS", keys);
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
        let (at_row, at_weight, at_score) = (dim + GAP, keys + GAP, keys + GAP_F32);
        w.number("AT_ROW", at_row);
        w.number("AT_WEIGHT", at_weight);
        w.number("AT_SCORE", at_score);
        memory(w, "tile", "f16", rows.max(2 * keys) * at_row);
        memory(w, "weights", "f16", 2 * rows * at_weight);
        memory(w, "scores", "f32", rows * at_score);
        w.number("SIDE", side);
        w.number("UNIT", unit);
        w.number("CHUNKS", dim.div_ceil(keys));
        w.file(include_str!("rotated.wgsl"));
        // Matrices along a head and along the keys, and loads of each thread.
        let counts = [("j", keys / side), ("d", dim / side), ("i", (keys * dim / 8).div_ceil(self.threads()))];
        let text = counts.iter().fold(include_str!("prefill_mma.wgsl").to_string(), |text, (what, count)| {
            each(&text, what, &(0..*count).collect::<Vec<_>>(), |_, text| text)
        });
        w.file(&text);
    }
}
