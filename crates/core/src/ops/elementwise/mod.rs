//! Elementwise ops, written once as an expression tree: add, mul, scale, activations, and any chain of them.
//!
//! Operands broadcast: one row serves all rows, and a row that is shorter than the output repeats within it.

use super::*;
use crate::reference::Part;
use crate::wgsl::{self, Wgsl};

mod cpu;
mod cuda;
pub use cpu::{CHUNK, eval_chunk};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `tanh(x)`, argument clamped to ±15.
    Tanh,
    /// `ln(1 + exp(x))`, without overflow.
    Softplus,
}

impl Unary {
    /// Name of the function in kernels that are text (`kernels/common.cuh`, `kernels/numbers.wgsl`).
    fn function(self) -> &'static str {
        match self {
            Unary::Silu => "silu",
            Unary::GeluTanh => "gelu_tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Tanh => "tanh_clamped",
            Unary::Softplus => "softplus",
        }
    }

    /// The value at `x`.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Unary::Silu => x / (1.0 + (-x).exp()),
            Unary::GeluTanh => {
                let u = 0.797_884_6 * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + u.clamp(-15.0, 15.0).tanh())
            }
            Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Unary::Tanh => x.clamp(-15.0, 15.0).tanh(),
            Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        }
    }
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Product.
    Mul,
}

/// An expression over operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// An operand.
    In(usize),
    /// A number.
    Const(f32),
    /// A function of one.
    Unary(Unary, Box<Tree>),
    /// A function of two.
    Binary(Binary, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// `a + b`.
    pub fn sum(a: Tree, b: Tree) -> Tree {
        Tree::Binary(Binary::Add, Box::new(a), Box::new(b))
    }

    /// `a * b`.
    pub fn product(a: Tree, b: Tree) -> Tree {
        Tree::Binary(Binary::Mul, Box::new(a), Box::new(b))
    }

    /// A function of a tree.
    pub fn unary(f: Unary, a: Tree) -> Tree {
        Tree::Unary(f, Box::new(a))
    }

    /// The value, given the operands' values.
    pub fn eval(&self, leaf: &dyn Fn(usize) -> f32) -> f32 {
        match self {
            Tree::In(i) => leaf(*i),
            Tree::Const(c) => *c,
            Tree::Unary(f, a) => f.apply(a.eval(leaf)),
            Tree::Binary(Binary::Add, a, b) => a.eval(leaf) + b.eval(leaf),
            Tree::Binary(Binary::Mul, a, b) => a.eval(leaf) * b.eval(leaf),
        }
    }

    /// The tree as text of a kernel: CUDA C++ and WGSL differ in how they write numbers (`number`), not in names.
    pub(crate) fn code(&self, number: fn(f32) -> String, leaf: &dyn Fn(usize) -> String) -> String {
        match self {
            Tree::In(i) => leaf(*i),
            Tree::Const(c) => number(*c),
            Tree::Unary(f, a) => format!("{}({})", f.function(), a.code(number, leaf)),
            Tree::Binary(Binary::Add, a, b) => format!("({} + {})", a.code(number, leaf), b.code(number, leaf)),
            Tree::Binary(Binary::Mul, a, b) => format!("({} * {})", a.code(number, leaf), b.code(number, leaf)),
        }
    }

    /// The same tree with other trees in place of its operands.
    pub fn replace(&self, with: &dyn Fn(usize) -> Tree) -> Tree {
        match self {
            Tree::In(i) => with(*i),
            Tree::Const(c) => Tree::Const(*c),
            Tree::Unary(f, a) => Tree::unary(*f, a.replace(with)),
            Tree::Binary(f, a, b) => Tree::Binary(*f, Box::new(a.replace(with)), Box::new(b.replace(with))),
        }
    }

    /// Number of operations: one for a sum or product, eight for a function.
    pub fn flops(&self) -> u64 {
        match self {
            Tree::In(_) | Tree::Const(_) => 0,
            Tree::Unary(_, a) => 8 + a.flops(),
            Tree::Binary(_, a, b) => 1 + a.flops() + b.flops(),
        }
    }

    /// Depth of nested operations.
    pub fn depth(&self) -> usize {
        match self {
            Tree::In(_) | Tree::Const(_) => 0,
            Tree::Unary(_, a) => 1 + a.depth(),
            Tree::Binary(_, a, b) => 1 + a.depth().max(b.depth()),
        }
    }

    /// Operands, each once, in order of first use.
    pub fn leaves(&self) -> Vec<usize> {
        let mut found = vec![];
        self.visit(&mut |i| {
            if !found.contains(&i) {
                found.push(i);
            }
        });
        found
    }

    fn visit(&self, f: &mut dyn FnMut(usize)) {
        match self {
            Tree::In(i) => f(*i),
            Tree::Const(_) => {}
            Tree::Unary(_, a) => a.visit(f),
            Tree::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
        }
    }
}

