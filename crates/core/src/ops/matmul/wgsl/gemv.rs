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
        eights(&mut w, "x", Arg::In(0), DType::F32, self.k);
        if let Some(eps) = self.op.norm {
            w.float("EPS", eps);
            eights(&mut w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        }
        w.file(include_str!("gemv_lanes.wgsl"));
        self.weights(&mut w, |_| String::new());
        for o in 0..self.slices.len() {
            self.lanes_output(&mut w, o, &cut);
        }
        let per = u64::from(WG / cut.lanes_per_row) * cut.rows as u64;
        let grid = self.main(&mut w, "    let n = g;", per, "0u");
        Some(w.launch(grid.into(), self.cost(None, None)))
    }

    /// Writes `out_o(…)`, which computes a workgroup's columns of one slice.
    fn lanes_output(&self, w: &mut Wgsl, o: usize, cut: &Cut) {
        let slice = &self.slices[o];
        let (y, width, column) = (slice.y, slice.width(), slice.column());
        let used = self.weights_of(slice);
        let each = || used.iter().flat_map(|p| (0..cut.rows).map(move |r| (*p, r)));
        w.line(format!("fn out_{o}(m: u32, group: u32, lid: u32) {{"));
        w.line(format!("    let first = (group * (WG / LANES_PER_ROW) + lid / LANES_PER_ROW) * {}u;", cut.rows));
        for r in 0..cut.rows {
            w.line(format!("    let n{r} = min(first + {r}u, {width} - 1u);"));
        }
        w.line("    var squares = 0.0;");
        each().for_each(|(p, r)| w.line(format!("    var s{p}_{r} = 0.0;")));
        w.line(format!("    for (var turn = 0u; turn < {}u; turn++) {{", cut.turns));
        w.line(format!("        let i = lid % LANES_PER_ROW + turn * {}u * LANES_PER_ROW;", cut.unroll));
        for u in 0..cut.unroll {
            w.line(format!("        let i{u} = min(i + {u}u * LANES_PER_ROW, K / 8u - 1u);"));
            each().for_each(|(p, r)| w.line(format!("        let w{p}_{r}_{u} = w{p}_eight(n{r}, i{u});")));
        }
        for u in 0..cut.unroll {
            // Beyond the end of the row the last vector is read again, with activations set to zero.
            w.line(format!("        let x{u} = scaled(x_eight(0u, i{u}), i + {u}u * LANES_PER_ROW < K / 8u);"));
            let x = match self.op.norm {
                None => format!("x{u}"),
                Some(_) => {
                    w.line(format!("        squares += dot_eight(x{u}, x{u});"));
                    w.line(format!("        let m{u} = times(x{u}, norm_eight(0u, i{u}));"));
                    format!("m{u}")
                }
            };
            each().for_each(|(p, r)| w.line(format!("        s{p}_{r} += dot_eight(w{p}_{r}_{u}, {x});")));
        }
        w.line("    }");
        let sums = each().map(|(p, r)| format!("s{p}_{r}")).chain(self.op.norm.map(|_| "squares".to_string()));
        let sums: Vec<String> = sums.collect();
        sums.iter().for_each(|s| w.line(format!("    {s} = lanes_sum({s}, lid);")));
        w.line("    if PARTIALS > 1u {");
        sums.iter().enumerate().for_each(|(i, s)| w.line(format!("        put_partial({i}u, {s}, lid);")));
        w.line("        workgroupBarrier();");
        sums.iter().enumerate().for_each(|(i, s)| w.line(format!("        {s} = reduce_partials({i}u, lid);")));
        w.line("    }");
        w.line("    if lid % LANES_PER_ROW != 0u { return; }");
        if self.op.norm.is_some() {
            w.line("    let factor = inverseSqrt(squares / f32(K) + EPS);");
        }
        let factor = if self.op.norm.is_some() { " * factor" } else { "" };
        w.line("    let t = 0u;");
        for r in 0..cut.rows {
            w.line(format!("    if first + {r}u < {width} {{\n        let n = n{r};"));
            used.iter().for_each(|p| w.line(format!("        let p{p} = s{p}_{r}{factor};")));
            w.line(format!("        y{y}[{column}] = {};\n    }}", self.value(slice)));
        }
        w.line("}");
    }
}
