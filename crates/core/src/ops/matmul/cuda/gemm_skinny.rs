//! Matmul of 9 to 64 rows with quantized weights and 16-bit factors: see `convert.cu` and `gemm_skinny.cu`. Activations that
//! their producer writes in MMA fragment layout ([`onetrip_ir::tensor::Role::MmaFragment`]) are not converted again.

use super::gemm_f16::dtype;
use super::*;
use crate::codegen::cuda::{HALF, TENSOR};
use crate::precision::Rounding;

/// Rows of a warp tile, as many as an mma has; a unit of outputs has one warp tile for each of its products.
const WARP_TILE: usize = 16;
/// Most products of an output.
const MOST_PRODUCTS: usize = 2;
/// Columns of a k-block.
const K_BLOCK: usize = 128;
/// Tiles of eight tokens in a block: the kernel has one path for up to 16 rows and one for more.
const TILES: [usize; 2] = [2, 4];
/// Bytes of the 16-bit activations of eight tokens in one k-block.
const TOKENS: usize = 8 * K_BLOCK * 2;
/// Most warp tiles of a warp, and most warps of a block: more would not fit the register file.
const MOST_WARP_TILES: usize = 2;
const MOST_WARPS: usize = 16;
/// Warp schedulers of an SM: warp i of a block runs on scheduler i % SCHEDULERS.
const SCHEDULERS: usize = 4;

/// A grouped problem: outputs that have equally many products, all of one format.
struct Problem {
    form: PlaneSpec,
    /// Products of an output.
    products: usize,
    outputs: Vec<usize>,
}

/// Shape of a block: warp tiles, N warps that share them, K warps that slice K, and blocks of a cluster. For each of [`TILES`]:
/// the k-tiles of a warp in a phase of activations, and the phases that shared memory holds at once. `stages_at` is the byte
/// offset at which the weights' shared-memory stages begin, and `shared` all bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    warp_tiles: usize,
    n_warps: usize,
    k_warps: usize,
    cluster: usize,
    phase: [usize; 2],
    buffers: [usize; 2],
    stages_at: usize,
    shared: usize,
}

impl Shape {
    fn most(&self) -> usize {
        self.warp_tiles.div_ceil(self.n_warps)
    }

    /// N warps that have [`Shape::most`] warp tiles; the others have one fewer.
    fn full(&self) -> usize {
        self.warp_tiles - self.n_warps * (self.most() - 1)
    }
}

impl Cuda<'_> {
    /// The lowering; none if a weight is not quantized, or a tree has more than two products or products of different formats.
    pub(super) fn gemm_skinny(&self, half: Rounding) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        self.places()?;
        if !self.fits_fragment_layout(half) {
            return None;
        }
        let mut problems: Vec<Problem> = vec![];
        for (o, tree) in op.outputs.iter().enumerate() {
            let used = op.products_of(tree);
            let form = self.products[*used.first()?].planes?;
            if used.len() > MOST_PRODUCTS || used.iter().any(|&p| self.products[p].planes != Some(form)) {
                return None;
            }
            match problems.iter_mut().find(|b| (b.form, b.products) == (form, used.len())) {
                Some(problem) => problem.outputs.push(o),
                None => problems.push(Problem { form, products: used.len(), outputs: vec![o] }),
            }
        }
        // The kernel computes byte offsets into the planes in 32 bits.
        let w0 = op.first_weight();
        let too_large = |p: usize| site.ins[w0 + p].bytes().constant().is_none_or(|b| b >= 1 << 32);
        if (0..op.products).any(too_large) {
            return None;
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
        let skinny_launch = self.skinny_launch(half, &problems, &work, shape)?;
        if site.ins[0].is_mma_fragment() {
            return Some(Lowering::Steps { launches: vec![skinny_launch], scratch: vec![] });
        }
        let scratch = vec![site.ins[0].as_mma_fragment(dtype(half)).bytes()];
        Some(Lowering::Steps { launches: vec![self.convert_rows(half, true), skinny_launch], scratch })
    }

    /// Whether values in MMA fragment layout are only x without a norm and outputs, of the factors' type and with whole
    /// k-blocks: padding columns would have to be zeros, so there must be none.
    fn fits_fragment_layout(&self, half: Rounding) -> bool {
        let fits = |s: &Sig| !s.is_mma_fragment() || s.dtype == dtype(half) && s.width.is_multiple_of(K_BLOCK);
        let (x, others) = (&self.site.ins[0], &self.site.ins[1..]);
        let is_normed = x.is_mma_fragment() && self.op.norm.is_some();
        !is_normed && fits(x) && !others.iter().any(Sig::is_mma_fragment) && self.site.outs.iter().all(fits)
    }

    fn skinny_launch(&self, half: Rounding, problems: &[Problem], work: &Work, shape: Shape) -> Option<Launch> {
        let (op, site, k, w0) = (self.op, self.site, self.k(), self.op.first_weight());
        let mut unit = self.half_unit(half, shape.n_warps * shape.k_warps * 32);
        unit.read("ROUNDED", "u16", if site.ins[0].is_mma_fragment() { Arg::In(0) } else { Arg::Scratch(0) });
        if !self.set_operands(&mut unit) {
            return None;
        }
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
        unit.part(WEIGHTS).part(TENSOR).part(HALF).part(&include_str!("gemm_skinny.cu").replace("SKINNY_RUN", &run));
        let cost = op.cost(site);
        let rows = site.ins[0].rows.clone();
        let read = site.ins[op.first_weight()..].iter().fold(rows.clone() * (2 * k), |a, s| a + s.bytes());
        let cost = Cost::of(read, cost.written, self.product_flops());
        let grid = Expr::CeilDiv(Box::new(rows), 8 * TILES[1] as u64) * (all_tiles * shape.cluster);
        let fragment = if site.outs.iter().any(Sig::is_mma_fragment) { "-fragment" } else { "" };
        let id = KernelId::new("matmul", "gemm_skinny").variant(format!("{}{fragment}", dtype(half).name()));
        Some(unit.launch(id, grid, cost))
    }
}

