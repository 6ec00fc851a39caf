//! Elementwise ops, written once as an expression tree: add, mul, scale, activations, and any chain of them.
//!
//! Operands broadcast: an operand of one row serves all rows, and a row narrower than the output's repeats within it.

use super::*;
use crate::reference::Part;
use onetrip_ir::tree::Binary;
use onetrip_ir::tree::Tree;
use onetrip_ir::tree::Unary;

mod cpu;
mod cuda;
mod wgsl;
pub use cpu::{CHUNK, eval_chunk};

/// A tree over the op's inputs. The output has the rows of the inputs that are not a single row, and the largest width.
#[derive(Clone, Debug, PartialEq)]
pub struct Elementwise {
    /// The expression; its leaves are indices of inputs.
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

    /// Whether this is `a + b` of two inputs.
    pub fn is_add(&self) -> bool {
        *self == Self::add()
    }

    /// Whether this is `a * b` of two inputs.
    pub fn is_mul(&self) -> bool {
        *self == Self::mul()
    }
}

/// The index into an operand for element `i` of the output: a single row serves all rows, a narrow row repeats.
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

    fn cost(&self, site: &OpSite) -> Cost {
        site.streams(site.outs[0].rows.clone() * site.outs[0].width * self.tree.flops() as usize)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (tree, widths) = (self.tree.clone(), site.ins.iter().map(|s| s.width).collect::<Vec<_>>());
        if site.ins.iter().any(|s| s.dtype != onetrip_ir::formats::DType::F32) {
            return Lowering::Gap("elementwise operands that are not f32 have no CPU kernel");
        }
        let out = &site.outs[0];
        let width = out.width;
        Lowering::one(site, "elementwise/rows", out.rows.clone(), 1, self.cost(site), move |c, _| {
            cpu::rows(c, &tree, &widths, width)
        })
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let row = |w| Sig::weight(1, w, onetrip_ir::formats::DType::F32);
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

/// The deepest expression that is accepted; it bounds the stack of the recursive evaluation.
pub const MAX_DEPTH: usize = 16;

/// Adds a tree to a decomposition as an elementwise op, for the meaning of a fused op that ends in a tree.
pub(crate) fn as_parts(tree: &Tree, parts: &mut crate::reference::Parts, leaf: &dyn Fn(usize) -> Part) -> Part {
    let leaves = tree.leaves();
    if let Tree::In(i) = tree {
        return leaf(*i);
    }
    let renamed = tree.replace(&|i| Tree::In(leaves.iter().position(|&l| l == i).unwrap_or(0)));
    let ins: Vec<Part> = leaves.iter().map(|&i| leaf(i)).collect();
    parts.op(Elementwise { tree: renamed }, &ins)
}
