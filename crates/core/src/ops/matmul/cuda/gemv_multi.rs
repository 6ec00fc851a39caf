//! Matmul of up to 8 rows in CUDA, of weights of any form: see `gemv_multi.cu`.

use super::*;

impl Cuda<'_> {
    /// Bytes of one token's activations in shared memory, and which forms of them the weights need: f32, int8 in order, int8
    /// with even and odd elements apart.
    fn staged(&self) -> (usize, [bool; 3]) {
        let k = self.k();
        let float = self.products.iter().any(|p| !p.int8);
        let bits = |n| self.products.iter().any(|p| p.int8 && p.planes.is_some_and(|s| s.bits == n));
        let (q, eo) = (bits(8), bits(4));
        let sums = if q || eo { k / 32 * 4 + k / 16 * 4 } else { 0 };
        (if float { 4 * k } else { 0 } + if q { k } else { 0 } + if eo { k } else { 0 } + sums, [float, q, eo])
    }

    pub(super) fn gemv_multi(&self) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let tune::GemvMulti { threads, rows, k_warps, unroll } = tune::gemv_multi(self);
        let warps = threads / 32;
        let most_products = op.outputs.iter().map(|t| op.products_of(t).len()).max().unwrap_or(1);
        let smem_bytes = if k_warps > 1 { warps * most_products * 128 } else { warps * 8 * 4 };
        let (bytes, [float, q, eo]) = self.staged();
        let most = if site.bucket == RowBucket::R1 { 1 } else { 8 };
        let fits = |n: &usize| *n <= most && smem_bytes + n * bytes <= caps(site).shared as usize;
        let tokens = [8, 4, 2, 1].into_iter().find(fits)?;

        let mut unit = self.unit(threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        self.set_operands(&mut unit);
        let (mut products, mut outputs, mut fetches) = (String::new(), String::new(), String::new());
        let mut units = 0;
        for (o, out) in site.outs.iter().enumerate() {
            let used = op.products_of(&op.outputs[o]);
            let (n, begin) = (out.width, units);
            units += n.div_ceil(rows);
            let from = format!("const u32 row = (unit - {begin}u) * UNIT_ROWS");
            let otherwise = if o == 0 { "" } else { "else " };
            products += &format!("{otherwise}if (unit < {units}u) {{\n{from};\n");
            let start = |p: usize| format!("auto b{p} = begin_rows(W{p}, row, {n}u, k_warp);\n");
            // The first loads of all products are issued together where there are enough registers to hold their chunks.
            let together = used.len() * rows * unroll <= if threads > 512 { 4 } else { 16 };
            if together {
                products.extend(used.iter().map(|&p| start(p)));
            }
            for (place, &p) in used.iter().enumerate() {
                let late = if together { String::new() } else { start(p) };
                products += &format!(
                    "{{ {late}float acc[UNIT_ROWS][N]; dot_rows<N>(W{p}, b{p}, x, row, {n}u, k_warp, acc); \
                     sums[{place}] = collect<N>(acc); }}\n"
                );
            }
            products += "}\n";
            let value = self.value(o, &|place| format!("sums[{place}]"));
            outputs += &format!(
                "{otherwise}if (unit < {units}u) {{ {from} + lane_row; if (row < {n}u) OUT{o}[(size_t)t * {n}u + row] = \
                 {value}; }}\n"
            );
            let unit_bytes: usize = used.iter().map(|&p| self.products[p].row_bytes * rows).sum();
            let limit = (tune::of(caps(site)).multi_prefetch / unit_bytes.max(1)).max(1);
            let fetch: String = used
                .iter()
                .map(|p| format!("W{p}.fetch((a - {begin}u) * UNIT_ROWS, min((b - {begin}u) * UNIT_ROWS, {n}u)); "))
                .collect();
            fetches += &format!(
                "{{ const u32 a = max(first, {begin}u), b = min(min(end, {units}u), a + {limit}u); if (a < b) {{ {fetch}}} }}\n"
            );
        }
        let groups = units.div_ceil(warps / k_warps).min(caps(site).sms as usize).max(1);
        unit.set("UNIT_ROWS", rows)
            .set("K_WARPS", k_warps)
            .set("UNROLL", unroll)
            .set("UNITS", units)
            .set("GRID_BLOCKS", groups);
        unit.set("MOST_TOKENS", tokens).set("MOST_PRODUCTS", most_products).set("ACTIVATIONS_AT", smem_bytes);
        unit.set("NEED_F32", float as u8).set("NEED_Q", q as u8).set("NEED_EO", eo as u8);
        unit.shared(smem_bytes + tokens * bytes);
        unit.code("UNIT_PRODUCTS", &products).code("UNIT_OUTPUTS", &outputs).code("UNIT_FETCHES", &fetches);
        unit.part(WEIGHTS).part(include_str!("gemv_multi.cu"));
        let any_int8 = self.products.iter().any(|p| p.int8);
        let id =
            KernelId::new("matmul", "gemv_multi").norm(op.norm.is_some()).quantizing(any_int8).variant(self.form());
        let id = id
            .tuned("tokens", tokens)
            .tuned("threads", threads)
            .tuned("rows", rows)
            .tuned("k_warps", k_warps)
            .tuned("unroll", unroll);
        Some(unit.lower(id, groups.into(), op.cost(site)))
    }
}