/// The work from which [`shape`] chooses.
struct Work {
    /// k-blocks of a row.
    k_blocks: usize,
    /// k-blocks of a k-tile, the most of all grouped problems.
    k_tile: usize,
    /// Bytes of a warp tile's shared-memory stage, the most of all grouped problems.
    stage: usize,
    /// Units of each grouped problem and products of a unit.
    problems: Vec<(usize, usize)>,
}

/// The block shape with the least estimated time. The constants are in µs, from single kernels measured on an H200 for 32 rows:
/// for each k-block of a warp tile on a scheduler, each k-block of activations, each block, each further block of a cluster,
/// each further K warp, and each warp.
fn shape(work: &Work, caps: CudaCaps) -> Option<Shape> {
    const WARP_TILE_US: f64 = 0.225;
    const TOKENS_US: f64 = 0.1;
    const BLOCK_US: f64 = 3.2;
    const CLUSTER_US: f64 = 0.2;
    const K_WARP_US: f64 = 0.35;
    const WARP_US: f64 = 0.02;
    let products = work.problems.iter().map(|b| b.1).max().unwrap_or(1);
    let mut best: Option<(f64, Shape)> = None;
    let k_tiles = work.k_blocks.div_ceil(work.k_tile);
    for (cluster, k_warps) in [1, 2, 4, 8].into_iter().flat_map(|c| [1, 2, 4].map(|a| (c, a))) {
        let share = k_tiles.div_ceil(cluster);
        if cluster > 1 && caps.sm < 90 || cluster > k_tiles || k_warps > share {
            continue;
        }
        // A cluster runs within one GPC. GPCs have no whole number of clusters of more than two blocks, so some SMs stay idle.
        let sms = caps.sms as usize;
        let places = if cluster > 2 { (sms * 10 / 11 / cluster).max(1) * cluster } else { sms };
        for most in 1..=MOST_WARP_TILES {
            for n_warps in 1..=MOST_WARPS / k_warps {
                for warp_tiles in
                    (n_warps.max(n_warps * (most - 1) + 1)..=n_warps * most).filter(|s| s.is_multiple_of(products))
                {
                    let Some(shape) = cut(work, warp_tiles, n_warps, k_warps, cluster, caps.shared as usize) else {
                        continue;
                    };
                    let busy = |scheduler: usize| -> usize {
                        let warps = (scheduler..n_warps * k_warps).step_by(SCHEDULERS);
                        let warp_tiles = |w: usize| if w / k_warps < shape.full() { most } else { most - 1 };
                        warps.map(|w| warp_tiles(w) * (share - w % k_warps).div_ceil(k_warps) * work.k_tile).sum()
                    };
                    let busiest = (0..SCHEDULERS).map(busy).max().unwrap_or(0);
                    let blocks =
                        work.problems.iter().map(|(n, p)| (n * p).div_ceil(warp_tiles)).sum::<usize>() * cluster;
                    // Few warps hide less latency, and phases of activations add barriers.
                    let few = if n_warps * k_warps < 8 { 1.25 } else { 1.0 };
                    let idle = few * if shape.buffers.contains(&2) { 1.1 } else { 1.0 };
                    let block = BLOCK_US
                        + CLUSTER_US * (cluster - 1) as f64
                        + K_WARP_US * (k_warps - 1) as f64
                        + WARP_US * (n_warps * k_warps) as f64;
                    let tokens = (share * work.k_tile) as f64 * TOKENS_US;
                    let time = blocks.div_ceil(places) as f64 * (busiest as f64 * WARP_TILE_US * idle + tokens + block);
                    if best.as_ref().is_none_or(|(least, _)| time < *least) {
                        best = Some((time, shape));
                    }
                }
            }
        }
    }
    best.map(|(_, shape)| shape)
}