/// The op: a tree over its inputs. The output has the shape of the largest input.
#[derive(Clone, Debug, PartialEq)]
pub struct Elementwise {
    /// What is computed.
    pub tree: Tree,
}

impl Elementwise {
    /// `a + b`.
    pub fn add() -> Self {
        Elementwise { tree: Tree::sum(Tree::In(0), Tree::In(1)) }
    }

    /// `a * b`.
    pub fn mul() -> Self {
        Elementwise { tree: Tree::product(Tree::In(0), Tree::In(1)) }
    }

    /// `a * c`.
    pub fn scale(c: f32) -> Self {
        Elementwise { tree: Tree::product(Tree::In(0), Tree::Const(c)) }
    }

    /// `f(a) * b`: a gated linear unit.
    pub fn glu(f: Unary) -> Self {
        Elementwise { tree: Tree::product(Tree::unary(f, Tree::In(0)), Tree::In(1)) }
    }

    /// `f(a)`.
    pub fn unary(f: Unary) -> Self {
        Elementwise { tree: Tree::unary(f, Tree::In(0)) }
    }

    /// This is `a + b` of two inputs.
    pub fn is_add(&self) -> bool {
        *self == Self::add()
    }

    /// This is `a * b` of two inputs.
    pub fn is_mul(&self) -> bool {
        *self == Self::mul()
    }
}

/// Index into an operand of an element of the output: one row serves all, a short row repeats.
fn broadcast(width: usize, rows: usize, out_width: usize, i: usize) -> usize {
    let (r, c) = (i / out_width, i % out_width);
    (if rows == 1 { 0 } else { r * width }) + c % width
}

impl OpDef for Elementwise {
    const NAME: &'static str = "elementwise";

