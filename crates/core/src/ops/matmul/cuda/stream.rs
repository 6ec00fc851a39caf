//! Matmul of 9 to 64 rows whose weights are codes, in 16-bit numbers: see `round.cu` and `stream.cu`. Activations that their
//! maker gives as pieces ([`onetrip_ir::tensor::Role::Pieces`]) are not rounded again.

use super::halves::dtype;
use super::*;
use crate::codegen::cuda::{HALF, TENSOR};
use crate::precision::Rounding;

/// Rows of a slab, which a warp multiplies at once; a unit of outputs has a slab of each of its products.
const SLAB: usize = 16;
/// Products of an output at most.
const MOST_PRODUCTS: usize = 2;
/// Columns of a piece.
const PIECE: usize = 128;
/// Tiles of eight tokens that kernels are made for: up to 16 rows, and more.
const TILES: [usize; 2] = [2, 4];
/// Bytes of eight tokens of a piece.
const TOKENS: usize = 8 * PIECE * 2;
/// Slabs of a warp at most, and warps of a block: registers hold no more.
const MOST_SLABS: usize = 2;
const MOST_WARPS: usize = 16;
/// Schedulers of a multiprocessor: warp i is the business of number i % SCHEDULERS.
const SCHEDULERS: usize = 4;

/// Outputs whose products have one form.
struct Belt {
    form: PlaneSpec,
    /// Products of an output.
    products: usize,
    outputs: Vec<usize>,
}

/// How a block is cut: slabs, warps side by side that share them, warps along the columns, blocks of a cluster; by
/// [`TILES`] the lines of a warp in a phase of activations and the phases that are there at once; where the rooms of weights
/// begin in shared memory, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    slabs: usize,
    side: usize,
    along: usize,
    cluster: usize,
    phase: [usize; 2],
    buffers: [usize; 2],
    rooms_at: usize,
    shared: usize,
}

impl Shape {
    fn most(&self) -> usize {
        self.slabs.div_ceil(self.side)
    }

    /// Warps side by side that have as many slabs as any; the others have one less.
    fn full(&self) -> usize {
        self.slabs - self.side * (self.most() - 1)
    }
}

