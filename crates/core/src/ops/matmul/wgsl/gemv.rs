//! GEMV of one row of f32 activations, for adapters with subgroups. LANES_PER_ROW lanes compute some rows of a weight at once,
//! with all their loads in flight together. The norm's sum of squares is computed in the same pass, and its factor multiplies
//! the sums at the end, so that no load of a weight waits for the norm.

use super::*;

impl Plan<'_> {
    /// The launch; none without subgroups.
    pub(super) fn gemv_floats(&self) -> Option<Launch> {
        let caps = caps(self.site.target);
        let lanes = lanes(&caps)?;
        let products = self.slices.iter().map(|p| self.weights_of(p).len()).max().unwrap_or(1).max(1);
        let tune::GemvLanes { lanes_per_row, unroll, turns, rows } = tune::gemv_lanes(self, products, lanes);
        let workgroup = tune::of(&caps).workgroup;
        let id = KernelId::new("matmul", "gemv").variant("f32").tuned("workgroup", workgroup);
        let id = id.tuned("lanes_per_row", lanes_per_row).tuned("unroll", unroll).tuned("rows", rows);
        let mut w = self.begin(id, workgroup);
        w.number("LANES_PER_ROW", lanes_per_row as usize);
        let mut w = w.reductions(&caps);
        w.number("PARTIALS", (lanes_per_row / lanes) as usize);
        w.line(format!("var<workgroup> row_partials: array<f32, {}u * (WG / LANES)>;", rows * products + 1));
        w.number("AT_ONCE", rows);
        w.number("UNROLL", unroll);
        w.number("TURNS", turns);
        w.flag("NORM", self.op.norm.is_some());
        w.float("EPS", self.op.norm.unwrap_or(0.0));
        eights(&mut w, "x", Arg::In(0), DType::F32, self.k);
        if self.op.norm.is_some() {
            eights(&mut w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        }
        let normed = if self.op.norm.is_some() { "times(x, norm_eight(0u, i))" } else { "x" };
        w.function("normed(x: Eight, i: u32) -> Eight", normed);
        self.weights(&mut w, |_| "");
        let grid = self.outputs(&mut w, |_| u64::from(workgroup / lanes_per_row) * rows as u64);
        for (o, slice) in self.slices.iter().enumerate() {
            // Places of the partial sums in workgroup memory.
            let used = self.weights_of(slice);
            used.iter().enumerate().for_each(|(i, p)| w.number(&format!("s{o}_w{p}_AT"), i * rows));
            w.number(&format!("s{o}_SUMS"), used.len() * rows);
        }
        w.file(&self.for_slices(include_str!("gemv_lanes.wgsl"), |_| vec![("r", rows), ("u", unroll)]));
        Some(w.launch(grid.into(), self.cost(None, None)))
    }
}