    fn ggml(&self) -> &'static str {
        match &self.tree {
            Tree::Unary(_, a) if matches!(**a, Tree::In(_)) => "UNARY",
            Tree::Binary(f, a, b) => match (f, &**a, &**b) {
                (Binary::Add, Tree::In(_), Tree::In(_)) => "ADD",
                (Binary::Mul, Tree::In(_), Tree::In(_)) => "MUL",
                (Binary::Mul, Tree::In(_), Tree::Const(_)) => "SCALE",
                (Binary::Mul, Tree::Unary(..), Tree::In(_)) => "GLU",
                _ => "ELEMENTWISE",
            },
            _ => "ELEMENTWISE",
        }
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let fail = |why: String| ShapeError { op: Self::NAME, why };
        if self.tree.depth() > MAX_DEPTH {
            return Err(fail(format!("an expression deeper than {MAX_DEPTH}")));
        }
        if let Some(i) = self.tree.leaves().into_iter().find(|&i| i >= ins.len()) {
            return Err(fail(format!("operand {i} of {}", ins.len())));
        }
        let is_row = |s: &Sig| s.rows.constant() == Some(1);
        let out = ins.iter().find(|s| !is_row(s)).or(ins.first()).ok_or_else(|| fail("no operands".into()))?;
        let width = ins.iter().map(|s| s.width).max().unwrap_or(0);
        for s in ins {
            if s.width == 0 || width % s.width != 0 || !(is_row(s) || s.rows == out.rows) {
                return Err(fail(format!("{}x{} does not broadcast to {}x{width}", s.rows, s.width, out.rows)));
            }
        }
        Ok(vec![Sig::slot(out.rows.clone(), width)])
    }

    fn meaning(&self) -> Meaning {
        let tree = self.tree.clone();
        Meaning::Direct(Box::new(move |c| {
            let ins: Vec<_> = (0..c.ins.len()).map(|i| c.input(i).clone()).collect();
            let width = ins.iter().map(|t| t.width).max().unwrap_or(1);
            for (i, out) in c.output(0).iter_mut().enumerate() {
                *out = tree.eval(&|n| ins[n].data[broadcast(ins[n].width, ins[n].rows(), width, i)]);
            }
        }))
    }

    fn cost(&self, site: &Site) -> Cost {
        Cost::streams(site, site.outs[0].rows.clone() * site.outs[0].width * self.tree.flops() as usize)
    }

    fn cpu(&self, site: &Site) -> Lowering {
        let (tree, widths) = (self.tree.clone(), site.ins.iter().map(|s| s.width).collect::<Vec<_>>());
        if site.ins.iter().any(|s| s.dtype != crate::formats::DType::F32) {
            return Lowering::Gap("elementwise operands that are not f32 have no CPU kernel");
        }
        let out = &site.outs[0];
        let width = out.width;
        Lowering::one(site, "elementwise/rows", out.rows.clone(), 1, self.cost(site), move |c, _| {
            cpu::rows(c, &tree, &widths, width)
        })
    }

    fn cuda(&self, site: &Site) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &Site) -> Lowering {
        if site.ins.iter().any(|s| !s.dtype.is_float()) {
            return Lowering::Gap("elementwise operands in blocks have no kernel");
        }
        let mut w = Wgsl::new("elementwise/each", 128);
        for (i, sig) in site.ins.iter().enumerate() {
            w.read(&format!("a{i}"), Arg::In(i), sig.dtype);
        }
        let operand = |i: usize| {
            let sig = &site.ins[i];
            let (row, column) = (sig.rows.constant() == Some(1), sig.width == site.outs[0].width);
            let column = if column { "c".into() } else { format!("c % {}u", sig.width) };
            if row { format!("a{i}_at({column})") } else { format!("a{i}_at(r * {}u + {column})", sig.width) }
        };
        w.function("value(r: u32, c: u32) -> f32", &wgsl::tree(&self.tree, &operand));
        w.each(site, self.cost(site))
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let row = |w| Sig::weight(1, w, crate::formats::DType::F32);
        let b = (3, 1, 3);
        vec![
            Case::new("add", Self::add(), vec![x(33), x(33)], b).costs(2 * 3 * 33 * 4, 3 * 33 * 4, 99),
            Case::new("mul by a row", Self::mul(), vec![x(64), row(64)], b).costs((3 + 1) * 256, 3 * 256, 192),
            Case::new("mul by a repeated row", Self::mul(), vec![x(96), row(32)], b),
            Case::new("scale", Self::scale(0.5), vec![x(7)], b),
            Case::new("swiglu", Self::glu(Unary::Silu), vec![x(200), x(200)], b),
            Case::new("geglu", Self::glu(Unary::GeluTanh), vec![x(129), x(129)], b),
            Case::new("sigmoid", Elementwise { tree: Tree::unary(Unary::Sigmoid, Tree::In(0)) }, vec![x(65)], b),
            Case::new("tanh", Elementwise { tree: Tree::unary(Unary::Tanh, Tree::In(0)) }, vec![x(65)], b),
            Case::new("softplus", Elementwise { tree: Tree::unary(Unary::Softplus, Tree::In(0)) }, vec![x(65)], b)
                .between(0, -100.0, 100.0)
                .costs(3 * 65 * 4, 3 * 65 * 4, 3 * 65 * 8),
        ]
    }
}

/// Deepest expression that is evaluated: bounds the stack of the recursive evaluation.
pub const MAX_DEPTH: usize = 16;

/// The parts of a tree as separate ops, for the meaning of a fused op that ends in a tree.
pub(crate) fn as_parts(tree: &Tree, parts: &mut crate::reference::Parts, leaf: &dyn Fn(usize) -> Part) -> Part {
    let leaves = tree.leaves();
    if let Tree::In(i) = tree {
        return leaf(*i);
    }
    let renamed = tree.replace(&|i| Tree::In(leaves.iter().position(|&l| l == i).unwrap_or(0)));
    let ins: Vec<Part> = leaves.iter().map(|&i| leaf(i)).collect();
    parts.op(Elementwise { tree: renamed }, &ins)
}
