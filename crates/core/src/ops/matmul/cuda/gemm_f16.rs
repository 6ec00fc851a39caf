//! Matmul of many rows with 16-bit factors, on tensor cores.
//!
//! 1. Activations are normed and converted to 16 bits, once for all products.
//! 2. Products. With a GEMM library, a weight of another type is first dequantized to 16 bits. The library can add a bias and a
//!    residual in its epilogue; any other tree is a launch of its own that reads the products. Without a library, our own
//!    kernel dequantizes weights on their way to shared memory and evaluates the trees in registers.

use super::*;
use crate::codegen::cuda::HALF;
use crate::precision::Rounding;
use onetrip_ir::kernel::{Code, Gemm};
use onetrip_ir::tree::Binary;

/// A weight that would take more bytes than this in 16 bits is dequantized tile by tile, by our own kernel.
const MOST_DEQUANTIZED: usize = 512 << 20;
/// Vectors of eight elements that a thread dequantizes.
const VECTORS: usize = 4;
/// Elements that a thread of the epilogue computes.
const QUADS: usize = 4;

/// A tree that the library's epilogue can compute: a product, and the inputs that are added to it.
struct Sum {
    product: usize,
    bias: Option<usize>,
    residual: Option<usize>,
}

impl Cuda<'_> {
    /// The 16-bit type of the factors, where all products have one.
    pub(super) fn half(&self) -> Option<Rounding> {
        let (w0, o0) = (self.op.first_weight(), self.op.first_operand());
        let first = self.site.rounding(&self.site.ins[w0]);
        let alike = self.site.ins[w0..o0].iter().all(|w| self.site.rounding(w) == first);
        (alike && first.is_half()).then_some(first)
    }

    pub(super) fn half_unit(&self, half: Rounding, threads: usize) -> Unit {
        let mut unit = self.unit(threads);
        unit.set("HALF_BF16", (half == Rounding::Bf16) as u8);
        unit
    }

    /// Whether the weight is stored in the 16-bit type of the factors, so that it is not dequantized.
    fn is_direct(&self, product: usize, half: Rounding) -> bool {
        let sig = &self.site.ins[self.op.first_weight() + product];
        sig.layout() == Layout::Stored && sig.dtype == dtype(half)
    }

    /// Rows of a product's weight.
    fn weight_rows(&self, product: usize) -> usize {
        self.site.ins[self.op.first_weight() + product].rows.constant().unwrap_or(0) as usize
    }

    /// The lowering; none if the factors have no common 16-bit type.
    pub(super) fn gemm_f16(&self) -> Option<Lowering> {
        let half = self.half()?;
        let rows = self.site.ins[0].rows.clone();
        let mut scratch = vec![rows.clone() * (2 * self.k())];
        let mut launches = vec![self.convert_rows(half, false)];
        let dequantized = |p: usize| self.weight_rows(p) * self.k() * 2;
        // The library needs 16-byte alignment to be fast, hence multiples of 8 rows. Up to 64 rows stay with our own kernel: a
        // weight is read once there, so that dequantizing it first would cost most of the time.
        let suits = |p: usize| self.weight_rows(p).is_multiple_of(8) && dequantized(p) <= MOST_DEQUANTIZED;
        if caps(self.site).lt && self.site.bucket == RowBucket::Large && (0..self.op.products).all(suits) {
            self.by_library(half, &mut launches, &mut scratch)?;
        } else {
            launches.push(self.gemm_f16_mma(half)?);
        }
        Some(Lowering::Steps { launches, scratch })
    }

    /// Norms the activations and converts them to 16 bits into scratch slot 0, row-major or in MMA fragment layout.
    pub(super) fn convert_rows(&self, half: Rounding, as_fragment: bool) -> Launch {
        let (op, site, k) = (self.op, self.site, self.k());
        let rows = site.ins[0].rows.clone();
        // About sixteen elements a thread.
        let threads = (k / 16).next_power_of_two().clamp(64, 512);
        let mut unit = self.half_unit(half, threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        unit.write("ROUNDED", "u16", Arg::Scratch(0)).set("FRAGMENT_LAYOUT", as_fragment as u8);
        unit.part(HALF).part(include_str!("convert.cu"));
        let read = site.ins[..op.first_weight()].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        let flops = if op.norm.is_some() { rows.clone() * (4 * k) } else { Expr::Const(0) };
        let cost = Cost::of(read, rows.clone() * (2 * k), flops);
        let groups = if as_fragment { Expr::CeilDiv(Box::new(rows), 8) * 8 } else { rows };
        unit.launch(
            KernelId::new("matmul", "convert").norm(op.norm.is_some()).variant(dtype(half).name()),
            groups,
            cost,
        )
    }

    /// The tree as a product with a bias and a residual, if it is no more than that.
    fn sum(&self, tree: &Tree) -> Option<Sum> {
        let (w0, products) = (self.op.first_weight(), self.op.products);
        match tree {
            Tree::In(p) if *p < products => Some(Sum { product: *p, bias: None, residual: None }),
            Tree::Binary(Binary::Add, a, b) => {
                let (inner, Tree::In(operand)) = (match (&**a, &**b) {
                    (inner, Tree::In(o)) if *o >= products => (inner, &**b),
                    (Tree::In(o), inner) if *o >= products => (inner, &**a),
                    _ => return None,
                }) else {
                    return None;
                };
                let mut sum = self.sum(inner)?;
                let is_bias = self.site.ins[w0 + operand].rows.constant() == Some(1);
                let place = if is_bias { &mut sum.bias } else { &mut sum.residual };
                place.replace(w0 + operand).is_none().then_some(sum)
            }
            _ => None,
        }
    }

    fn by_library(&self, half: Rounding, launches: &mut Vec<Launch>, scratch: &mut Vec<Expr>) -> Option<()> {
        let (op, site, k) = (self.op, self.site, self.k());
        let w0 = op.first_weight();
        let rows = site.ins[0].rows.clone();
        let uses = |p: usize| op.outputs.iter().filter(|t| op.products_of(t).contains(&p)).count();
        let factor = |p: usize, launches: &mut Vec<Launch>, scratch: &mut Vec<Expr>| {
            if self.is_direct(p, half) {
                return Some(Arg::In(w0 + p));
            }
            scratch.push(Expr::from(self.weight_rows(p) * k * 2));
            let to = Arg::Scratch(scratch.len() - 1);
            launches.push(self.dequantize(half, p, to)?);
            Some(to)
        };
        // The scratch slot of each product that an epilogue launch reads.
        let mut kept: Vec<Option<Arg>> = vec![None; op.products];
        for (o, tree) in op.outputs.iter().enumerate() {
            if let Some(sum) = self.sum(tree).filter(|s| uses(s.product) == 1) {
                let weight = factor(sum.product, launches, scratch)?;
                launches.push(self.gemm(half, weight, &sum, Arg::Out(o)));
                continue;
            }
            for p in op.products_of(tree) {
                if kept[p].is_none() {
                    let weight = factor(p, launches, scratch)?;
                    scratch.push(rows.clone() * (4 * self.weight_rows(p)));
                    let to = Arg::Scratch(scratch.len() - 1);
                    launches.push(self.gemm(half, weight, &Sum { product: p, bias: None, residual: None }, to));
                    kept[p] = Some(to);
                }
            }
            launches.push(self.epilogue(half, o, &kept));
        }
        Some(())
    }

    /// A weight in 16 bits, to a scratch slot.
    fn dequantize(&self, half: Rounding, product: usize, to: Arg) -> Option<Launch> {
        let w = self.op.first_weight() + product;
        let (sig, count) = (&self.site.ins[w], self.weight_rows(product) * self.k());
        let mut unit = self.half_unit(half, 256);
        if !unit.weight("W", Arg::In(w), sig, false) {
            return None;
        }
        unit.write("DEQUANTIZED", "u16", to);
        unit.set("COUNT", count / 8).set("VECTORS", VECTORS);
        unit.part(WEIGHTS).part(HALF).part(include_str!("dequantize.cu"));
        let groups = (count / 8).div_ceil(256 * VECTORS);
        // At most two operations for each element: a multiply by the scale, and an addition of the min.
        let cost = Cost::of(sig.bytes(), Expr::from(2 * count), Expr::from(2 * count));
        Some(unit.launch(KernelId::new("matmul", "dequantize").variant(dtype(half).name()), groups.into(), cost))
    }

    fn gemm(&self, half: Rounding, weight: Arg, sum: &Sum, to: Arg) -> Launch {
        let (site, k, n) = (self.site, self.k(), self.weight_rows(sum.product));
        let m = site.ins[0].rows.clone();
        let added = [sum.bias, sum.residual];
        let mut args = vec![Arg::Scratch(0), weight];
        args.extend(added.iter().flatten().map(|&i| Arg::In(i)));
        args.push(to);
        let read = m.clone() * (2 * k) + Expr::from(2 * n * k);
        let read = added.iter().flatten().fold(read, |a, &i| a + site.ins[i].bytes());
        let flops = m.clone() * (2 * n * k + n * added.iter().flatten().count());
        let cost = Cost::of(read, m.clone() * (4 * n), flops);
        let (bias, residual) = (sum.bias.is_some(), sum.residual.is_some());
        let gemm = Gemm { dtype: dtype(half), m, n, k, bias, residual };
        let mut kernel = KernelId::new("matmul", "cublaslt").variant(dtype(half).name());
        for (added, is_there) in [("bias", bias), ("residual", residual)] {
            if is_there {
                kernel = kernel.variant(added);
            }
        }
        Launch { kernel, code: Code::Library(gemm), args, grid: Expr::Const(1), grain: 1, cost, grid_syncs: 0 }
    }

    /// The launch that computes one output from products in scratch slots.
    fn epilogue(&self, half: Rounding, output: usize, products: &[Option<Arg>]) -> Launch {
        let (op, site) = (self.op, self.site);
        let (w0, tree) = (op.first_weight(), &op.outputs[output]);
        let (rows, n) = (site.outs[output].rows.clone(), site.outs[output].width);
        let mut unit = self.half_unit(half, 256);
        let mut read = Expr::Const(0);
        let mut loads = String::new();
        for (place, &p) in op.products_of(tree).iter().enumerate() {
            let Some(arg) = products[p] else { continue };
            unit.read(&format!("PRODUCT{place}"), "float", arg);
            loads += &format!("const float4 q{place} = *(const float4*)(PRODUCT{place} + at);\n");
            loads += &format!("const float p{place}[4] = {{q{place}.x, q{place}.y, q{place}.z, q{place}.w}};\n");
            read = read + rows.clone() * (4 * n);
        }
        for leaf in tree.leaves().into_iter().filter(|&l| l >= op.products) {
            unit.read(&format!("OPERAND{leaf}"), "float", Arg::In(w0 + leaf));
            read = read + site.ins[w0 + leaf].bytes();
        }
        unit.write("OUT", "float", Arg::Out(output));
        unit.set("N", n).set("VALUE", self.value(output, &|place| format!("p{place}[i]")));
        unit.part(&include_str!("epilogue.cu").replace("LOADS", &loads));
        let cost = Cost::of(read, rows.clone() * (4 * n), rows.clone() * (n * tree.flops() as usize));
        let groups = Expr::CeilDiv(Box::new(rows * (n / QUADS)), 256);
        unit.launch("matmul/epilogue", groups, cost)
    }

    /// Floating-point operations of all products and trees, without the prologue.
    pub(super) fn product_flops(&self) -> Expr {
        let rows = &self.site.ins[0].rows;
        let products: usize = (0..self.op.products).map(|p| 2 * self.k() * self.weight_rows(p)).sum();
        let trees: usize =
            self.op.outputs.iter().zip(&self.site.outs).map(|(t, out)| out.width * t.flops() as usize).sum();
        rows.clone() * (products + trees)
    }

    /// The launch of our own kernel, which computes all outputs.
    fn gemm_f16_mma(&self, half: Rounding) -> Option<Launch> {
        let (op, site, k) = (self.op, self.site, self.k());
        let rows = site.ins[0].rows.clone();
        let most = op.outputs.iter().map(|t| op.products_of(t).len()).max().unwrap_or(1);
        // The accumulators of all products of a tree stay in registers, so tiles are narrower where there are more products. Up
        // to 64 rows are bound by the bandwidth of weights: narrow tiles make enough blocks for all SMs to load some.
        let (tile_t, tile_n) = match (site.bucket, most) {
            (_, 5..) => return None,
            (RowBucket::Large, 1) => (128, 128),
            (RowBucket::Large, 2) => (128, 64),
            (RowBucket::Large, _) => (64, 64),
            _ => (64, 32),
        };
        let (stages, columns) = (2, 64);
        let mut unit = self.half_unit(half, 256);
        unit.read("X_HALF", "u16", Arg::Scratch(0));
        let w0 = op.first_weight();
        for (p, sig) in site.ins[w0..op.first_operand()].iter().enumerate() {
            if self.is_direct(p, half) {
                unit.read(&format!("DATA{p}"), "u16", Arg::In(w0 + p));
                unit.set(&format!("W{p}"), format!("(Direct{{DATA{p}}})"));
            } else if unit.weight(&format!("DEQUANTIZED{p}"), Arg::In(w0 + p), sig, false) {
                unit.set(&format!("W{p}"), format!("dequantized(DEQUANTIZED{p})"));
            } else {
                return None;
            }
        }
        for i in op.first_operand()..site.ins.len() {
            unit.read(&format!("OPERAND{}", i - w0), "float", Arg::In(i));
        }
        let (mut outputs, mut tiles) = (String::new(), 0);
        for (o, out) in site.outs.iter().enumerate() {
            unit.write(&format!("OUT{o}"), "float", Arg::Out(o));
            let (n, begin) = (out.width, tiles);
            tiles += n.div_ceil(tile_n);
            outputs += &format!("if (tile < {tiles}u) {{\nconst u32 row0 = (tile - {begin}u) * TILE_N;\n");
            for (place, &p) in op.products_of(&op.outputs[o]).iter().enumerate() {
                outputs += &format!("Sums p{place};\nproduct(W{p}, X_HALF, row0, {n}u, t0, rows, smem, p{place});\n");
            }
            let value = self.value(o, &|place| format!("p{place}.at[a][b][i]"));
            outputs += &format!(
                "EACH_ELEMENT {{ const u32 t = t0 + element_t(a, i), row = row0 + element_n(b, i); if (t < rows && row < {n}u) \
                 OUT{o}[(size_t)t * {n}u + row] = {value}; }}\nreturn;\n}}\n"
            );
        }
        unit.set("TILES", tiles).set("TILE_T", tile_t).set("TILE_N", tile_n).set("STAGES", stages);
        unit.set("COLUMNS", columns).resident(2).shared(stages * (tile_t + tile_n) * (columns + 8) * 2);
        unit.part(WEIGHTS).part(HALF).part(&include_str!("gemm_f16_mma.cu").replace("TILE_OUTPUTS", &outputs));
        let cost = op.cost(site);
        let read = site.ins[w0..].iter().fold(rows.clone() * (2 * k), |a, s| a + s.bytes());
        let grid = Expr::CeilDiv(Box::new(rows), tile_t as u64) * tiles;
        Some(unit.launch(
            KernelId::new("matmul", if half == Rounding::Bf16 { "gemm_bf16_mma" } else { "gemm_f16_mma" }),
            grid,
            Cost::of(read, cost.written, self.product_flops()),
        ))
    }
}

pub(super) fn dtype(half: Rounding) -> DType {
    if half == Rounding::Bf16 { DType::BF16 } else { DType::F16 }
}
