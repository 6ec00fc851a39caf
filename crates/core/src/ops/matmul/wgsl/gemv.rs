//! GEMV of one row of f32 activations, for adapters with subgroups. LANES_PER_ROW lanes compute some rows of a weight at once,
//! with all their loads in flight together. The norm's sum of squares is computed in the same pass, and its factor multiplies
//! the sums at the end, so that no load of a weight waits for the norm.

use super::*;

/// How the work is distributed over lanes.
struct Cut {
    /// Lanes that share a row.
    lanes_per_row: u32,
    /// Vectors of eight elements of a row that a lane has in flight.
    unroll: usize,
    /// Iterations, of `unroll` vectors each, that a row takes.
    turns: usize,
    /// Rows of each weight that the lanes of a row compute at once.
    rows: usize,
}

impl Cut {
    /// The distribution for `outputs` columns over rows of `k` elements; an output has at most `products` products.
    fn new(k: usize, outputs: usize, products: usize, lanes: u32) -> Cut {
        let eights = (k / 8) as u32;
        let mut lanes_per_row = lanes;
        while eights.div_ceil(lanes_per_row) > 4 && lanes_per_row < WG {
            lanes_per_row *= 2;
        }
        let each = eights.div_ceil(lanes_per_row) as usize;
        let unroll = if each <= 6 { each } else { 4 };
        // Several rows at once only where the remaining parallelism still fills a large GPU.
        let rows = [1, 2, 4][(outputs >= 1 << 14) as usize + (outputs >= 1 << 15) as usize];
        Cut { lanes_per_row, unroll, turns: each.div_ceil(unroll), rows: (rows / products).max(1) }
    }
}

impl Plan<'_> {
    /// The launch; none without subgroups.
    pub(super) fn gemv_floats(&self) -> Option<Launch> {
        let caps = caps(self.site.target);
        let lanes = lanes(&caps)?;
        let outputs = self.site.outs.iter().map(|s| s.width).sum();
        let products = self.slices.iter().map(|p| self.weights_of(p).len()).max().unwrap_or(1).max(1);
        let cut = Cut::new(self.k, outputs, products, lanes);
        let mut w = self.begin("matmul/gemv.f32", WG);
        w.number("LANES_PER_ROW", cut.lanes_per_row as usize);
        let mut w = w.reductions(&caps);
        w.number("PARTIALS", (cut.lanes_per_row / lanes) as usize);
        w.line(format!("var<workgroup> row_partials: array<f32, {}u * (WG / LANES)>;", cut.rows * products + 1));
        w.number("AT_ONCE", cut.rows);
        w.number("UNROLL", cut.unroll);
        w.number("TURNS", cut.turns);
        w.flag("NORM", self.op.norm.is_some());
        w.float("EPS", self.op.norm.unwrap_or(0.0));
        eights(&mut w, "x", Arg::In(0), DType::F32, self.k);
        if self.op.norm.is_some() {
            eights(&mut w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        }
        let normed = if self.op.norm.is_some() { "times(x, norm_eight(0u, i))" } else { "x" };
        w.function("normed(x: Eight, i: u32) -> Eight", normed);
        self.weights(&mut w, |_| "");
        let grid = self.outputs(&mut w, |_| u64::from(WG / cut.lanes_per_row) * cut.rows as u64);
        for (o, slice) in self.slices.iter().enumerate() {
            // Places of the partial sums in workgroup memory.
            let used = self.weights_of(slice);
            used.iter().enumerate().for_each(|(i, p)| w.number(&format!("s{o}_w{p}_AT"), i * cut.rows));
            w.number(&format!("s{o}_SUMS"), used.len() * cut.rows);
        }
        w.file(&self.for_slices(include_str!("gemv_lanes.wgsl"), |_| vec![("r", cut.rows), ("u", cut.unroll)]));
        Some(w.launch(grid.into(), self.cost(None, None)))
    }
}
