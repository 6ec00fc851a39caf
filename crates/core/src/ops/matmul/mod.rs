//! Activations times weights: `y = epilogue(prologue(x) · Wᵀ)`. All variants are one op with fields, not a family of ops.
//!
//! - *products*: each weight `[rows, k]`, with its own format and layout, gives one product `[T, rows]`, so that q, k and v, or
//!   gate and up, merge without copying weights.
//! - *prologue*: none, or a weighted RMS norm of x.
//! - *outputs*: one expression tree each over products (`In(p)`, p < products) and operands (`In(products + i)`):
//!   bias, activation, gate, residual. All products of one tree have equally many rows.
//!
//! Inputs in order: x `[T, k]`, the norm's weight `[1, k]` if there is a norm, the weights, the operands.

use super::*;
use crate::ops::elementwise::{MAX_DEPTH, as_parts};
use crate::ops::rms_norm::{RmsNorm, WHOLE_ROW};
use crate::reference::{Part, Parts};
use onetrip_ir::formats::DType;
use onetrip_ir::formats::block::ScaleKind;
use onetrip_ir::tensor::{Layout, Role};
use onetrip_ir::tree::Tree;

mod cpu;
mod cuda;
mod wgsl;

/// The candidates of its kernels.
pub(super) fn candidates() -> Vec<Described> {
    [cpu::select::described(), cuda::select::described(), wgsl::select::described()].concat()
}

/// Activations times weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// Number of weights, each of which gives one product.
    pub products: usize,
    /// The expression tree of each output, over products and operands.
    pub outputs: Vec<Tree>,
    /// Epsilon of the norm in the prologue.
    pub norm: Option<f32>,
}

impl Matmul {
    /// `x · Wᵀ` alone.
    pub fn plain() -> Matmul {
        Matmul { products: 1, outputs: vec![Tree::In(0)], norm: None }
    }

    /// Index of the first weight among the inputs.
    pub fn first_weight(&self) -> usize {
        1 + self.norm.is_some() as usize
    }

    /// Index of the first operand among the inputs.
    pub fn first_operand(&self) -> usize {
        self.first_weight() + self.products
    }

    /// The type in which the CUDA kernel for this site accepts x in MMA fragment layout, if it does.
    pub(super) fn accepts_fragment_layout(&self, site: &OpSite) -> Option<DType> {
        cuda::accepts_fragment_layout(self, site)
    }

    /// The products that an output uses.
    fn products_of(&self, output: &Tree) -> Vec<usize> {
        output.leaves().into_iter().filter(|&l| l < self.products).collect()
    }
}

impl OpDef for Matmul {
    const NAME: &'static str = "matmul";

