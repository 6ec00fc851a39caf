//! Matmul on the CPU. A work item is 16 rows of an output: all products of its tree, for all tokens, then the tree.
//!
//! - up to 8 rows: one launch; every worker redoes the prologue (norm, rounding to int8) for itself, which costs less
//!   than a join.
//! - more rows: two launches, the prologue by rows into scratch slots, then the product by tiles.

use super::*;
use crate::formats::tile::TileLayout;
use crate::ops::elementwise::{CHUNK, eval_chunk};
use crate::simd::{DotRows, FloatKind, q8_row_bytes};
use crate::tensor::tile_layout;

/// Rows of weights in a work item.
const ROWS: usize = 16;
/// Tokens between two epilogues: the products stay in the first-level cache.
const TOKENS: usize = 64;

/// How one product is computed.
#[derive(Clone)]
enum Path {
    /// Interleaved rows, int8 activations.
    Tile(TileLayout),
    /// Stored floats, f32 activations.
    Float(FloatKind),
    /// Quantized rows widened to f32 first, f32 activations.
    Widen,
    /// Interleaved rows widened to f32 first, f32 activations.
    WidenTile(TileLayout),
}

struct Product {
    path: Path,
    dtype: DType,
    rows: usize,
    row_bytes: usize,
}

struct Kernel {
    op: Matmul,
    k: usize,
    products: Vec<Product>,
    /// Products of each output, its width, and the tiles before it.
    outputs: Vec<(Vec<usize>, usize, usize)>,
    operand_is_row: Vec<bool>,
    q8: bool,
    float: bool,
    ins: usize,
    rows: Expr,
}

pub(super) fn lower(op: &Matmul, site: &Site) -> Lowering {
    let (w0, o0) = (op.first_weight(), op.first_operand());
    let k = site.ins[0].width;
    let mut products = vec![];
    for w in &site.ins[w0..o0] {
        let tile = if w.layout() == Layout::Tile16 { tile_layout(w.dtype, k) } else { None };
        let path = match (w.dtype, w.layout(), tile) {
            (DType::F32, Layout::Stored, _) => Path::Float(FloatKind::F32),
            (DType::F16, Layout::Stored, _) => Path::Float(FloatKind::F16),
            (DType::BF16, Layout::Stored, _) => Path::Float(FloatKind::Bf16),
            (_, Layout::Stored, _) => Path::Widen,
            (_, Layout::Tile16, Some(tile)) if site.compute == Compute::Int8 => Path::Tile(tile),
            (_, Layout::Tile16, Some(tile)) => Path::WidenTile(tile),
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
        _ => "widen",
    };
    let rows = site.ins[0].rows.clone();
    let kernel = Arc::new(Kernel {
        op: op.clone(),
        k,
        products,
        outputs,
        operand_is_row: site.ins[o0..].iter().map(|s| s.rows.constant() == Some(1)).collect(),
        q8,
        float,
        ins: site.ins.len(),
        rows: rows.clone(),
    });
    let norm = if op.norm.is_some() { "norm+" } else { "" };
    let cost = op.cost(site);
    let operands = (0..site.ins.len()).map(Arg::In).chain((0..site.outs.len()).map(Arg::Out));
    let step = |name: String, args: Vec<Arg>, grid, cost, code: CpuKernel| Step {
        kernel: name,
        code: Code::Cpu(code),
        args,
        grid,
        grain: 1,
        cost,
        grid_syncs: 0,
    };
    let needs_rows = q8 || op.norm.is_some();
    if site.class.is_small() || !needs_rows {
        let code: CpuKernel = Arc::new(move |c, s| kernel.small(c, s));
        let name = format!("matmul/{norm}{form}.rows");
        return Lowering::Steps {
            steps: vec![step(name, operands.collect(), tiles.into(), cost, code)],
            scratch: vec![],
        };
    }
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
        cost.flops, // The norm's few operations are counted in both rows of the plan.
    );
    let args: Vec<Arg> = operands.chain([Arg::Scratch(0), Arg::Scratch(1)]).collect();
    let first = kernel.clone();
    let what = if q8 { "quantize" } else { "rows" };
    Lowering::Steps {
        steps: vec![
            step(
                format!("matmul/{norm}{what}"),
                args.clone(),
                rows,
                prologue,
                Arc::new(move |c, s| first.prologue_step(c, s)),
            ),
            step(format!("matmul/{form}.tiles"), args, tiles.into(), product, Arc::new(move |c, s| kernel.large(c, s))),
        ],
        scratch,
    }
}

impl Kernel {
    /// Norm and rounding of rows `first..` of x into `x_out` (if a float path or the norm needs it) and `q8_out`.
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

