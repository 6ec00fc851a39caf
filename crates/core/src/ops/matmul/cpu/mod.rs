//! Matmul on the CPU. A work item is a tile of 16 rows of an output: all products of its expression tree, for all tokens, then
//! the tree as epilogue. Adjacent tiles of a worker are computed as a run, with a single epilogue.
//!
//! - up to 8 rows: one launch; every worker recomputes the prologue (norm, activation quantization to int8), which takes less
//!   time than a further fork–join barrier.
//! - more rows: two launches, the prologue row by row into scratch slots, then the products tile by tile.
//!
//! The times below are of reading two weights (gate and up) for one row in one thread, 4.2 MB of Q4_1 in all. A single weight
//! of that size takes 126 µs.
//! - 1: alternating tiles of the two weights, with an epilogue after each pair: 174 to 221 µs. The integer kernel alone reads
//!   two alternating weights as fast as one (34 GB/s, `simd_bench … streams`), so the pauses for the epilogue must break the
//!   stream. 16 tiles of one weight, 16 of the other and one epilogue for all were expected to take as long as a single weight
//!   and 205 epilogues, 140 µs.
//! - 2: this run of 16 tiles: 140 to 148 µs (Q4_K 225 → 144, Q6_K 283 → 141; the epilogue of an item 0.125 → 0.052 µs). With
//!   4 tiles: 170.
//! - 3: runs for a single weight too: rows of 4096, 4 tiles a run, 187 → 154 µs (16 tiles: 153). Rows of 1024 lose, for a
//!   reason not found: 0.27 MB 9.4 → 10.7 µs, 4.2 MB 125 → 127 (16 tiles: 132); in Qwen2.5-0.5B the output projection took
//!   502 → 601 µs a tick. So short rows have one tile a run.
//!
//! What brought nothing: prefetching the next run's first 1 to 4 KB before the epilogue. In the kernel, for one token:
//! prefetching planes 1 to 4 KB ahead, also with a non-temporal hint or to L2 only (−5 to −25 %), or prefetching activations
//! (their 5 KB for 4096 columns do not survive a tile's 37 KB in L1, and are 13 % more lines to fetch). Blocks of 2048
//! columns, with which they do survive: 17 GB/s instead of 27, as a stream must read contiguous memory.
//! (AMD EPYC Zen 4, 2 cores shared with other work, 2026-11-29; µs of `calibrate`'s chains.)

use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::scratch::Scratch;
use onetrip_ir::kernel::CpuKernel;
use std::ops::Range;

use std::sync::Arc;

use super::*;
use crate::ops::elementwise::{CHUNK, eval_chunk};
use onetrip_ir::formats::tile::TileLayout;
use onetrip_ir::simd::{DotRows, FloatKind, q8_row_bytes};
use onetrip_ir::tensor::tile_layout;

/// Rows of each weight in a tile, which is a work item.
const ROWS: usize = 16;
/// Most tokens times tiles between two epilogues, so that the products of a run stay in L1.
const TOKENS: usize = 64;
/// Most tiles of a run, that is between two epilogues: all tiles of the first product are computed, then those of the second.
const RUN: usize = 16;
/// Most tiles of a run for an output of one product with rows longer than [`LONG`]; with shorter rows a run is one tile.
const RUN_ALONE: usize = 4;
/// Rows with more columns than this make runs of several tiles faster for a single weight.
const LONG: usize = 2048;

/// How one product is computed.
#[derive(Clone)]
enum Path {
    /// Interleaved rows, int8 activations.
    Tile(TileLayout),
    /// Stored floats, f32 activations.
    Float(FloatKind),
    /// Quantized rows dequantized to f32 first, f32 activations.
    Dequantize,
    /// Interleaved rows dequantized to f32 first, f32 activations.
    DequantizeTile(TileLayout),
}

struct Product {
    path: Path,
    dtype: DType,
    rows: usize,
    row_bytes: usize,
}

/// A worker's activations, in f32 and in int8, and its scratch memory.
struct Work<'a> {
    x: &'a [f32],
    q8: &'a [u8],
    acc: &'a mut [u8],
    dequantized: &'a mut [u8],
}

