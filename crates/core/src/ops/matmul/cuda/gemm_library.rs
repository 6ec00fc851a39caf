//! Matmul of many rows by a library of matrix products (cuBLASLt). A weight of another type is first dequantized to 16 bits. The
//! library can add a bias and a residual in its epilogue; any other tree is a launch of its own that reads the products.

use super::half::dtype;
use super::*;
use crate::codegen::cuda::HALF;
use crate::codegen::cuda::PROBLEMS;
use crate::precision::Rounding;
use onetrip_ir::kernel::{Code, Gemm};
use onetrip_ir::tree::Binary;

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
    /// The lowering. Up to 64 rows stay with our own kernels: a weight is read once there, so that dequantizing it first would
    /// cost most of the time.
    pub(super) fn gemm_library(&self, half: Rounding) -> Option<Lowering> {
        let mut scratch = vec![self.site.ins[0].rows.clone() * (2 * self.k())];
        let mut launches = vec![self.convert_rows(half, false)];
        self.by_library(half, &mut launches, &mut scratch);
        Some(Lowering::steps(launches, scratch))
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

    fn by_library(&self, half: Rounding, launches: &mut Vec<Launch>, scratch: &mut Vec<Expr>) {
        let (op, site, k) = (self.op, self.site, self.k());
        let w0 = op.first_weight();
        let rows = site.ins[0].rows.clone();
        let uses = |p: usize| op.outputs.iter().filter(|t| op.products_of(t).contains(&p)).count();
        let factor = |p: usize, launches: &mut Vec<Launch>, scratch: &mut Vec<Expr>| {
            if self.is_direct(p, half) {
                return Arg::In(w0 + p);
            }
            scratch.push(Expr::from(self.weight_rows(p) * k * 2));
            let to = Arg::Scratch(scratch.len() - 1);
            launches.push(self.dequantize(half, p, to));
            to
        };
        // The scratch slot of each product that an epilogue launch reads.
        let mut kept: Vec<Option<Arg>> = vec![None; op.products];
        for (o, tree) in op.outputs.iter().enumerate() {
            if let Some(sum) = self.sum(tree).filter(|s| uses(s.product) == 1) {
                let weight = factor(sum.product, launches, scratch);
                launches.push(self.gemm(half, weight, &sum, Arg::Out(o)));
                continue;
            }
            for p in op.products_of(tree) {
                if kept[p].is_none() {
                    let weight = factor(p, launches, scratch);
                    scratch.push(rows.clone() * (4 * self.weight_rows(p)));
                    let to = Arg::Scratch(scratch.len() - 1);
                    launches.push(self.gemm(half, weight, &Sum { product: p, bias: None, residual: None }, to));
                    kept[p] = Some(to);
                }
            }
            launches.push(self.epilogue(half, o, &kept));
        }
    }

    /// A weight in 16 bits, to a scratch slot.
    fn dequantize(&self, half: Rounding, product: usize, to: Arg) -> Launch {
        let w = self.op.first_weight() + product;
        let (sig, count) = (&self.site.ins[w], self.weight_rows(product) * self.k());
        let mut unit = self.half_unit(half, 256);
        unit.weight("W", Arg::In(w), sig, false);
        unit.write("DEQUANTIZED", "u16", to);
        unit.set("COUNT", count / 8).set("VECTORS", VECTORS);
        unit.part(WEIGHTS).part(HALF).part(include_str!("dequantize.cu"));
        let groups = (count / 8).div_ceil(256 * VECTORS);
        // At most two operations for each element: a multiply by the scale, and an addition of the min.
        let cost = Cost::of(sig.bytes(), Expr::from(2 * count), Expr::from(2 * count));
        unit.launch(KernelId::new("matmul", "dequantize").variant(dtype(half).name()), groups.into(), cost)
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
        let mut problem = String::from(PROBLEMS);
        let used = op.products_of(tree);
        for (place, &p) in used.iter().enumerate() {
            let Some(arg) = products[p] else { continue };
            unit.read(&format!("PRODUCT{place}"), "float", arg);
            problem += &format!(
                "template <> struct Problem<0, {place}> {{\n\
                 DEVICE static const float* product(const Args& A) {{ return PRODUCT{place}; }}\n}};\n"
            );
            read = read + rows.clone() * (4 * n);
        }
        problem += &format!(
            "template <> struct Epilogue<0> {{\nstatic constexpr int PRODUCTS = {};\n\
             DEVICE static float value(const Args& A, u32 t, u32 row, const float* product) {{ return {}; }}\n}};\n",
            used.len(),
            self.value(output, &|place| format!("product[{place}]")),
        );
        for leaf in tree.leaves().into_iter().filter(|&l| l >= op.products) {
            unit.read(&format!("OPERAND{leaf}"), "float", Arg::In(w0 + leaf));
            read = read + site.ins[w0 + leaf].bytes();
        }
        unit.write("OUT", "float", Arg::Out(output));
        unit.set("N", n).part(&problem).part(include_str!("epilogue.cu"));
        let cost = Cost::of(read, rows.clone() * (4 * n), rows.clone() * (n * tree.flops() as usize));
        let groups = Expr::CeilDiv(Box::new(rows * (n / QUADS)), 256);
        unit.launch("matmul/epilogue", groups, cost)
    }
}
