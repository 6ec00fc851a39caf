//! Matmul of 2 to 8 rows of int8 activations with quantized weights: see `quantize.cu` and `gemm_int8_mma.cu`.

use super::*;

/// Rows of a weight in a tile.
const TILE: usize = 16;
/// Tokens of a tile.
const EIGHT: usize = 8;

impl Cuda<'_> {
    /// The lowering; none if partial sums and the ring of stages do not fit shared memory.
    pub(super) fn gemm_int8_mma(&self) -> Option<Lowering> {
        let k = self.k();
        let bits = |n| self.products.iter().any(|p| p.planes.is_some_and(|s| s.bits == n));
        let (q, eo) = (bits(8), bits(4));
        let bytes = |is: bool, n: usize| Expr::from(if is { EIGHT * n } else { 0 });
        let scratch = vec![bytes(q, k), bytes(eo, k), bytes(true, k / 32 * 4 * self.meta_words())];
        let made = scratch.iter().cloned().fold(Expr::Const(0), |a, b| a + b);
        let launches = vec![self.quantize([q, eo], made.clone()), self.products_of_quants([q, eo], made)?];
        Some(Lowering::steps(launches, scratch))
    }

    /// Words of `META` for each block of 32 and token: two more if a weight has groups of 16.
    fn meta_words(&self) -> usize {
        if self.products.iter().any(|p| p.planes.is_some_and(|s| s.group == 16)) { 4 } else { 2 }
    }

    /// Norms and quantizes the activations into three scratch slots: fragments for 8-bit weights, fragments for 4-bit weights,
    /// scales and sums.
    fn quantize(&self, [q, eo]: [bool; 2], made: Expr) -> Launch {
        let (op, site, k) = (self.op, self.site, self.k());
        let threads = k.div_ceil(8).next_multiple_of(32).min(512);
        let mut unit = self.unit(threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        unit.write("Q", "u32", Arg::Scratch(0)).write("EO", "u32", Arg::Scratch(1));
        unit.write("META", "float", Arg::Scratch(2));
        unit.set("HELD", k.div_ceil(8 * threads)).set("NEED_Q", q as u8).set("NEED_EO", eo as u8);
        unit.set("META_WORDS", self.meta_words());
        unit.part(WEIGHTS).part(include_str!("quantize.cu"));
        let read = site.ins[..op.first_weight()].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        let flops = if op.norm.is_some() { site.ins[0].rows.clone() * (4 * k) } else { Expr::Const(0) };
        unit.launch(
            KernelId::new("matmul", "quantize").norm(op.norm.is_some()).quantizing(true),
            EIGHT.into(),
            Cost::of(read, made, flops),
        )
    }

    fn products_of_quants(&self, [q, eo]: [bool; 2], made: Expr) -> Option<Launch> {
        let (op, site, k) = (self.op, self.site, self.k());
        let (ring_stages, resident) = tune::of(caps(site)).int8_mma;
        let row_bytes = |p: &Product| p.planes.map_or(0, |s| k / 8 * s.bits);
        let k_warps = self.products.iter().map(|p| row_bytes(p).div_ceil(128)).max()?.min(8);
        let mut unit = self.unit(k_warps * 32);
        unit.read("Q", "u32", Arg::Scratch(0)).read("EO", "u32", Arg::Scratch(1));
        unit.read("META", "float", Arg::Scratch(2));
        self.set_operands(&mut unit);
        // Outputs that have equally many products, all of one format, are one grouped problem.
        let form = |o: usize| {
            let used = op.products_of(&op.outputs[o]);
            let first = self.products[used[0]].planes;
            used.iter().all(|&p| self.products[p].planes == first).then_some((first, used.len()))
        };
        let mut problems: Vec<Vec<usize>> = vec![];
        for o in 0..op.outputs.len() {
            match problems.iter_mut().find(|b| form(b[0]) == form(o)) {
                Some(problem) => problem.push(o),
                None => problems.push(vec![o]),
            }
        }
        // A tile is 16 rows of each product of an output.
        let tiles = |problem: &[usize]| problem.iter().map(|&o| site.outs[o].width.div_ceil(TILE)).sum::<usize>();
        let groups = problems.iter().map(|b| tiles(b)).max()?.min(caps(site).sms as usize * resident);
        let (mut run, mut most_warp_tiles, mut ring) = (String::new(), 0, 0);
        for (b, problem) in problems.iter().enumerate() {
            let used = op.products_of(&op.outputs[problem[0]]);
            let warp_tiles = used.len();
            let planes = self.products[used[0]].planes?;
            let scales = 32 / planes.bits * 32 / planes.group * (1 + planes.has_min as usize);
            (most_warp_tiles, ring) =
                (most_warp_tiles.max(warp_tiles), ring.max(ring_stages * (16 * 144 + 16 * scales * 2)));
            run += &format!(
                "typedef decltype(W{}) T{b};\nauto find{b} = [&](u32 i, u32 s, u32& row0, u32& n) {{\n",
                used[0]
            );
            let mut finish = String::new();
            let mut begin = 0;
            for (at, &o) in problem.iter().enumerate() {
                let (n, end) = (site.outs[o].width, begin + site.outs[o].width.div_ceil(TILE));
                let is_last = at + 1 == problem.len();
                let used = op.products_of(&op.outputs[o]);
                let choose = used.iter().enumerate().rev().fold(String::new(), |rest, (i, p)| match rest.is_empty() {
                    true => format!("W{p}"),
                    false => format!("s == {i} ? W{p} : {rest}"),
                });
                let found = format!("row0 = (i - {begin}u) * {TILE}, n = {n}u; return {choose};");
                run += &if is_last { format!("{found}\n}};\n") } else { format!("if (i < {end}u) {{ {found} }}\n") };
                let value = self.value(o, &|place| format!("reduce_partials(partials, {place}, t, r)"));
                let made = format!(
                    "const u32 row = (i - {begin}u) * {TILE} + r; if (row < {n}u) OUT{o}[(size_t)t * {n}u + row] = {value};"
                );
                finish +=
                    &if is_last { format!("{{ {made} }}\n") } else { format!("if (i < {end}u) {{ {made} }} else ") };
                begin = end;
            }
            run += &format!(
                "auto finish{b} = [&](u32 i) {{ for (u32 e = threadIdx.x; e < {TILE} * rows; e += THREADS) {{ \
                 const u32 t = e / {TILE}, r = e % {TILE};\n{finish}}} }};\n"
            );
            let at = |g: &str| format!("(u32)((u64){begin} * ({g}) / GRID_BLOCKS)");
            run += &format!(
                "const u32 first{b} = {}, count{b} = {} - first{b};\n\
                 WeightStream<T{b}, {warp_tiles}> b{b}{{first{b}, count{b}, warp_index(), ring}};\nb{b}.begin(find{b});\n",
                at("group"),
                at("group + 1"),
            );
            if b == 0 {
                run += "wait_for_inputs();\n";
            }
            let x = if planes.bits == 4 { "EO" } else { "Q" };
            run += &format!("b{b}.run(find{b}, finish{b}, {x}, META, partials);\n");
        }
        let partial_bytes = (most_warp_tiles * k_warps * EIGHT * 20 * 4).next_multiple_of(16);
        if partial_bytes + k_warps * ring > caps(site).shared as usize {
            return None;
        }
        unit.set("K_WARPS", k_warps)
            .set("RING", ring_stages)
            .set("GRID_BLOCKS", groups)
            .set("PARTIAL_BYTES", partial_bytes)
            .set("RING_BYTES", ring);
        unit.set("NEED_Q", q as u8).set("NEED_EO", eo as u8).set("META_WORDS", self.meta_words());
        unit.shared(partial_bytes + k_warps * ring);
        unit.part(WEIGHTS);
        unit.code("INT8_MMA_RUN", &run).part(include_str!("gemm_int8_mma.cu"));
        let cost = op.cost(site);
        let id = KernelId::new("matmul", "gemm_int8_mma");
        let id = id.tuned("k_warps", k_warps).tuned("stages", ring_stages).tuned("blocks", groups);
        let read = site.ins[op.first_weight()..].iter().fold(made, |a, s| a + s.bytes());
        Some(unit.launch(id, groups.into(), Cost::of(read, cost.written, cost.flops)))
    }
}