struct Kernel {
    op: Matmul,
    k: usize,
    products: Vec<Product>,
    /// For each output: its products, its width in columns, and the number of tiles of the outputs before it.
    outputs: Vec<(Vec<usize>, usize, usize)>,
    operand_is_row: Vec<bool>,
    q8: bool,
    float: bool,
    ins: usize,
    rows: Expr,
}

pub(super) mod select;

pub(super) fn lower(op: &Matmul, site: &OpSite) -> Lowering {
    let (w0, o0) = (op.first_weight(), op.first_operand());
    let k = site.ins[0].width;
    let mut products = vec![];
    for w in &site.ins[w0..o0] {
        let tile = if w.layout() == Layout::Tile16 { tile_layout(w.dtype, k) } else { None };
        let path = match (w.dtype, w.layout(), tile) {
            (DType::F32, Layout::Stored, _) => Path::Float(FloatKind::F32),
            (DType::F16, Layout::Stored, _) => Path::Float(FloatKind::F16),
            (DType::BF16, Layout::Stored, _) => Path::Float(FloatKind::Bf16),
            (_, Layout::Stored, _) => Path::Dequantize,
            (_, Layout::Tile16, Some(tile)) if site.compute == Compute::Int8 => Path::Tile(tile),
            (_, Layout::Tile16, Some(tile)) => Path::DequantizeTile(tile),
            (_, Layout::Planes, _) => return Lowering::Gap("weights in planes are for GPUs"),
            (_, Layout::Tile16, None) => return Lowering::Gap("this width has no row-interleaved layout"),
        };
        let rows = w.rows.constant().unwrap_or(0) as usize;
        products.push(Product { path, dtype: w.dtype, rows, row_bytes: w.row_bytes() });
    }
    let mut tiles = 0;
    let outputs: Vec<_> = op
        .outputs
        .iter()
        .zip(&site.outs)
        .map(|(tree, out)| {
            let entry = (op.products_of(tree), out.width, tiles);
            tiles += out.width.div_ceil(ROWS);
            entry
        })
        .collect();
    let q8 = products.iter().any(|p| matches!(p.path, Path::Tile(_)));
    let float = products.iter().any(|p| !matches!(p.path, Path::Tile(_)));
    let form = match (q8, float) {
        (true, false) => "tile16",
        (true, true) => "mixed",
        _ if products.iter().all(|p| matches!(p.path, Path::Float(_))) => "float",
        _ => "dequant",
    };
    let kernel = Arc::new(Kernel {
        op: op.clone(),
        k,
        products,
        outputs,
        operand_is_row: site.ins[o0..].iter().map(|s| s.rows.constant() == Some(1)).collect(),
        q8,
        float,
        ins: site.ins.len(),
        rows: site.ins[0].rows.clone(),
    });
    let site = CpuMatmul { op, site, kernel, form, tiles };
    Lowering::selected(crate::select::select(CpuMatmul::CANDIDATES, site.site.bucket, &site))
}

/// A site of the op with the kernel that all launches share, what its weights are for the kernel's name, and its tiles.
struct CpuMatmul<'a> {
    op: &'a Matmul,
    site: &'a OpSite,
    kernel: Arc<Kernel>,
    form: &'static str,
    tiles: usize,
}