    fn ggml(&self) -> &'static str {
        "MUL_MAT"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        let (w0, o0) = (self.first_weight(), self.first_operand());
        if self.products == 0 || ins.len() < o0 {
            return fail(format!("{} inputs for {} products", ins.len(), self.products));
        }
        let k = ins[0].width;
        if self.norm.is_some() && ins[1].width != k {
            return fail(format!("norm weight of {} for activations of {k}", ins[1].width));
        }
        if let Some(w) = ins[w0..o0].iter().find(|w| w.width != k || !w.is_weight()) {
            return fail(format!("a weight with rows of {} for activations of {k}", w.width));
        }
        let mut outs = vec![];
        for tree in &self.outputs {
            let used = self.products_of(tree);
            let rows: Vec<u64> = used.iter().filter_map(|&p| ins[w0 + p].rows.constant()).collect();
            if rows.is_empty() || rows.iter().any(|r| *r != rows[0]) || tree.depth() > MAX_DEPTH {
                return fail("an output without products, or of products with different rows".into());
            }
            let operands = tree.leaves().into_iter().filter(|&l| l >= self.products);
            for l in operands {
                let Some(sig) = ins.get(w0 + l) else { return fail(format!("operand {l} is missing")) };
                let broadcast = sig.rows.constant() == Some(1);
                if sig.width as u64 != rows[0] || !(broadcast || sig.rows == ins[0].rows) || sig.dtype != DType::F32 {
                    return fail(format!("an operand {}x{} for an output of {}", sig.rows, sig.width, rows[0]));
                }
            }
            outs.push(Sig::slot(ins[0].rows.clone(), rows[0] as usize));
        }
        Ok(outs)
    }

    fn meaning(&self) -> Meaning {
        if *self == Matmul::plain() {
            return Meaning::Direct(Box::new(|c| {
                let (x, w) = (c.input(0).clone(), c.input(1).clone());
                for (row, out) in c.output(0).chunks_exact_mut(w.rows().max(1)).enumerate() {
                    for (r, o) in out.iter_mut().enumerate() {
                        *o = x.row(row).iter().zip(w.row(r)).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>() as f32;
                    }
                }
            }));
        }
        let mut p = Parts::default();
        let mut x = Part::In(0);
        if let Some(eps) = self.norm {
            x = p.op(RmsNorm::weighted(eps, WHOLE_ROW), &[x, Part::In(1)]);
        }
        let w0 = self.first_weight();
        let products: Vec<Part> = (0..self.products).map(|i| p.op(Matmul::plain(), &[x, Part::In(w0 + i)])).collect();
        let leaf = |l: usize| if l < products.len() { products[l] } else { Part::In(w0 + l) };
        let outs: Vec<Part> = self.outputs.iter().map(|tree| as_parts(tree, &mut p, &leaf)).collect();
        p.finish(&outs)
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let (w0, o0) = (self.first_weight(), self.first_operand());
        let rows = site.ins[0].rows.clone();
        let k = site.ins[0].width;
        let mut flops = Expr::Const(0);
        for w in &site.ins[w0..o0] {
            flops = flops + rows.clone() * w.rows.clone() * (2 * k);
        }
        for (tree, out) in self.outputs.iter().zip(&site.outs) {
            flops = flops + rows.clone() * (out.width * tree.flops() as usize);
        }
        if self.norm.is_some() {
            flops = flops + rows * (4 * k);
        }
        site.streams(flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        cpu::lower(self, site)
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let mut cases = vec![];
        for (class, t) in [("one", 1), ("few", 5), ("some", 33), ("many", 70)] {
            let b = (t, 1, t);
            for dtype in DType::ALL.iter().copied() {
                for layout in [Layout::Stored, Layout::Tile16] {
                    if layout == Layout::Tile16 && dtype.spec().is_none() {
                        continue;
                    }
                    let mut w = Sig::weight(37, 512, dtype);
                    w.role = Role::Weight(layout);
                    let what = if layout == Layout::Stored { "stored" } else { "tiles" };
                    let name = format!("{}, {what}, {class}", dtype.name());
                    let mut case = Case::new(name, Matmul::plain(), vec![x(512), w], b).within(2e-5);
                    if layout == Layout::Stored {
                        let bytes = 37 * dtype.row_bytes(512).unwrap_or(0) as u64;
                        case = case.costs(bytes + t * 2048, t * 37 * 4, 2 * 37 * 512 * t);
                    }
                    cases.push(case);
                }
            }
            let tile = |rows, k, dtype| {
                let mut w = Sig::weight(rows, k, dtype);
                w.role = Role::Weight(Layout::Tile16);
                w
            };
            let row = |w| Sig::weight(1, w, DType::F32);
            // q, k and v of different formats, with a norm in front and biases behind.
            let bias = |p, o| Tree::sum(Tree::In(p), Tree::In(o));
            let qkv = Matmul { products: 3, outputs: vec![bias(0, 3), bias(1, 4), Tree::In(2)], norm: Some(1e-6) };
            let ins = vec![
                x(96),
                row(96),
                tile(80, 96, DType::Q5_0),
                tile(32, 96, DType::Q8_0),
                Sig::weight(32, 96, DType::F16),
                row(80),
                row(32),
            ];
            cases.push(Case::new(format!("norm, three formats, biases, {class}"), qkv, ins, b).within(1e-4));
            let gate = Tree::unary(onetrip_ir::tree::Unary::Silu, Tree::In(0));
            let glu = Matmul { products: 2, outputs: vec![Tree::product(gate, Tree::In(1))], norm: None };
            let ins = vec![x(64), tile(50, 64, DType::Q4_1), tile(50, 64, DType::Q4_1)];
            cases.push(Case::new(format!("gate and up, {class}"), glu, ins, b).within(1e-4));
            let residual = Matmul { products: 1, outputs: vec![bias(0, 1)], norm: None };
            let ins = vec![x(64), tile(50, 64, DType::Q8_0), x(50)];
            cases.push(Case::new(format!("residual, {class}"), residual, ins, b).within(1e-4));
            let odd = vec![x(35), Sig::weight(3, 35, DType::F32)];
            cases.push(Case::new(format!("odd width, {class}"), Matmul::plain(), odd, b).within(2e-5));
        }
        cases.extend(many_rows());
        cases.extend(powers_of_two());
        // Skinny GEMM with rows long enough for split-K, and with fewer and more tokens than a tile of 32, for each kind of
        // planes.
        for (dtype, t) in [(DType::Q4_0, 20), (DType::Q6_K, 50), (DType::Q8_0, 50), (DType::Q4_1, 16)] {
            let ins = vec![x(1280), Sig::weight(70, 1280, dtype)];
            cases.push(
                Case::new(format!("{}, 1280 columns, {t} rows", dtype.name()), Matmul::plain(), ins, (t, 2, t))
                    .within(2e-5),
            );
        }
        // Rows so long that `gemm_skinny` copies the activations in phases; the last k-tile of 28800 columns is half full. The
        // bound is wider because f32 sums of so many elements depend on their order.
        for (k, dtype, t) in [(28800, DType::Q4_0, 33), (28672, DType::Q8_0, 9)] {
            let name = format!("{}, {k} columns, {t} rows", dtype.name());
            cases.push(Case::new(name, Matmul::plain(), vec![x(k), Sig::weight(20, k, dtype)], (t, 1, t)).within(1e-4));
        }
        // An output so wide that some warps of a block have two warp tiles and the others one.
        let gate = Tree::unary(onetrip_ir::tree::Unary::Silu, Tree::In(0));
        let glu = Matmul { products: 2, outputs: vec![Tree::product(gate, Tree::In(1))], norm: None };
        let ins = vec![x(256), Sig::weight(8460, 256, DType::Q4_0), Sig::weight(8460, 256, DType::Q4_0)];
        cases.push(Case::new("gate and up of 8460 numbers, 17 rows", glu, ins, (17, 1, 17)).within(1e-4));
        // An operand in two places of a tree.
        let scaled = Tree::product(Tree::sum(Tree::In(0), Tree::In(1)), Tree::In(2));
        let twice = Matmul { products: 1, outputs: vec![Tree::sum(scaled, Tree::In(1))], norm: None };
        let ins = vec![x(64), Sig::weight(40, 64, DType::Q4_0), x(40), x(40)];
        cases.push(Case::new("an operand in two places, 20 rows", twice, ins, (20, 1, 20)).within(1e-4));
        // A matmul behind a matmul: the activations between them may be written in 16 bits, in MMA fragment layout.
        for (dtype, t, compute) in [
            (DType::Q4_0, 9, Compute::Int8),
            (DType::Q4_1, 17, Compute::F16),
            (DType::Q8_0, 33, Compute::Bf16),
            (DType::Q6_K, 64, Compute::Int8),
        ] {
            let gate = Tree::unary(onetrip_ir::tree::Unary::Silu, Tree::In(0));
            let glu = Matmul { products: 2, outputs: vec![Tree::product(gate, Tree::In(1))], norm: None };
            let ins = vec![x(256), Sig::weight(256, 256, dtype), Sig::weight(256, 256, dtype)];
            let residual = Matmul { products: 1, outputs: vec![Tree::sum(Tree::In(0), Tree::In(1))], norm: None };
            let name = format!("gate and up, then {} and a residual, {t} rows, {compute:?}", dtype.name());
            let case = Case::new(name, glu, ins, (t, 1, t)).computing(compute).within(1e-2);
            cases.push(case.then(residual, vec![Sig::weight(70, 256, dtype), x(70)]));
        }
        // Outputs wide enough for the multi-row GEMV in WGSL, with float weights, mins, and groups of 16.
        for dtype in [DType::F16, DType::Q4_1, DType::Q6_K] {
            let ins = vec![x(256), Sig::weight(2053, 256, dtype)];
            let name = format!("{}, 2053 numbers, few", dtype.name());
            cases.push(Case::new(name, Matmul::plain(), ins, (5, 1, 5)).within(2e-5));
        }
        // Rows with an odd number of blocks: from the second row on, scales are aligned to the size of a single scale only.
        for (k, dtype) in [(480, DType::Q4_0), (96, DType::Q4_1), (480, DType::Q8_0)] {
            for t in [1, 3, 8, 16] {
                let name = format!("{} of {k}, {t} rows", dtype.name());
                cases.push(
                    Case::new(name, Matmul::plain(), vec![x(k), Sig::weight(37, k, dtype)], (t, 1, t)).within(2e-5),
                );
            }
        }
        cases
    }
}

