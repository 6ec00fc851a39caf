//! Multi-row GEMV for wide outputs: the lanes of a row compute four rows of a weight at once, so that each activation they load
//! is multiplied by four weights.

use super::*;

/// Rows of a weight that the lanes of a row compute at once; `LEAST` is the number of output columns from which on this leaves
/// enough workgroups to fill the GPU.
const AT_ONCE: u64 = 4;
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
        let prologue = if self.has(Path::Floats) { self.floats_of_rows(&mut w) } else { "" };
        w.line(format!("fn prologue(lid: u32) {{ {prologue} }}"));
        self.weights(&mut w, |path| match path {
            Path::Quants => include_str!("gemv_multi_quants.wgsl"),
            Path::Floats => include_str!("gemv_multi_floats.wgsl"),
        });
        let grid = self.outputs(&mut w, |_| AT_ONCE * u64::from(WG / row_lanes(&caps)));
        w.file(&self.for_slices(include_str!("gemv_multi.wgsl"), |_| vec![("t", 8)]));
        w.launch(grid.into(), self.cost(rounded, None))
    }
}
