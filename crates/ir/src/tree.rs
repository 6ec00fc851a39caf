//! Elementwise expressions over operands. The kernels in every language, the CPU code and the reference are all generated
//! from the same tree, so that a function is written once.

/// An elementwise function of one argument.
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
    /// Name of the function in text kernels (`codegen/cuda/common.cuh`, `codegen/wgsl/math.wgsl`).
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

/// An elementwise function of two arguments.
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
    /// An operand, by index.
    In(usize),
    /// A constant.
    Const(f32),
    /// A function of one subtree.
    Unary(Unary, Box<Tree>),
    /// A function of two subtrees.
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

    /// Applies a function of one argument to a tree.
    pub fn unary(f: Unary, a: Tree) -> Tree {
        Tree::Unary(f, Box::new(a))
    }

    /// The value for given values of the operands.
    pub fn eval(&self, leaf: &dyn Fn(usize) -> f32) -> f32 {
        match self {
            Tree::In(i) => leaf(*i),
            Tree::Const(c) => *c,
            Tree::Unary(f, a) => f.apply(a.eval(leaf)),
            Tree::Binary(Binary::Add, a, b) => a.eval(leaf) + b.eval(leaf),
            Tree::Binary(Binary::Mul, a, b) => a.eval(leaf) * b.eval(leaf),
        }
    }

    /// The tree as an expression of CUDA C++ or WGSL. The two differ only in how constants are written, which `number` does.
    pub fn code(&self, number: fn(f32) -> String, leaf: &dyn Fn(usize) -> String) -> String {
        match self {
            Tree::In(i) => leaf(*i),
            Tree::Const(c) => number(*c),
            Tree::Unary(f, a) => format!("{}({})", f.function(), a.code(number, leaf)),
            Tree::Binary(Binary::Add, a, b) => format!("({} + {})", a.code(number, leaf), b.code(number, leaf)),
            Tree::Binary(Binary::Mul, a, b) => format!("({} * {})", a.code(number, leaf), b.code(number, leaf)),
        }
    }

    /// The same tree with its operands replaced by other trees.
    pub fn replace(&self, with: &dyn Fn(usize) -> Tree) -> Tree {
        match self {
            Tree::In(i) => with(*i),
            Tree::Const(c) => Tree::Const(*c),
            Tree::Unary(f, a) => Tree::unary(*f, a.replace(with)),
            Tree::Binary(f, a, b) => Tree::Binary(*f, Box::new(a.replace(with)), Box::new(b.replace(with))),
        }
    }

    /// Number of operations for the cost model: one for a sum or product, eight for a function of one argument.
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

    /// The operands' indices, each once, in the order of their first use.
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