impl CpuMatmul<'_> {
    fn id(&self, name: &'static str) -> KernelId {
        KernelId::new("matmul", name).norm(self.op.norm.is_some())
    }

    fn operands(&self) -> impl Iterator<Item = Arg> {
        (0..self.site.ins.len()).map(Arg::In).chain((0..self.site.outs.len()).map(Arg::Out))
    }

    /// Rows are normed or quantized before they are multiplied.
    fn needs_prologue(&self) -> bool {
        self.kernel.q8 || self.op.norm.is_some()
    }

    /// One launch, in which every worker prepares the rows for itself.
    fn gemv_multi(&self) -> Lowering {
        let kernel = self.kernel.clone();
        let id = self.id("gemv_multi").quantizing(kernel.q8).variant(self.form);
        let code: CpuKernel = Arc::new(move |c, s| kernel.small(c, s));
        let cost = self.op.cost(self.site);
        Lowering::steps(vec![launch(id, self.operands().collect(), self.tiles.into(), cost, code)], vec![])
    }

    /// The prologue, row by row into scratch slots, then the products.
    fn gemm(&self) -> Lowering {
        let (op, site, k, w0) = (self.op, self.site, self.kernel.k, self.op.first_weight());
        let Kernel { q8, float, .. } = *self.kernel;
        let (rows, cost) = (site.ins[0].rows.clone(), op.cost(site));
        let q8_bytes = if q8 { rows.clone() * q8_row_bytes(k) } else { Expr::Const(0) };
        let f32_bytes = if op.norm.is_some() && float { rows.clone() * (4 * k) } else { Expr::Const(0) };
        let scratch = vec![q8_bytes.clone(), f32_bytes.clone()];
        let made = q8_bytes + f32_bytes;
        let prologue = Cost::of(
            site.ins[..w0].iter().fold(Expr::Const(0), |a, s| a + s.bytes()),
            made.clone(),
            if op.norm.is_some() { rows.clone() * (4 * k) } else { Expr::Const(0) },
        );
        let raw_x = if float && op.norm.is_none() { site.ins[0].bytes() } else { Expr::Const(0) };
        let product = Cost::of(
            site.ins[w0..].iter().fold(made + raw_x, |a, s| a + s.bytes()),
            cost.written,
            cost.flops, // The norm's few operations are counted in both dispatches of the plan.
        );
        let args: Vec<Arg> = self.operands().chain([Arg::Scratch(0), Arg::Scratch(1)]).collect();
        let (first, second) = (self.kernel.clone(), self.kernel.clone());
        let first: CpuKernel = Arc::new(move |c, s| first.prologue_launch(c, s));
        let second: CpuKernel = Arc::new(move |c, s| second.large(c, s));
        let prologue_id = self.id(if q8 { "quantize" } else { "rows" }).quantizing(q8);
        let id = KernelId::new("matmul", "gemm").variant(self.form);
        let launches = vec![
            launch(prologue_id, args.clone(), rows, prologue, first),
            launch(id, args, self.tiles.into(), product, second),
        ];
        Lowering::steps(launches, scratch)
    }
}

fn launch(kernel: KernelId, args: Vec<Arg>, grid: Expr, cost: Cost, code: CpuKernel) -> Launch {
    Launch { kernel, code: Code::Cpu(code), args, grid, grain: 1, cost, grid_syncs: 0 }
}

impl Kernel {
    /// Norms a row of x into `normed`, if there is a norm, and quantizes it into `q8`, if a product needs int8 activations.
    fn prologue(&self, c: &CpuCall, row: usize, normed: &mut [f32], q8: &mut [u8]) {
        let x = &c.f32s(0)[row * self.k..(row + 1) * self.k];
        let x = match self.op.norm {
            Some(eps) => {
                (c.simd.rms_norm)(x, Some(c.f32s(1)), eps, normed);
                &*normed
            }
            None => x,
        };
        if self.q8 {
            (c.simd.quantize_q8)(x, q8);
        }
    }

    fn prologue_launch(&self, c: &CpuCall, scratch: &mut Scratch) {
        let q8_arg = self.ins + self.outputs.len();
        let bytes = if self.q8 { q8_row_bytes(self.k) } else { 0 };
        let keep = self.op.norm.is_some() && self.float;
        while let Some(range) = c.items.take() {
            for row in range {
                let q8 = c.write_bytes(q8_arg, row * bytes..(row + 1) * bytes);
                if keep {
                    self.prologue(c, row, c.write(q8_arg + 1, row * self.k..(row + 1) * self.k), q8);
                } else {
                    let [normed] = scratch.split_f32([self.k]);
                    self.prologue(c, row, normed, q8);
                }
            }
        }
    }