impl Cuda<'_> {
    /// The steps; none where a weight is not codes, or a tree has more than two products.
    pub(super) fn stream(&self, half: Rounding) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        self.places()?;
        if !self.has_pieces_for(half) {
            return None;
        }
        let mut belts: Vec<Belt> = vec![];
        for (o, tree) in op.outputs.iter().enumerate() {
            let used = op.products_of(tree);
            let form = self.products[*used.first()?].planes?;
            if used.len() > MOST_PRODUCTS || used.iter().any(|&p| self.products[p].planes != Some(form)) {
                return None;
            }
            match belts.iter_mut().find(|b| (b.form, b.products) == (form, used.len())) {
                Some(belt) => belt.outputs.push(o),
                None => belts.push(Belt { form, products: used.len(), outputs: vec![o] }),
            }
        }
        // A place among the codes has 32 bits.
        let w0 = op.first_weight();
        let too_large = |p: usize| site.ins[w0 + p].bytes().constant().is_none_or(|b| b >= 1 << 32);
        if (0..op.products).any(too_large) {
            return None;
        }
        let units =
            |b: &Belt| (b.outputs.iter().map(|&o| site.outs[o].width.div_ceil(SLAB)).sum::<usize>(), b.products);
        let line = |b: &Belt| 8 / b.form.bits;
        let room = |b: &Belt| SLAB * (128 + line(b) * PIECE / b.form.group * 2 * (1 + b.form.offset as usize));
        let work = Work {
            pieces: self.k().div_ceil(PIECE),
            line: belts.iter().map(line).max().unwrap_or(1),
            room: belts.iter().map(room).max().unwrap_or(0),
            belts: belts.iter().map(units).collect(),
        };
        let shape = shape(&work, caps(site))?;
        let streamed = self.streamed(half, &belts, &work, shape)?;
        if site.ins[0].is_pieces() {
            return Some(Lowering::Steps { steps: vec![streamed], scratch: vec![] });
        }
        let scratch = vec![site.ins[0].as_pieces(dtype(half)).bytes()];
        Some(Lowering::Steps { steps: vec![self.round_rows(half, true), streamed], scratch })
    }

    /// What comes or goes as pieces does so in this type; columns that fill them up would have to be zeros, so there are none.
    fn has_pieces_for(&self, half: Rounding) -> bool {
        let fits = |s: &Sig| !s.is_pieces() || s.dtype == dtype(half) && s.width.is_multiple_of(PIECE);
        let (x, others) = (&self.site.ins[0], &self.site.ins[1..]);
        let is_normed = x.is_pieces() && self.op.norm.is_some();
        !is_normed && fits(x) && !others.iter().any(Sig::is_pieces) && self.site.outs.iter().all(fits)
    }

    fn streamed(&self, half: Rounding, belts: &[Belt], work: &Work, shape: Shape) -> Option<Step> {
        let (op, site, k, w0) = (self.op, self.site, self.k(), self.op.first_weight());
        let mut unit = self.half_unit(half, shape.side * shape.along * 32);
        unit.read("ROUNDED", "u16", if site.ins[0].is_pieces() { Arg::In(0) } else { Arg::Scratch(0) });
        if !self.set_operands(&mut unit) {
            return None;
        }
        let (mut run, mut all_tiles) = (String::new(), 0);
        for belt in belts {
            let (mut find, mut finish, mut begin) = (String::new(), String::new(), 0);
            for (at, &o) in belt.outputs.iter().enumerate() {
                let n = site.outs[o].width;
                let end = begin + n.div_ceil(SLAB);
                let when = if at + 1 == belt.outputs.len() { String::new() } else { format!("if (u < {end}u) ") };
                let used = op.products_of(&op.outputs[o]);
                let choose = |rest: String, (i, p): (usize, &usize)| match rest.is_empty() {
                    true => format!("W{p}"),
                    false => format!("p == {i} ? W{p} : {rest}"),
                };
                let weight = used.iter().enumerate().rev().fold(String::new(), choose);
                find += &format!("{when}{{ row0 = (u - {begin}u) * {SLAB}, n = {n}u; return {weight}; }}\n");
                let sums: String = (0..used.len())
                    .map(|p| format!("float p{p}[8]; whole<NT>(sums + {}, p{p});\n", p * SLAB))
                    .collect();
                // Operands are asked for before the sums, which come from other blocks.
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
                let store = if site.outs[o].is_pieces() {
                    format!(
                        "*((uint4*)OUT{o} + piece_place({n}u, t, row0)) = to_piece(make_float4(v[0], v[1], v[2], v[3]), \
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
                    "{when}{{\nconst u32 row0 = (u - {begin}u) * {SLAB} + r;\n{operands}{sums}float v[8];\n_Pragma(\"unroll\")\n\
                     for (u32 i = 0; i < 8; i++) v[i] = {value};\n\
                     {store}\nreturn;\n}}\n"
                );
                begin = end;
            }
            let tiles = (begin * belt.products).div_ceil(shape.slabs);
            let weight = op.products_of(&op.outputs[belt.outputs[0]])[0];
            run += &format!(
                "if (tile < {tiles}u) {{\n\
                 auto find = [&](u32 u, u32 p, u32& row0, u32& n) -> decltype(W{weight}) {{\n{find}}};\n\
                 auto finish = [&](u32 u, u32 r, u32 t, const float* sums) {{\n{finish}}};\n\
                 run<decltype(W{weight}), {}, NT, PHASE, BUFFERS>(A, find, finish, tile, {begin}u, t0, rows, shared);\n\
                 return;\n}}\ntile -= {tiles}u;\n",
                belt.products
            );
            all_tiles += tiles;
        }
        unit.set("SLABS", shape.slabs).set("MOST", shape.most()).set("FULL", shape.full()).set("WK", shape.along);
        unit.set("CLUSTER", shape.cluster).set("TILES", all_tiles).set("ROOMS", shape.rooms_at).set("LINE", work.line);
        for ((tiles, phase), buffers) in TILES.iter().zip(shape.phase).zip(shape.buffers) {
            unit.set(&format!("PHASE_{tiles}"), phase).set(&format!("BUFFERS_{tiles}"), buffers);
        }
        unit.cluster(shape.cluster as u32).shared(shape.shared);
        unit.part(WEIGHTS).part(TENSOR).part(HALF).part(&include_str!("../stream.cu").replace("STREAM_RUN", &run));
        let cost = op.cost(site);
        let rows = site.ins[0].rows.clone();
        let read = site.ins[op.first_weight()..].iter().fold(rows.clone() * (2 * k), |a, s| a + s.bytes());
        let cost = Cost::of(read, cost.written, self.product_flops());
        let grid = Expr::CeilDiv(Box::new(rows), 8 * TILES[1] as u64) * (all_tiles * shape.cluster);
        let pieces = if site.outs.iter().any(Sig::is_pieces) { "-pieces" } else { "" };
        Some(unit.step(format!("matmul/stream.{}{pieces}", dtype(half).name()), grid, cost))
    }
}

/// What the belts of a matmul mean to its shape.
struct Work {
    /// Pieces of a row.
    pieces: usize,
    /// Pieces of a line of codes, the most of all belts.
    line: usize,
    /// Bytes of shared memory of a slab's line, the most of all belts.
    room: usize,
    /// Units of each belt and products of a unit.
    belts: Vec<(usize, usize)>,
}

