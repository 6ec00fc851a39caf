//! Mat-vec of one row of floats, where there are subgroups: a span of lanes takes some rows of a weight at once, all its
//! loads in flight together; the norm's factor comes out of the same pass and is multiplied in at the end, so nobody waits
//! for the norm before it loads.

use super::*;

/// How the work is cut.
struct Cut {
    /// Lanes that share a row.
    span: u32,
    /// Eights of a row that a lane has in flight.
    unroll: usize,
    /// Turns of so many eights until the row is through.
    turns: usize,
    /// Rows of each weight that a span takes at once.
    rows: usize,
}

impl Cut {
    /// For `outputs` numbers of rows of `k`, the most `products` of them in one output.
    fn new(k: usize, outputs: usize, products: usize, lanes: u32) -> Cut {
        let eights = (k / 8) as u32;
        let mut span = lanes;
        while eights.div_ceil(span) > 4 && span < WG {
            span *= 2;
        }
        let each = eights.div_ceil(span) as usize;
        let unroll = if each <= 6 { each } else { 4 };
        // Several rows a span only where there are rows enough to fill a large GPU without.
        let rows = [1, 2, 4][(outputs >= 1 << 14) as usize + (outputs >= 1 << 15) as usize];
        Cut { span, unroll, turns: each.div_ceil(unroll), rows: (rows / products).max(1) }
    }
}

impl Plan<'_> {
    /// The step; none where it is for others: several rows, codes, odd widths, no subgroups.
    pub(super) fn matvec_floats(&self) -> Option<Step> {
        let caps = caps(self.site.target);
        let lanes = lanes(&caps)?;
        let is_mine = self.site.class == RowClass::One && self.k.is_multiple_of(8);
        if !is_mine || self.has(Path::Codes) {
            return None;
        }
        let outputs = self.site.outs.iter().map(|s| s.width).sum();
        let products = self.pieces.iter().map(|p| self.weights_of(p).len()).max().unwrap_or(1).max(1);
        let cut = Cut::new(self.k, outputs, products, lanes);
        let mut w = self.begin("matmul/matvec.f32.1", WG);
        w.number("SPAN", cut.span as usize);
        let mut w = w.reductions(&caps);
        w.number("PARTS", (cut.span / lanes) as usize);
        w.line(format!("var<workgroup> span_part: array<f32, {}u * (WG / LANES)>;", cut.rows * products + 1));
        eights(&mut w, "x", Arg::In(0), DType::F32, self.k);
        if let Some(eps) = self.op.norm {
            w.float("EPS", eps);
            eights(&mut w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        }
        w.line(include_str!("../span.wgsl"));
        self.weights(&mut w, |_| String::new());
        for o in 0..self.pieces.len() {
            self.out_of_span(&mut w, o, &cut);
        }
        let per = u64::from(WG / cut.span) * cut.rows as u64;
        let grid = self.main(&mut w, "    let n = g;", per, "0u");
        Some(w.step(grid.into(), self.cost(None, None)))
    }

    /// `out_o(…)`: the numbers of one piece that a workgroup makes.
    fn out_of_span(&self, w: &mut Wgsl, o: usize, cut: &Cut) {
        let piece = &self.pieces[o];
        let (y, width, column) = (piece.y, piece.width(), piece.column());
        let used = self.weights_of(piece);
        let each = || used.iter().flat_map(|p| (0..cut.rows).map(move |r| (*p, r)));
        w.line(format!("fn out_{o}(m: u32, group: u32, lid: u32) {{"));
        w.line(format!("    let first = (group * (WG / SPAN) + lid / SPAN) * {}u;", cut.rows));
        for r in 0..cut.rows {
            w.line(format!("    let n{r} = min(first + {r}u, {width} - 1u);"));
        }
        w.line("    var squares = 0.0;");
        each().for_each(|(p, r)| w.line(format!("    var s{p}_{r} = 0.0;")));
        w.line(format!("    for (var turn = 0u; turn < {}u; turn++) {{", cut.turns));
        w.line(format!("        let i = lid % SPAN + turn * {}u * SPAN;", cut.unroll));
        for u in 0..cut.unroll {
            w.line(format!("        let i{u} = min(i + {u}u * SPAN, K / 8u - 1u);"));
            each().for_each(|(p, r)| w.line(format!("        let w{p}_{r}_{u} = w{p}_eight(n{r}, i{u});")));
        }
        for u in 0..cut.unroll {
            // Behind the end the last eight is read again and counts for nothing.
            w.line(format!("        let x{u} = scaled(x_eight(0u, i{u}), i + {u}u * SPAN < K / 8u);"));
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
        w.line("    if PARTS > 1u {");
        sums.iter().enumerate().for_each(|(i, s)| w.line(format!("        put_part({i}u, {s}, lid);")));
        w.line("        workgroupBarrier();");
        sums.iter().enumerate().for_each(|(i, s)| w.line(format!("        {s} = of_parts({i}u, lid);")));
        w.line("    }");
        w.line("    if lid % SPAN != 0u { return; }");
        if self.op.norm.is_some() {
            w.line("    let factor = inverseSqrt(squares / f32(K) + EPS);");
        }
        let factor = if self.op.norm.is_some() { " * factor" } else { "" };
        w.line("    let t = 0u;");
        for r in 0..cut.rows {
            w.line(format!("    if first + {r}u < {width} {{\n        let n = n{r};"));
            used.iter().for_each(|p| w.line(format!("        let p{p} = s{p}_{r}{factor};")));
            w.line(format!("        y{y}[{column}] = {};\n    }}", self.value(piece)));
        }
        w.line("}");
    }
}