    fn small(&self, c: &CpuCall, scratch: &mut Scratch) {
        let Some(mut range) = c.items.take() else { return };
        let n = self.rows.eval(c.bind) as usize;
        let q8_bytes = if self.q8 { q8_row_bytes(self.k) } else { 0 };
        let normed_len = if self.op.norm.is_some() { self.k } else { 0 };
        let [normed, q8, acc, dequantized] =
            scratch.split([n * normed_len * 4, n * q8_bytes, self.acc_bytes(), self.dequantized_bytes()]);
        let normed: &mut [f32] = bytemuck::cast_slice_mut(normed);
        for row in 0..n {
            let normed = &mut normed[row * normed_len..(row + 1) * normed_len];
            self.prologue(c, row, normed, &mut q8[row * q8_bytes..(row + 1) * q8_bytes]);
        }
        let x = if self.op.norm.is_some() { &*normed } else { c.f32s(0) };
        let mut work = Work { x, q8, acc, dequantized };
        loop {
            self.items(c, range, n, &mut work);
            range = match c.items.take() {
                Some(range) => range,
                None => return,
            };
        }
    }

    fn large(&self, c: &CpuCall, scratch: &mut Scratch) {
        let n = self.rows.eval(c.bind) as usize;
        let q8_arg = self.ins + self.outputs.len();
        let q8 = c.bytes(q8_arg);
        let x = if self.op.norm.is_some() { c.f32s(q8_arg + 1) } else { c.f32s(0) };
        let [acc, dequantized] = scratch.split([self.acc_bytes(), self.dequantized_bytes()]);
        let mut work = Work { x, q8, acc, dequantized };
        while let Some(range) = c.items.take() {
            self.items(c, range, n, &mut work);
        }
    }

    /// Bytes of scratch for the products of one run.
    fn acc_bytes(&self) -> usize {
        let products = self.outputs.iter().map(|(used, ..)| used.len()).max().unwrap_or(0);
        products * TOKENS * ROWS * 4
    }

    /// Bytes of scratch for the dequantized rows of a tile.
    fn dequantized_bytes(&self) -> usize {
        let dequantized = self.products.iter().any(|p| matches!(p.path, Path::Dequantize | Path::DequantizeTile(_)));
        if dequantized { ROWS * self.k * 4 } else { 0 }
    }

    /// Computes a range of items, as runs of tiles of one output that are as equally long as possible.
    fn items(&self, c: &CpuCall, mut range: Range<usize>, n: usize, work: &mut Work) {
        while !range.is_empty() {
            let o = self.outputs.iter().rposition(|(_, _, before)| *before <= range.start).unwrap_or(0);
            let (used, width, before) = &self.outputs[o];
            let run = match used.len() {
                1 if self.k <= LONG => 1,
                1 => RUN_ALONE,
                _ => RUN,
            };
            let most = (TOKENS / n.max(1)).clamp(1, run);
            let left = range.end.min(before + width.div_ceil(ROWS)) - range.start;
            let tiles = left.div_ceil(left.div_ceil(most));
            self.run(c, o, range.start - before..range.start - before + tiles, n, work);
            range.start += tiles;
        }
    }

    /// Computes a run of tiles of output `o` for all `n` rows of x. Several tiles need `tiles.len() * n <= TOKENS`.
    fn run(&self, c: &CpuCall, o: usize, tiles: Range<usize>, n: usize, work: &mut Work) {
        let (used, width, _) = &self.outputs[o];
        let Work { x, q8, acc, dequantized } = work;
        let acc: &mut [[f32; ROWS]] = bytemuck::cast_slice_mut(acc);
        for first in (0..n).step_by(TOKENS) {
            let tokens = (n - first).min(TOKENS);
            for (i, &p) in used.iter().enumerate() {
                for (tile, out) in tiles.clone().zip(acc[i * TOKENS..].chunks_mut(tokens)) {
                    let n_rows = (width - tile * ROWS).min(ROWS);
                    self.product(c, p, tile, n_rows, (first, tokens), x, q8, dequantized, out);
                }
            }
            let slots = tiles.len() * tokens;
            for at in (0..slots).step_by(CHUNK / ROWS) {
                let slots = at..(at + CHUNK / ROWS).min(slots);
                let acc = |i: usize| acc[i * TOKENS..][slots.clone()].as_flattened();
                let place = |slot: usize| ((tiles.start + slot / tokens) * ROWS, first + slot % tokens);
                self.epilogue(c, o, slots.clone().map(place), &acc);
            }
        }
    }

