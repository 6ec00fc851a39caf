//! Multi-row GEMV for wide outputs: the lanes of a row compute four rows of a weight at once, so that each activation they load
//! is multiplied by four weights.

use super::*;

impl Plan<'_> {
    /// The launch behind the prologue launch.
    pub(super) fn gemv_multi(&self, rounded: Option<Arg>) -> Launch {
        let caps = caps(self.site.target);
        let name = if rounded.is_some() { "int8" } else { "f32" };
        let (workgroup, (at_once, tokens)) = (tune::of(&caps).workgroup, tune::MULTI);
        let id = KernelId::new("matmul", "gemv_multi").variant(format!("{name}x{at_once}"));
        let mut w =
            self.begin(id.tuned("workgroup", workgroup).tuned("tokens", tokens).tuned("rows", at_once), workgroup);
        w.number("ROWS", tokens);
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
        let grid = self.outputs(&mut w, |_| at_once as u64 * u64::from(workgroup / row_lanes(&caps)));
        w.file(&self.for_slices(include_str!("gemv_multi.wgsl"), |_| vec![("t", tokens)]));
        w.launch(grid.into(), self.cost(rounded, None))
    }
}