/// The shape that takes least time by what single kernels took on an H200 for 32 rows, in microseconds: a piece of a slab on
/// a scheduler, a piece of activations, a block, each further block of a cluster, each further warp along the columns, each
/// warp.
fn shape(work: &Work, caps: CudaCaps) -> Option<Shape> {
    const SLAB_US: f64 = 0.225;
    const TOKENS_US: f64 = 0.1;
    const BLOCK_US: f64 = 3.2;
    const CLUSTER_US: f64 = 0.2;
    const ALONG_US: f64 = 0.35;
    const WARP_US: f64 = 0.02;
    let products = work.belts.iter().map(|b| b.1).max().unwrap_or(1);
    let mut best: Option<(f64, Shape)> = None;
    let lines = work.pieces.div_ceil(work.line);
    for (cluster, along) in [1, 2, 4, 8].into_iter().flat_map(|c| [1, 2, 4].map(|a| (c, a))) {
        let share = lines.div_ceil(cluster);
        if cluster > 1 && caps.sm < 90 || cluster > lines || along > share {
            continue;
        }
        // Clusters of more than two lie within parts of the device that are no multiples of them.
        let sms = caps.sms as usize;
        let places = if cluster > 2 { (sms * 10 / 11 / cluster).max(1) * cluster } else { sms };
        for most in 1..=MOST_SLABS {
            for side in 1..=MOST_WARPS / along {
                for slabs in (side.max(side * (most - 1) + 1)..=side * most).filter(|s| s.is_multiple_of(products)) {
                    let Some(shape) = cut(work, slabs, side, along, cluster, caps.shared as usize) else { continue };
                    let busy = |scheduler: usize| -> usize {
                        let warps = (scheduler..side * along).step_by(SCHEDULERS);
                        let slabs = |w: usize| if w / along < shape.full() { most } else { most - 1 };
                        warps.map(|w| slabs(w) * (share - w % along).div_ceil(along) * work.line).sum()
                    };
                    let busiest = (0..SCHEDULERS).map(busy).max().unwrap_or(0);
                    let blocks = work.belts.iter().map(|(n, p)| (n * p).div_ceil(slabs)).sum::<usize>() * cluster;
                    // Few warps wait, and those that wait for phases.
                    let few = if side * along < 8 { 1.25 } else { 1.0 };
                    let idle = few * if shape.buffers.contains(&2) { 1.1 } else { 1.0 };
                    let block = BLOCK_US
                        + CLUSTER_US * (cluster - 1) as f64
                        + ALONG_US * (along - 1) as f64
                        + WARP_US * (side * along) as f64;
                    let tokens = (share * work.line) as f64 * TOKENS_US;
                    let time = blocks.div_ceil(places) as f64 * (busiest as f64 * SLAB_US * idle + tokens + block);
                    if best.as_ref().is_none_or(|(least, _)| time < *least) {
                        best = Some((time, shape));
                    }
                }
            }
        }
    }
    best.map(|(_, shape)| shape)
}

/// A shape whose phases fit shared memory of `most` bytes beside the rooms of weights.
fn cut(work: &Work, slabs: usize, side: usize, along: usize, cluster: usize, most: usize) -> Option<Shape> {
    let rounds = work.pieces.div_ceil(work.line).div_ceil(cluster).div_ceil(along);
    let rooms = side * slabs.div_ceil(side) * along * work.room;
    let room = most.checked_sub(rooms)?;
    // All activations at once, or phases of which two are there.
    let round = TILES.map(|t| along * work.line * t * TOKENS);
    let phase = round.map(|bytes| if rounds * bytes <= room { rounds } else { room / 2 / bytes });
    let buffers = phase.map(|p| if p == rounds { 1 } else { 2 });
    let bytes = |i: usize| round[i] * phase[i] * buffers[i];
    let sums = along * TILES[1] * 8 * (slabs * SLAB + 4) * 4;
    let rooms_at = bytes(0).max(bytes(1));
    let shared = (rooms_at + rooms).max(sums);
    (shared <= most && phase.iter().all(|&p| p > 0)).then_some(Shape {
        slabs,
        side,
        along,
        cluster,
        phase,
        buffers,
        rooms_at,
        shared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of 4 bits, with a scale for each 32.
    fn work(pieces: usize, units: usize, products: usize) -> Work {
        Work { pieces, line: 2, room: SLAB * (128 + 16), belts: vec![(units, products)] }
    }

    /// Slabs, warps side by side and along the columns, and cluster for 132 multiprocessors.
    fn chosen(pieces: usize, units: usize, products: usize) -> [usize; 4] {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() };
        let s = shape(&work(pieces, units, products), caps).unwrap();
        [s.slabs, s.side, s.along, s.cluster]
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
        for (pieces, units) in [(1, 1), (1, 3), (7, 36), (5, 2), (224, 1), (32, 8016)] {
            for caps in [old, CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() }] {
                for products in [1, 2] {
                    let s = shape(&work(pieces, units, products), caps).unwrap();
                    assert!(s.shared <= caps.shared as usize && s.phase.iter().all(|&p| p > 0), "{s:?}");
                    assert!(
                        s.side * s.along <= MOST_WARPS && s.most() <= MOST_SLABS && s.slabs.is_multiple_of(products),
                        "{s:?}"
                    );
                    assert!((1..=s.side).contains(&s.full()) && (s.cluster == 1 || caps.sm >= 90), "{s:?}");
                }
            }
        }
    }
}