    /// `out[t][r]` = row r of the tile times row `first + t` of x.
    #[allow(clippy::too_many_arguments)]
    fn product(
        &self,
        c: &CpuCall,
        p: usize,
        tile: usize,
        n_rows: usize,
        (first, tokens): (usize, usize),
        x: &[f32],
        q8: &[u8],
        dequantized: &mut [u8],
        out: &mut [[f32; ROWS]],
    ) {
        let product = &self.products[p];
        let weight = c.bytes(self.op.first_weight() + p);
        debug_assert!(tile * ROWS + n_rows <= product.rows);
        let stored = |rows: Range<usize>| &weight[rows.start * product.row_bytes..rows.end * product.row_bytes];
        let row0 = tile * ROWS;
        let (kind, rows, row_bytes): (FloatKind, &[u8], usize) = match &product.path {
            Path::Tile(layout) => {
                let bytes = layout.tile_bytes();
                let q8_bytes = q8_row_bytes(self.k);
                let acts = &q8[first * q8_bytes..(first + tokens) * q8_bytes];
                return (c.simd.dot_tile)(layout, &weight[tile * bytes..(tile + 1) * bytes], acts, tokens, out);
            }
            Path::Float(kind) => (*kind, stored(row0..row0 + n_rows), product.row_bytes),
            Path::Dequantize => {
                let to: &mut [f32] = bytemuck::cast_slice_mut(&mut dequantized[..n_rows * self.k * 4]);
                product.dtype.def().dequantize(stored(row0..row0 + n_rows), to);
                (FloatKind::F32, &dequantized[..n_rows * self.k * 4], self.k * 4)
            }
            Path::DequantizeTile(layout) => {
                let bytes = layout.tile_bytes();
                let to: &mut [f32] = bytemuck::cast_slice_mut(&mut dequantized[..n_rows * self.k * 4]);
                for (r, to) in to.chunks_exact_mut(self.k).enumerate() {
                    layout.row(&weight[tile * bytes..(tile + 1) * bytes], r, to);
                }
                (FloatKind::F32, &dequantized[..n_rows * self.k * 4], self.k * 4)
            }
        };
        let k = self.k;
        let acts = &x[first * k..(first + tokens) * k];
        let operands = DotRows { kind, rows, row_bytes, n_rows, k, acts, act_stride: k, n_tokens: tokens };
        (c.simd.dot_rows)(&operands, out.as_flattened_mut(), ROWS);
    }

    /// Evaluates the tree of output `o` for 16 columns at each of `places` (column, row), all at once. `acc(i)` gives the
    /// values of the output's product `i` at these places.
    fn epilogue<'a>(
        &self,
        c: &CpuCall,
        o: usize,
        places: impl ExactSizeIterator<Item = (usize, usize)> + Clone,
        acc: &dyn Fn(usize) -> &'a [f32],
    ) {
        let tree = &self.op.outputs[o];
        let (used, width, _) = &self.outputs[o];
        let at = |(column, row): (usize, usize), rows: bool| {
            let start = if rows { row * width + column } else { column };
            start..start + (width - column).min(ROWS)
        };
        let mut made = [0f32; CHUNK];
        let out = &mut made[..places.len() * ROWS];
        let mut leaf = |l: usize, out: &mut [f32]| {
            if let Some(i) = used.iter().position(|&p| p == l) {
                return out.copy_from_slice(acc(i));
            }
            let i = l - self.op.products;
            let operand = c.f32s(self.op.first_operand() + i);
            for (place, out) in places.clone().zip(out.chunks_exact_mut(ROWS)) {
                let from = &operand[at(place, !self.operand_is_row[i])];
                out[..from.len()].copy_from_slice(from);
            }
        };
        let values = match tree {
            Tree::In(_) => acc(0),
            _ => {
                eval_chunk(c.simd, tree, &mut leaf, out);
                &*out
            }
        };
        for (place, values) in places.zip(values.chunks_exact(ROWS)) {
            let to = c.write(self.ins + o, at(place, true));
            to.copy_from_slice(&values[..to.len()]);
        }
    }
}
