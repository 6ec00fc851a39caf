//! Multi-row GEMV for wide outputs: the lanes of a row compute four rows of a weight at once, so that each activation they load
//! is multiplied by four weights.

use super::*;

/// Rows of a weight that the lanes of a row compute at once; `LEAST` is the number of output columns from which on this leaves
/// enough workgroups to fill the GPU.
const AT_ONCE: usize = 4;
const LEAST: usize = 2048;

impl Plan<'_> {
    /// Whether there are so many output columns that enough workgroups fill the GPU.
    pub(super) fn has_columns_for_four(&self) -> bool {
        self.site.outs.iter().map(|s| s.width).sum::<usize>() >= LEAST
    }

    /// The launch behind the prologue launch.
    pub(super) fn gemv_multi(&self, rounded: Option<Arg>) -> Launch {
        let caps = caps(self.site.target);
        let name = if rounded.is_some() { "int8" } else { "f32" };
        let mut w = self.begin(KernelId::new("matmul", "gemv_multi").variant(format!("{name}x4")), WG);
        w.number("ROWS", 8);
        w.line("alias Sums = array<vec4<f32>, ROWS>;");
        let mut w = w.reductions(&caps);
        if let Some(arg) = rounded {
            self.rounded.read(&mut w, arg);
        }
        let mut before = "    let n = g;";
        if self.has(Path::Floats) {
            before = self.floats_of_rows(&mut w);
        }
        self.weights(&mut w, |path| match path {
            Path::Quants => include_str!("gemv_multi_quants.wgsl").into(),
            Path::Floats => include_str!("gemv_multi_floats.wgsl").into(),
        });
        for (o, slice) in self.slices.iter().enumerate() {
            let (y, width, n) = (slice.y, slice.width(), slice.column());
            w.line(format!("fn out_{o}(m: u32, group: u32, lid: u32) {{"));
            w.line(format!("    let first = (group * (WG / LANES) + lid / LANES) * {AT_ONCE}u;"));
            let used = self.weights_of(slice);
            used.iter().for_each(|p| w.line(format!("    var sums{p} = dot4_w{p}(first, lid % LANES);")));
            w.line("    let r = lid % LANES;\n    let n = first + r;");
            for t in 0..8 {
                w.line(format!("    if {t}u < rows() {{\n        let t = {t}u;"));
                used.iter().for_each(|p| w.line(format!("        let four{p} = lanes_sum4(sums{p}[{t}], lid);")));
                w.line(format!("        if r < {AT_ONCE}u && n < {width} {{"));
                used.iter().for_each(|p| w.line(format!("            let p{p} = four{p}[r];")));
                w.line(format!("            y{y}[t * Y{y}_WIDTH + {n}] = {};\n        }}\n    }}", self.value(slice)));
            }
            w.line("}");
        }
        let grid = self.main(&mut w, before, AT_ONCE as u64 * u64::from(WG / row_lanes(&caps)), "0u");
        w.launch(grid.into(), self.cost(rounded, None))
    }
}
