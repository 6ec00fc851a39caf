//! Matmul of 9 to 64 rows whose weights are codes, in 16-bit numbers: see `round.cu` and `stream.cu`. Activations that their
//! maker gives as pieces ([`crate::tensor::Role::Pieces`]) are not rounded again.

use super::halves::dtype;
use super::*;
use crate::cuda::{HALF, TENSOR};
use crate::precision::Rounding;

/// Rows of a weight that a warp has, in slabs of 16 of one product.
const UNIT: usize = 32;
const SLAB: usize = 16;
/// Columns of a piece.
const PIECE: usize = 128;
/// Tiles of eight tokens that kernels are made for: up to 16 rows, and more.
const TILES: [usize; 2] = [2, 4];
/// Bytes of eight tokens of a piece.
const TOKENS: usize = 8 * PIECE * 2;
/// Warps of a block: registers hold no more.
const MOST_WARPS: usize = 16;

/// Outputs whose products have one form.
struct Belt {
    form: PlaneSpec,
    /// Products of an output.
    products: usize,
    outputs: Vec<usize>,
}

/// How a block is cut: units side by side, warps along the columns, blocks of a cluster, pieces of a warp whose activations
/// are there at once by [`TILES`], bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    units: usize,
    along: usize,
    cluster: usize,
    phase: [usize; 2],
    shared: usize,
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
            if used.len() > UNIT / SLAB || used.iter().any(|&p| self.products[p].planes != Some(form)) {
                return None;
            }
            match belts.iter_mut().find(|b| (b.form, b.products) == (form, used.len())) {
                Some(belt) => belt.outputs.push(o),
                None => belts.push(Belt { form, products: used.len(), outputs: vec![o] }),
            }
        }
        let units =
            |b: &Belt| -> usize { b.outputs.iter().map(|&o| site.outs[o].width.div_ceil(UNIT / b.products)).sum() };
        let units: Vec<usize> = belts.iter().map(units).collect();
        let shape = shape(self.k().div_ceil(PIECE), &units, caps(site))?;
        let streamed = self.streamed(half, &belts, shape)?;
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

    fn streamed(&self, half: Rounding, belts: &[Belt], shape: Shape) -> Option<Step> {
        let (op, site, k) = (self.op, self.site, self.k());
        let mut unit = self.half_unit(half, shape.units * shape.along * 32);
        unit.read("ROUNDED", "u16", if site.ins[0].is_pieces() { Arg::In(0) } else { Arg::Scratch(0) });
        if !self.set_operands(&mut unit) {
            return None;
        }
        let (mut run, mut all_tiles) = (String::new(), 0);
        for belt in belts {
            let (outs, slabs) = (UNIT / belt.products, UNIT / SLAB / belt.products);
            let (mut find, mut finish, mut begin) = (String::new(), String::new(), 0);
            for (at, &o) in belt.outputs.iter().enumerate() {
                let n = site.outs[o].width;
                let end = begin + n.div_ceil(outs);
                let when = if at + 1 == belt.outputs.len() { String::new() } else { format!("if (u < {end}u) ") };
                let used = op.products_of(&op.outputs[o]);
                let choose = |rest: String, (i, p): (usize, &usize)| match rest.is_empty() {
                    true => format!("W{p}"),
                    false => format!("m < {} ? W{p} : {rest}", (i + 1) * slabs),
                };
                let weight = used.iter().enumerate().rev().fold(String::new(), choose);
                find += &format!(
                    "{when}{{ row0 = (u - {begin}u) * {outs} + m % {slabs} * {SLAB}, n = {n}u; return {weight}; }}\n"
                );
                let sums: String = (0..used.len())
                    .map(|p| format!("float p{p}[8]; whole<NT>(sums + {}, p{p});\n", p * outs))
                    .collect();
                let value = self.value(o, &|place| format!("p{place}[i]"));
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
                    "{when}{{\nconst u32 row0 = (u - {begin}u) * {outs} + r;\n{sums}float v[8];\n_Pragma(\"unroll\")\n\
                     for (u32 i = 0; i < 8; i++) {{ const u32 row = row0 + i; v[i] = row < {n}u ? {value} : 0.0f; }}\n\
                     {store}\nreturn;\n}}\n"
                );
                begin = end;
            }
            let tiles = begin.div_ceil(shape.units);
            let weight = op.products_of(&op.outputs[belt.outputs[0]])[0];
            run += &format!(
                "if (tile < {tiles}u) {{\n\
                 auto find = [&](u32 u, u32 m, u32& row0, u32& n) -> decltype(W{weight}) {{\n{find}}};\n\
                 auto finish = [&](u32 u, u32 r, u32 t, const float* sums) {{\n{finish}}};\n\
                 run<decltype(W{weight}), NT, PHASE, {outs}>(A, find, finish, tile, {begin}u, t0, rows, shared);\n\
                 return;\n}}\ntile -= {tiles}u;\n"
            );
            all_tiles += tiles;
        }
        unit.set("WR", shape.units).set("WK", shape.along).set("CLUSTER", shape.cluster).set("TILES", all_tiles);
        for (tiles, phase) in TILES.iter().zip(shape.phase) {
            unit.set(&format!("PHASE_{tiles}"), phase);
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

/// The shape that takes least time for weights of `pieces` pieces and so many units of each belt, by what single kernels
/// took on an H200 for 32 rows, in microseconds: a piece of a unit, a piece of activations, a block, and each further block
/// of a cluster.
fn shape(pieces: usize, units: &[usize], caps: CudaCaps) -> Option<Shape> {
    const UNIT_US: f64 = 0.118;
    const TOKENS_US: f64 = 0.16;
    const BLOCK_US: f64 = 4.0;
    const CLUSTER_US: f64 = 0.6;
    let room = caps.shared as usize;
    let mut best: Option<(f64, Shape)> = None;
    for (cluster, along) in [1, 2, 4, 8].into_iter().flat_map(|c| [1, 2, 4].map(|a| (c, a))) {
        let share = pieces.div_ceil(cluster);
        if cluster > 1 && caps.sm < 90 || cluster > pieces || along > share {
            continue;
        }
        // Clusters of more than two lie within parts of the device that are no multiples of them.
        let sms = caps.sms as usize;
        let places = if cluster > 2 { (sms * 10 / 11 / cluster).max(1) * cluster } else { sms };
        for side in 1..=MOST_WARPS / along {
            // All pieces at once, or phases of which two are there.
            let phase = TILES.map(|t| {
                let (all, most) = (share.div_ceil(along), room / (along * t * TOKENS));
                let phases = if all <= most { 1 } else { all.div_ceil((most / 2).max(1)) };
                all.div_ceil(phases)
            });
            let bytes = |i: usize| {
                let buffers = if phase[i] * along < share { 2 } else { 1 };
                let sums = along * TILES[i] * 8 * (side * UNIT + 4) * 4;
                (along * TILES[i] * TOKENS * phase[i] * buffers).max(sums)
            };
            let shared = bytes(0).max(bytes(1));
            if shared > room {
                continue;
            }
            let blocks = units.iter().map(|u| u.div_ceil(side)).sum::<usize>() * cluster;
            let idle = if side * along < 8 { 1.25 } else { 1.0 };
            let block = BLOCK_US + CLUSTER_US * (cluster - 1) as f64;
            let work = share as f64 * (side as f64 * UNIT_US * idle + TOKENS_US);
            let time = blocks.div_ceil(places) as f64 * (work + block);
            if best.as_ref().is_none_or(|(least, _)| time < *least) {
                best = Some((time, Shape { units: side, along, cluster, phase, shared }));
            }
        }
    }
    best.map(|(_, shape)| shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units, warps along the columns and cluster for 132 multiprocessors.
    fn cut(pieces: usize, units: usize) -> [usize; 3] {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() };
        let s = shape(pieces, &[units], caps).unwrap();
        [s.units, s.along, s.cluster]
    }

    #[test]
    fn shapes_are_those_that_were_fastest_where_they_were_measured() {
        // Llama-8B: gate and up, queries keys and values, output, down.
        assert_eq!(cut(32, 896), [14, 1, 2]);
        assert_eq!(cut(32, 192), [3, 4, 2]);
        assert_eq!(cut(32, 128), [2, 4, 2]);
        assert_eq!(cut(112, 128), [9, 1, 8]);
    }

    #[test]
    fn narrow_weights_and_small_devices_have_a_shape() {
        let old = CudaCaps { sm: 80, sms: 40, shared: 99 << 10, ..CudaCaps::default() };
        for (pieces, units) in [(1, 1), (1, 3), (7, 36), (5, 2), (224, 1), (32, 4008)] {
            for caps in [old, CudaCaps { sm: 90, sms: 132, shared: 227 << 10, ..CudaCaps::default() }] {
                let s = shape(pieces, &[units], caps).unwrap();
                assert!(s.shared <= caps.shared as usize && s.units * s.along <= MOST_WARPS && s.phase[1] > 0, "{s:?}");
                assert!(s.cluster == 1 || caps.sm >= 90);
            }
        }
    }
}
