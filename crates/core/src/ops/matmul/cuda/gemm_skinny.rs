//! Matmul of 9 to 64 rows with quantized weights and 16-bit factors: see `convert.cu` and `gemm_skinny.cu`. Activations that
//! their producer writes in MMA fragment layout ([`onetrip_ir::tensor::Role::MmaFragment`]) are not converted again.

use super::half::dtype;
use super::tune::skinny::{K_BLOCK, Shape, TILES, WARP_TILE, Work, shape};
use super::*;
use crate::codegen::cuda::{HALF, TENSOR};
use crate::precision::Rounding;

/// A grouped problem: outputs that have equally many products, all of one format.
struct Problem {
    form: PlaneSpec,
    /// Products of an output.
    products: usize,
    outputs: Vec<usize>,
}

impl Cuda<'_> {
    /// The lowering; none if no block shape fits shared memory.
    pub(super) fn gemm_skinny(&self, half: Rounding) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let mut problems: Vec<Problem> = vec![];
        for (o, tree) in op.outputs.iter().enumerate() {
            let used = op.products_of(tree);
            let form = self.products[*used.first()?].planes?;
            match problems.iter_mut().find(|b| (b.form, b.products) == (form, used.len())) {
                Some(problem) => problem.outputs.push(o),
                None => problems.push(Problem { form, products: used.len(), outputs: vec![o] }),
            }
        }
        let units = |b: &Problem| {
            (b.outputs.iter().map(|&o| site.outs[o].width.div_ceil(WARP_TILE)).sum::<usize>(), b.products)
        };
        let k_tile = |b: &Problem| 8 / b.form.bits;
        let stage =
            |b: &Problem| WARP_TILE * (128 + k_tile(b) * K_BLOCK / b.form.group * 2 * (1 + b.form.has_min as usize));
        let work = Work {
            k_blocks: self.k().div_ceil(K_BLOCK),
            k_tile: problems.iter().map(k_tile).max().unwrap_or(1),
            stage: problems.iter().map(stage).max().unwrap_or(0),
            problems: problems.iter().map(units).collect(),
        };
        let shape = shape(&work, caps(site))?;
        let skinny_launch = self.skinny_launch(half, &problems, &work, shape);
        if site.ins[0].is_mma_fragment() {
            return Some(Lowering::steps(vec![skinny_launch], vec![]));
        }
        let scratch = vec![site.ins[0].as_mma_fragment(dtype(half)).bytes()];
        Some(Lowering::steps(vec![self.convert_rows(half, true), skinny_launch], scratch))
    }

    /// The kernel computes byte offsets into the planes in 32 bits.
    pub(super) fn weights_have_32_bit_places(&self) -> bool {
        let w0 = self.op.first_weight();
        (0..self.op.products).all(|p| self.site.ins[w0 + p].bytes().constant().is_some_and(|b| b < 1 << 32))
    }

    /// Whether values in MMA fragment layout are only x without a norm and outputs, of the factors' type and with whole
    /// k-blocks: padding columns would have to be zeros, so there must be none.
    pub(super) fn fits_fragment_layout(&self, half: Rounding) -> bool {
        let fits = |s: &Sig| !s.is_mma_fragment() || s.dtype == dtype(half) && s.width.is_multiple_of(K_BLOCK);
        let (x, others) = (&self.site.ins[0], &self.site.ins[1..]);
        let is_normed = x.is_mma_fragment() && self.op.norm.is_some();
        !is_normed && fits(x) && !others.iter().any(Sig::is_mma_fragment) && self.site.outs.iter().all(fits)
    }

    fn skinny_launch(&self, half: Rounding, problems: &[Problem], work: &Work, shape: Shape) -> Launch {
        let (op, site, k, w0) = (self.op, self.site, self.k(), self.op.first_weight());
        let mut unit = self.half_unit(half, shape.n_warps * shape.k_warps * 32);
        unit.read("ROUNDED", "u16", if site.ins[0].is_mma_fragment() { Arg::In(0) } else { Arg::Scratch(0) });
        self.set_operands(&mut unit);
        let (mut run, mut all_tiles) = (String::new(), 0);
        for problem in problems {
            let (mut find, mut finish, mut begin) = (String::new(), String::new(), 0);
            for (at, &o) in problem.outputs.iter().enumerate() {
                let n = site.outs[o].width;
                let end = begin + n.div_ceil(WARP_TILE);
                let when = if at + 1 == problem.outputs.len() { String::new() } else { format!("if (u < {end}u) ") };
                let used = op.products_of(&op.outputs[o]);
                let choose = |rest: String, (i, p): (usize, &usize)| match rest.is_empty() {
                    true => format!("W{p}"),
                    false => format!("p == {i} ? W{p} : {rest}"),
                };
                let weight = used.iter().enumerate().rev().fold(String::new(), choose);
                find += &format!("{when}{{ row0 = (u - {begin}u) * {WARP_TILE}, n = {n}u; return {weight}; }}\n");
                let sums: String = (0..used.len())
                    .map(|p| format!("float p{p}[8]; reduce_partials<NT>(sums + {}, p{p});\n", p * WARP_TILE))
                    .collect();
                // The loads of operands are issued before the reduction, which reads partial sums of other blocks and takes
                // longer.
                let (mut operands, whole) = (String::new(), n.is_multiple_of(8));
                for l in op.outputs[o].leaves().into_iter().filter(|l| !used.contains(l)) {
                    let row = if site.ins[w0 + l].rows.constant() == Some(1) {
                        "".into()
                    } else {
                        format!("(size_t)t * {n}u + ")
                    };
                    operands += &format!("float o{l}[8]; eight<{whole}>(OPERAND{l} + {row}row0, row0, {n}u, o{l});\n");
                }
                let value = tree(&op.outputs[o], &|leaf| match used.iter().position(|&p| p == leaf) {
                    Some(place) => format!("p{place}[i]"),
                    None => format!("o{leaf}[i]"),
                });
                let to = format!("OUT{o} + (size_t)t * {n}u + row0");
                let store = if site.outs[o].is_mma_fragment() {
                    format!(
                        "*((uint4*)OUT{o} + fragment_index({n}u, t, row0)) = to_fragment(make_float4(v[0], v[1], v[2], v[3]), \
                         make_float4(v[4], v[5], v[6], v[7]));"
                    )
                } else if n.is_multiple_of(8) {
                    format!(
                        "if (row0 < {n}u) for (u32 i = 0; i < 8; i += 4) *(float4*)({to} + i) = make_float4(v[i], v[i + 1], \
                         v[i + 2], v[i + 3]);"
                    )
                } else {
                    format!("for (u32 i = 0; i < 8; i++) if (row0 + i < {n}u) *({to} + i) = v[i];")
                };
                finish += &format!(
                    "{when}{{\nconst u32 row0 = (u - {begin}u) * {WARP_TILE} + r;\n{operands}{sums}float v[8];\n_Pragma(\"unroll\")\n\
                     for (u32 i = 0; i < 8; i++) v[i] = {value};\n\
                     {store}\nreturn;\n}}\n"
                );
                begin = end;
            }
            let tiles = (begin * problem.products).div_ceil(shape.warp_tiles);
            let weight = op.products_of(&op.outputs[problem.outputs[0]])[0];
            run += &format!(
                "if (tile < {tiles}u) {{\n\
                 auto find = [&](u32 u, u32 p, u32& row0, u32& n) -> decltype(W{weight}) {{\n{find}}};\n\
                 auto finish = [&](u32 u, u32 r, u32 t, const float* sums) {{\n{finish}}};\n\
                 run<decltype(W{weight}), {}, NT, PHASE, BUFFERS>(A, find, finish, tile, {begin}u, t0, rows, shared);\n\
                 return;\n}}\ntile -= {tiles}u;\n",
                problem.products
            );
            all_tiles += tiles;
        }
        unit.set("WARP_TILES", shape.warp_tiles)
            .set("MOST", shape.most())
            .set("FULL", shape.full())
            .set("K_WARPS", shape.k_warps);
        unit.set("CLUSTER", shape.cluster)
            .set("TILES", all_tiles)
            .set("STAGES_AT", shape.stages_at)
            .set("K_TILE_BLOCKS", work.k_tile);
        for ((tiles, phase), buffers) in TILES.iter().zip(shape.phase).zip(shape.buffers) {
            unit.set(&format!("PHASE_{tiles}"), phase).set(&format!("BUFFERS_{tiles}"), buffers);
        }
        unit.cluster(shape.cluster as u32).shared(shape.shared);
        unit.part(WEIGHTS).part(TENSOR).part(HALF).part(include_str!("gemm_skinny.cu"));
        unit.code("SKINNY_RUN", &run);
        let cost = op.cost(site);
        let rows = site.ins[0].rows.clone();
        let read = site.ins[op.first_weight()..].iter().fold(rows.clone() * (2 * k), |a, s| a + s.bytes());
        let cost = Cost::of(read, cost.written, self.product_flops());
        let grid = Expr::CeilDiv(Box::new(rows), 8 * TILES[1] as u64) * (all_tiles * shape.cluster);
        let fragment = if site.outs.iter().any(Sig::is_mma_fragment) { "-fragment" } else { "" };
        let id = KernelId::new("matmul", "gemm_skinny").variant(format!("{}{fragment}", dtype(half).name()));
        let id =
            id.tuned("warp_tiles", shape.warp_tiles).tuned("n_warps", shape.n_warps).tuned("k_warps", shape.k_warps);
        unit.launch(id.tuned("cluster", shape.cluster), grid, cost)
    }
}