/// Cases of formats whose scales are powers of two, so large that such a scale times a sum of integer products is infinite although
/// the result is not.
fn powers_of_two() -> Vec<Case> {
    let has = |d: &DType| d.spec().is_some_and(|s| s.scale == ScaleKind::E8M0);
    let mut cases = vec![];
    for dtype in DType::ALL.iter().copied().filter(has) {
        // From 9 rows on activations and weights may be converted to f16, which has no such numbers.
        for (t, compute) in [1, 5].into_iter().flat_map(|t| [(t, Compute::Int8), (t, Compute::F32)]) {
            let mut w = Sig::weight(37, 512, dtype);
            w.role = Role::Weight(Layout::Tile16);
            let (name, ins) =
                (format!("{dtype} of size 2^120, {t} rows, {compute:?}"), vec![Sig::slot(Expr::T, 512), w]);
            let case = Case::new(name, Matmul::plain(), ins, (t, 1, t)).computing(compute);
            cases.push(case.sized(2f32.powi(120)).within(2e-5));
        }
    }
    cases
}

/// Cases of many rows: full and partial tiles, all types, every precision, and the trees that combine several products.
fn many_rows() -> Vec<Case> {
    use onetrip_ir::tree::Unary;
    let x = |w| Sig::slot(Expr::T, w);
    let row = |w| Sig::weight(1, w, DType::F32);
    let add = |tree, o| Tree::sum(tree, Tree::In(o));
    let one = |tree| Matmul { products: 1, outputs: vec![tree], norm: None };
    let mut cases = vec![];
    for dtype in DType::ALL.iter().copied() {
        let ins = vec![x(256), Sig::weight(48, 256, dtype)];
        cases.push(Case::new(format!("{}, 72 rows", dtype.name()), Matmul::plain(), ins, (72, 2, 50)).within(2e-5));
    }
    for compute in [Compute::F32, Compute::F16, Compute::Bf16, Compute::Int8] {
        let mut case = |name: &str, op: Matmul, ins, t| {
            let name = format!("{name}, {t} rows, {compute:?}");
            cases.push(Case::new(name, op, ins, (t, 1, t)).within(1e-4).computing(compute));
        };
        let shapes = [
            (129, 136, 32, [DType::F16, DType::Q4_0]),
            (65, 200, 64, [DType::BF16, DType::Q4_1]),
            (200, 8, 96, [DType::F32, DType::Q8_0]),
        ];
        for (t, n, k, dtype) in shapes.into_iter().flat_map(|(t, n, k, types)| types.map(|d| (t, n, k, d))) {
            let name = format!("{n} of {}", dtype.name());
            case(&name, Matmul::plain(), vec![x(k), Sig::weight(n, k, dtype)], t);
        }
        let few = vec![x(64), Sig::weight(40, 64, DType::Q4_0), row(40)];
        case("bias", one(add(Tree::In(0), 1)), few, 33);
        let ins = vec![x(64), Sig::weight(40, 64, DType::Q8_0), row(40), x(40)];
        case("bias and residual", one(add(add(Tree::In(0), 1), 2)), ins.clone(), 80);
        case("residual and bias", one(Tree::sum(Tree::In(2), add(Tree::In(0), 1))), ins.clone(), 80);
        case("two residuals", one(add(add(Tree::In(0), 1), 2)), vec![x(64), ins[1].clone(), x(40), x(40)], 80);
        case("activation", one(Tree::unary(Unary::GeluTanh, add(Tree::In(0), 1))), ins[..3].to_vec(), 80);
        let silu = |p| Tree::unary(Unary::Silu, Tree::In(p));
        let outputs = vec![Tree::product(silu(0), Tree::In(1)), add(Tree::In(2), 4), Tree::In(3), silu(3)];
        let mixed = Matmul { products: 4, outputs, norm: Some(1e-6) };
        let w = |n, dtype| Sig::weight(n, 128, dtype);
        let (gate, up) = (w(72, DType::Q5_1), w(72, DType::Q4_0));
        let ins = vec![x(128), row(128), gate, up, w(24, DType::F16), w(16, DType::BF16), row(24)];
        case("norm, gate, bias, and a product used twice", mixed, ins, 130);
    }
    cases
}