/// The shape whose phases of activations fit shared memory of `most` bytes beside the stages of weights.
fn cut(work: &Work, warp_tiles: usize, n_warps: usize, k_warps: usize, cluster: usize, most: usize) -> Option<Shape> {
    let rounds = work.k_blocks.div_ceil(work.k_tile).div_ceil(cluster).div_ceil(k_warps);
    let stages = n_warps * warp_tiles.div_ceil(n_warps) * k_warps * work.stage;
    let left = most.checked_sub(stages)?;
    // All activations at once, or phases that are double-buffered.
    let round = TILES.map(|t| k_warps * work.k_tile * t * TOKENS);
    let phase = round.map(|bytes| if rounds * bytes <= left { rounds } else { left / 2 / bytes });
    let buffers = phase.map(|p| if p == rounds { 1 } else { 2 });
    let bytes = |i: usize| round[i] * phase[i] * buffers[i];
    let sums = k_warps * TILES[1] * 8 * (warp_tiles * WARP_TILE + 4) * 4;
    let stages_at = bytes(0).max(bytes(1));
    let shared = (stages_at + stages).max(sums);
    (shared <= most && phase.iter().all(|&p| p > 0)).then_some(Shape {
        warp_tiles,
        n_warps,
        k_warps,
        cluster,
        phase,
        buffers,
        stages_at,
        shared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of 4 bits, with a scale for each 32.
    fn work(k_blocks: usize, units: usize, products: usize) -> Work {
        Work { k_blocks, k_tile: 2, stage: WARP_TILE * (128 + 16), problems: vec![(units, products)] }
    }

    /// Warp tiles, N warps, K warps and blocks of a cluster, as chosen for 132 SMs.
    fn chosen(k_blocks: usize, units: usize, products: usize) -> [usize; 4] {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() };
        let s = shape(&work(k_blocks, units, products), caps).unwrap();
        [s.warp_tiles, s.n_warps, s.k_warps, s.cluster]
    }

    #[test]
    fn shapes_are_those_that_were_fastest_where_they_were_measured() {
        // Llama-8B: gate and up, queries keys and values, output, down, head.
        assert_eq!(chosen(32, 896, 2), [28, 16, 1, 2]);
        assert_eq!(chosen(32, 384, 1), [6, 4, 2, 2]);
        assert_eq!(chosen(32, 256, 1), [4, 4, 2, 2]);
        assert_eq!(chosen(112, 256, 1), [18, 10, 1, 8]);
        assert_eq!(chosen(32, 8016, 1), [31, 16, 1, 2]);
    }

    #[test]
    fn narrow_weights_and_small_devices_have_a_shape() {
        let old = CudaCaps { sm: 80, sms: 40, shared: 99 << 10, ..CudaCaps::default() };
        for (k_blocks, units) in [(1, 1), (1, 3), (7, 36), (5, 2), (224, 1), (32, 8016)] {
            for caps in [old, CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() }] {
                for products in [1, 2] {
                    let s = shape(&work(k_blocks, units, products), caps).unwrap();
                    assert!(s.shared <= caps.shared as usize && s.phase.iter().all(|&p| p > 0), "{s:?}");
                    assert!(
                        s.n_warps * s.k_warps <= MOST_WARPS
                            && s.most() <= MOST_WARP_TILES
                            && s.warp_tiles.is_multiple_of(products),
                        "{s:?}"
                    );
                    assert!((1..=s.n_warps).contains(&s.full()) && (s.cluster == 1 || caps.sm >= 90), "{s:?}");
                }
            }
        }
    }
}
