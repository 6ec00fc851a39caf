//! Matmul of one row in CUDA: see `gemv.cu`.

use super::*;

impl Cuda<'_> {
    /// Chunks of 16 bytes in a row of a product's weight.
    pub(super) fn chunks(&self, p: &Product) -> usize {
        p.planes.map_or(p.row_bytes, |s| self.k() / 8 * s.bits) / 16
    }

    /// The lowering; none if the format or the width of a weight does not suit this kernel.
    pub(super) fn gemv(&self) -> Option<Lowering> {
        let (op, site, k) = (self.op, self.site, self.k());
        let units: usize = site.outs.iter().map(|o| o.width).sum();
        let tune::Gemv { k_warps, warp_groups, depth, blocks: groups } = tune::gemv(self, units);
        let threads = k_warps * warp_groups * 32;
        let block_rows = units.div_ceil(groups);
        let places = self.places()?;
        let most = places.iter().map(|p| p.place + 1).max()?;
        let mut unit = self.unit(threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        self.set_operands(&mut unit);
        let any_int8 = self.products.iter().any(|p| p.int8);
        let (mut begin, mut fetches, mut norms) = (String::new(), String::new(), String::new());
        let mut run = "float twice = 0;\n".to_string();
        for (p, Place { begin: b, end: e, .. }) in places.iter().enumerate() {
            begin += &format!(
                "const u32 from{p} = min(max(first, {b}u), {e}u), rows{p} = min(max(end, {b}u), {e}u) - from{p};\n"
            );
        }
        for (s, list) in self.streams().iter().enumerate() {
            begin +=
                &format!("typedef decltype(W{}) T{s};\nauto find{s} = [&](u32 i, u32& row, u32& at) {{\n", list[0]);
            for (n, &p) in list.iter().enumerate() {
                let Place { begin: b, place, .. } = places[p];
                let found =
                    format!("row = from{p} - {b}u + i, at = {place} * BLOCK_ROWS + from{p} - first + i; return W{p};");
                begin += &match n + 1 < list.len() {
                    true => format!("if (i < rows{p}) {{ {found} }}\ni -= rows{p};\n"),
                    false => format!("{found}\n}};\n"),
                };
            }
            let count = list.iter().map(|p| format!("rows{p}")).collect::<Vec<_>>().join(" + ");
            begin += &format!("const u32 count{s} = {count};\n");
            // The first stream starts its loads before the dependency wait. The rows of later streams are prefetched to L2,
            // unless a block has more than `FETCHED` bytes.
            let make = format!("WeightStream<T{s}> s{s};\ns{s}.begin(find{s}, count{s}, warp_group, k_warp);\n");
            let late = if s == 0 { "" } else { &make };
            begin += if s == 0 { &make } else { "" };
            norms += &format!("T{s}::Mine mine{s}[WeightStream<T{s}>::EACH];\n");
            let hold = if self.products[list[0]].int8 {
                format!("hold_quants<T{s}>(view, k_warp, mine{s})")
            } else {
                norms += &format!("hold_norm<T{s}>(NORM_WEIGHT, k_warp, mine{s});\n");
                // Every stream of floats sums the squares of the same row, so only one of these sums may be used.
                let squares = if s == 0 && !any_int8 { "squares" } else { "twice" };
                format!("hold_floats<T{s}>(X_IN, k_warp, mine{s}, {squares})")
            };
            run += &format!(
                "{{\n{late}{hold};\ns{s}.run(find{s}, mine{s}, count{s}, warp_group, k_warp, partials);\n}}\n"
            );
            let bytes: usize = self.products.iter().map(|p| p.row_bytes * block_rows).sum::<usize>() / site.outs.len();
            for (n, &p) in list.iter().enumerate().filter(|_| bytes <= tune::of(caps(site)).gemv_prefetch) {
                let skip = if s == 0 && n == 0 { warp_groups * depth } else { 0 };
                fetches += &format!(
                    "if (rows{p} > {skip}u) {{ const u32 r = from{p} - {}u; W{p}.fetch(r + {skip}u, r + rows{p}); }}\n",
                    places[p].begin,
                );
            }
        }
        let (early, outputs) = self.gemv_outputs(block_rows <= threads);
        let bits = |n| self.products.iter().any(|p| p.int8 && p.planes.is_some_and(|s| s.bits == n));
        let (q, eo) = (bits(8), bits(4));
        let partial_bytes = ((k_warps * most * block_rows + threads / 32) * 4).next_multiple_of(16);
        let staged =
            if any_int8 { k / 32 * 4 + k / 16 * 4 } else { 0 } + if q { k } else { 0 } + if eo { k } else { 0 };
        if partial_bytes + staged > caps(site).shared as usize {
            return None;
        }
        unit.set("K_WARPS", k_warps)
            .set("WARP_GROUPS", warp_groups)
            .set("DEPTH", depth)
            .set("UNITS", units)
            .set("GRID_BLOCKS", groups);
        unit.set("BLOCK_ROWS", block_rows).set("PRODUCTS", most).set("ACTIVATIONS_AT", partial_bytes);
        unit.set("NEED_INT8", any_int8 as u8).set("NEED_Q", q as u8).set("NEED_EO", eo as u8);
        unit.shared(partial_bytes + staged);
        unit.code("GEMV_BEGIN", &begin).code("GEMV_FETCHES", &fetches).code("GEMV_NORMS", &norms);
        unit.code("GEMV_EARLY", &early).code("GEMV_STREAMS", &run).code("GEMV_OUTPUTS", &outputs);
        unit.part(WEIGHTS).part(include_str!("gemv.cu"));
        let id = KernelId::new("matmul", "gemv").norm(op.norm.is_some()).quantizing(any_int8).variant(self.form());
        let id = id
            .tuned("k_warps", k_warps)
            .tuned("warp_groups", warp_groups)
            .tuned("depth", depth)
            .tuned("blocks", groups);
        Some(unit.lower(id, groups.into(), op.cost(site)))
    }

    /// Two CUDA texts: the loads of operands that are issued before the products, which needs at most one output element for
    /// each thread (`one`), and the computation of the outputs.
    fn gemv_outputs(&self, one: bool) -> (String, String) {
        let (mut early, mut outputs, mut most, mut begin) = (String::new(), String::new(), 0, 0);
        for (o, (tree, out)) in self.op.outputs.iter().zip(&self.site.outs).enumerate() {
            let end = begin + out.width;
            let operands: Vec<usize> = tree.leaves().into_iter().filter(|&l| l >= self.op.products).collect();
            let used = self.op.products_of(tree);
            let value = crate::codegen::cuda::tree(tree, &|leaf| match (
                used.iter().position(|&p| p == leaf),
                operands.iter().position(|&l| l == leaf),
            ) {
                (Some(place), _) => format!("(factor * warp_group_sum(partials, {place} * BLOCK_ROWS + u - first))"),
                (_, Some(i)) if one => format!("early[{i}]"),
                _ => format!("OPERAND{leaf}[u - {begin}u]"),
            });
            if one && !operands.is_empty() {
                most = most.max(operands.len());
                let reads: String = (operands.iter().enumerate())
                    .map(|(i, leaf)| format!("early[{i}] = OPERAND{leaf}[unit - {begin}u]; "))
                    .collect();
                early += &format!("if (unit < end && unit - {begin}u < {}u) {{ {reads}}}\n", out.width);
            }
            let otherwise = if o == 0 { "" } else { "else " };
            outputs += &format!("{otherwise}if (u < {end}u) OUT{o}[u - {begin}u] = {value};\n");
            begin = end;
        }
        let early = if most > 0 { format!("float early[{most}];\n{early}") } else { String::new() };
        (early, format!("for (u32 u = unit; u < end; u += THREADS) {{\n{outputs}}}"))
    }
}