    fn prologue_step(&self, c: &CpuCall, scratch: &mut Scratch) {
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
        let [normed, q8, acc, wide] =
            scratch.split([n * normed_len * 4, n * q8_bytes, self.acc_bytes(), self.wide_bytes()]);
        let normed: &mut [f32] = bytemuck::cast_slice_mut(normed);
        for row in 0..n {
            let normed = &mut normed[row * normed_len..(row + 1) * normed_len];
            self.prologue(c, row, normed, &mut q8[row * q8_bytes..(row + 1) * q8_bytes]);
        }
        let x = if self.op.norm.is_some() { &*normed } else { c.f32s(0) };
        loop {
            range.for_each(|item| self.item(c, item, n, x, q8, acc, wide));
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
        let [acc, wide] = scratch.split([self.acc_bytes(), self.wide_bytes()]);
        while let Some(range) = c.items.take() {
            range.for_each(|item| self.item(c, item, n, x, q8, acc, wide));
        }
    }

    /// Scratch for the products of one item.
    fn acc_bytes(&self) -> usize {
        let products = self.outputs.iter().map(|(used, ..)| used.len()).max().unwrap_or(0);
        products * TOKENS * ROWS * 4
    }

    /// Scratch for widened rows.
    fn wide_bytes(&self) -> usize {
        let wide = self.products.iter().any(|p| matches!(p.path, Path::Widen | Path::WidenTile(_)));
        if wide { ROWS * self.k * 4 } else { 0 }
    }

    /// One item: 16 rows of one output for all `n` rows of x.
    #[allow(clippy::too_many_arguments)]
    fn item(&self, c: &CpuCall, item: usize, n: usize, x: &[f32], q8: &[u8], acc: &mut [u8], wide: &mut [u8]) {
        let o = self.outputs.iter().rposition(|(_, _, before)| *before <= item).unwrap_or(0);
        let (used, width, before) = &self.outputs[o];
        let tile = item - before;
        let n_rows = (width - tile * ROWS).min(ROWS);
        let acc: &mut [[f32; ROWS]] = bytemuck::cast_slice_mut(acc);
        for first in (0..n).step_by(TOKENS) {
            let tokens = (n - first).min(TOKENS);
            for (i, &p) in used.iter().enumerate() {
                let out = &mut acc[i * TOKENS..i * TOKENS + tokens];
                self.product(c, p, tile, n_rows, (first, tokens), x, q8, wide, out);
            }
            for t in (0..tokens).step_by(CHUNK / ROWS) {
                let n = (tokens - t).min(CHUNK / ROWS);
                let acc = |i: usize| acc[i * TOKENS + t..i * TOKENS + t + n].as_flattened();
                self.epilogue(c, o, tile, first + t..first + t + n, &acc);
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
        wide: &mut [u8],
        out: &mut [[f32; ROWS]],
    ) {
        let product = &self.products[p];
        let weight = c.bytes(self.op.first_weight() + p);
        debug_assert!(tile * ROWS + n_rows <= product.rows);
        let stored =
            |rows: std::ops::Range<usize>| &weight[rows.start * product.row_bytes..rows.end * product.row_bytes];
        let row0 = tile * ROWS;
        let (kind, rows, row_bytes): (FloatKind, &[u8], usize) = match &product.path {
            Path::Tile(layout) => {
                let bytes = layout.tile_bytes();
                let q8_bytes = q8_row_bytes(self.k);
                let acts = &q8[first * q8_bytes..(first + tokens) * q8_bytes];
                return (c.simd.dot_tile)(layout, &weight[tile * bytes..(tile + 1) * bytes], acts, tokens, out);
            }
            Path::Float(kind) => (*kind, stored(row0..row0 + n_rows), product.row_bytes),
            Path::Widen => {
                let to: &mut [f32] = bytemuck::cast_slice_mut(&mut wide[..n_rows * self.k * 4]);
                product.dtype.def().dequantize(stored(row0..row0 + n_rows), to);
                (FloatKind::F32, &wide[..n_rows * self.k * 4], self.k * 4)
            }
            Path::WidenTile(layout) => {
                let bytes = layout.tile_bytes();
                let to: &mut [f32] = bytemuck::cast_slice_mut(&mut wide[..n_rows * self.k * 4]);
                for (r, to) in to.chunks_exact_mut(self.k).enumerate() {
                    layout.row(&weight[tile * bytes..(tile + 1) * bytes], r, to);
                }
                (FloatKind::F32, &wide[..n_rows * self.k * 4], self.k * 4)
            }
        };
        let k = self.k;
        let acts = &x[first * k..(first + tokens) * k];
        let operands = DotRows { kind, rows, row_bytes, n_rows, k, acts, act_stride: k, n_tokens: tokens };
        (c.simd.dot_rows)(&operands, out.as_flattened_mut(), ROWS);
    }

    /// The tree of output `o` for 16 columns and some rows, all at once: `acc(i)` are the rows of product `i` of it.
    fn epilogue<'a>(
        &self,
        c: &CpuCall,
        o: usize,
        tile: usize,
        rows: std::ops::Range<usize>,
        acc: &dyn Fn(usize) -> &'a [f32],
    ) {
        let tree = &self.op.outputs[o];
        let (used, width, _) = &self.outputs[o];
        let column = tile * ROWS;
        let n_rows = (width - column).min(ROWS);
        let mut made = [0f32; CHUNK];
        let out = &mut made[..rows.len() * ROWS];
        let mut leaf = |l: usize, out: &mut [f32]| {
            if let Some(i) = used.iter().position(|&p| p == l) {
                return out.copy_from_slice(acc(i));
            }
            let i = l - self.op.products;
            let operand = c.f32s(self.op.first_operand() + i);
            for (row, out) in rows.clone().zip(out.chunks_exact_mut(ROWS)) {
                let at = if self.operand_is_row[i] { column } else { row * width + column };
                out[..n_rows].copy_from_slice(&operand[at..at + n_rows]);
            }
        };
        let values = match tree {
            Tree::In(_) => acc(0),
            _ => {
                eval_chunk(c.simd, tree, &mut leaf, out);
                &*out
            }
        };
        for (row, values) in rows.clone().zip(values.chunks_exact(ROWS)) {
            let at = row * width + column;
            c.write(self.ins + o, at..at + n_rows).copy_from_slice(&values[..n_rows]);
        }
    }
}
