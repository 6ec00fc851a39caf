//! The ops: one folder per op under `ops/`, and the one list of them.
//!
//! [`OpDef`] has no default bodies: an op that does not answer for a kernel language does not compile. An answer is
//! [`Lowering::Steps`] or a written [`Lowering::Gap`]; choosing the kernel *is* the support check.

use onetrip_ir::expr::{Bind, Expr};
use onetrip_ir::formats::DType;
use onetrip_ir::kernel::{Access, Arg, Code, Cost, Launch};
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::target::{Compute, CudaCaps, RowBucket, Target, WgslCaps};
use onetrip_ir::tensor::{ShapeError, Sig};

use crate::lowering::{Lowering, OpSite};
use crate::reference::{Parts, RefCall};
use crate::select::Described;

pub mod attention;
pub mod cache_write;
pub mod conv;
pub mod copy;
pub mod delta_net;
pub mod elementwise;
pub mod embed;
pub mod gather_rows;
pub mod l2_norm;
pub mod matmul;
pub mod rms_norm;
pub mod rope;
pub mod sample;
pub mod slice;
pub mod state_read;
pub mod state_write;
pub mod window;

/// The definition of an op's result, from which the reference computes it.
pub enum Meaning {
    /// A plain f32 function: the op is a primitive.
    Direct(Box<dyn Fn(&mut RefCall)>),
    /// A list of other ops: the op is fused, and its reference cannot drift from the ops that it replaces.
    Decomposition(Parts),
}

/// Standard deviation of the random numbers of weights, where a case asks for nothing else.
pub const USUAL_SIZE: f32 = 0.5;

/// A test case of an op: the op on inputs of these shapes, with the bytes and flops that its cost must be, counted by hand.
#[derive(Clone)]
pub struct Case {
    /// Name in the table of cases.
    pub name: String,
    /// The op under test.
    pub op: Op,
    /// Signatures of its inputs, in order.
    pub ins: Vec<Sig>,
    /// Optional consumer of output 0, with its other inputs: tests the layouts that a producer and its consumer agree on.
    pub then: Option<(Op, Vec<Sig>)>,
    /// Tokens, sequences and context of the batch.
    pub batch: Bind,
    /// Bytes read, bytes written, flops, as counted by hand.
    pub cost: Option<(u64, u64, u64)>,
    /// Largest error allowed, relative to the largest magnitude of the output.
    pub tolerance: f32,
    /// Precision of activations.
    pub compute: Compute,
    /// Inputs whose elements (f32) are drawn uniformly from a range: index of the input, lowest, highest.
    pub ranges: Vec<(usize, f32, f32)>,
    /// Standard deviation of the numbers of weights.
    pub size: f32,
}

impl Case {
    /// A case on a batch of `t` tokens, `s` sequences and context `l`, without an asserted cost and with the usual tolerance
    /// for f32 kernels.
    pub fn new(name: impl Into<String>, op: impl Into<Op>, ins: Vec<Sig>, (t, s, l): (u64, u64, u64)) -> Case {
        let batch = Bind { t, s, l };
        Case {
            name: name.into(),
            op: op.into(),
            ins,
            then: None,
            batch,
            cost: None,
            tolerance: 1e-5,
            compute: Compute::Int8,
            ranges: vec![],
            size: USUAL_SIZE,
        }
    }

    /// Draws the numbers of weights with this standard deviation: far from 1 for formats whose scales reach further than f16.
    pub fn sized(mut self, size: f32) -> Case {
        self.size = size;
        self
    }

    /// Asserts bytes read, bytes written and flops.
    pub fn costs(mut self, read: u64, written: u64, flops: u64) -> Case {
        self.cost = Some((read, written, flops));
        self
    }

    /// Passes the first output to another op, whose other inputs follow it; the outputs of the case are those of this op.
    pub fn then(mut self, op: impl Into<Op>, ins: Vec<Sig>) -> Case {
        self.then = Some((op.into(), ins));
        self
    }

    /// All inputs: those of the op, then the other inputs of the op that follows.
    pub fn all_ins(&self) -> impl Iterator<Item = &Sig> {
        self.ins.iter().chain(self.then.iter().flat_map(|(_, ins)| ins))
    }

    /// Draws the elements of an f32 input uniformly from a range, where normally distributed ones would make no sense.
    pub fn between(mut self, input: usize, low: f32, high: f32) -> Case {
        self.ranges.push((input, low, high));
        self
    }

    /// Sets the precision of activations.
    pub fn computing(mut self, compute: Compute) -> Case {
        self.compute = compute;
        self
    }

    /// Sets the tolerance.
    pub fn within(mut self, tolerance: f32) -> Case {
        self.tolerance = tolerance;
        self
    }
}

/// One op. No method has a default body.
pub trait OpDef: Sized {
    /// Name in plans.
    const NAME: &'static str;
    /// Name of the op in ggml's listings, the key of `nodes_by_op`.
    fn ggml(&self) -> &'static str;
    /// Signatures of the outputs.
    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError>;
    /// The definition of the op's result.
    fn meaning(&self) -> Meaning;
    /// The minimum: the bytes that any implementation must read and write, and the flops that it must compute.
    fn cost(&self, site: &OpSite) -> Cost;
    /// The launches on the CPU, or a gap.
    fn cpu(&self, site: &OpSite) -> Lowering;
    /// The launches in CUDA C++, or a gap.
    fn cuda(&self, site: &OpSite) -> Lowering;
    /// The launches in WGSL, or a gap.
    fn wgsl(&self, site: &OpSite) -> Lowering;
    /// Test cases, which run on every device.
    fn cases() -> Vec<Case>;
}

/// Generates the enum of ops, and the methods that forward to each op, from one list.
macro_rules! ops {
    ($($Name:ident = $path:path),* $(,)?) => {
        /// Any op.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $(#[doc = concat!("See [`", stringify!($path), "`].")] $Name($path)),* }

        $(impl From<$path> for Op { fn from(op: $path) -> Op { Op::$Name(op) } })*

        impl Op {
            /// Names of all ops, in the order of the list.
            pub const NAMES: &'static [&'static str] = &[$(<$path as OpDef>::NAME),*];
            /// Name in plans.
            pub fn name(&self) -> &'static str { match self { $(Op::$Name(_) => <$path as OpDef>::NAME),* } }
            /// Name in ggml's listings.
            pub fn ggml(&self) -> &'static str { match self { $(Op::$Name(op) => op.ggml()),* } }
            /// Signatures of the outputs.
            pub fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
                match self { $(Op::$Name(op) => op.shape(ins)),* }
            }
            /// The definition of the op's result.
            pub fn meaning(&self) -> Meaning { match self { $(Op::$Name(op) => op.meaning()),* } }
            /// The minimum of bytes and flops.
            pub fn cost(&self, site: &OpSite) -> Cost { match self { $(Op::$Name(op) => op.cost(site)),* } }
            /// The launches on the site's target, or a gap.
            pub fn lower(&self, site: &OpSite) -> Lowering {
                match (self, site.target) {
                    $((Op::$Name(op), Target::Cpu(_)) => op.cpu(site),
                      (Op::$Name(op), Target::Cuda(_)) => op.cuda(site),
                      (Op::$Name(op), Target::Wgsl(_)) => op.wgsl(site)),*
                }
            }
            /// Test cases of every op, with the op's name.
            pub fn all_cases() -> Vec<(&'static str, Vec<Case>)> {
                vec![$((<$path as OpDef>::NAME, <$path as OpDef>::cases())),*]
            }
        }
    };
}

ops! {
    Embed = embed::Embed,
    GatherRows = gather_rows::GatherRows,
    RmsNorm = rms_norm::RmsNorm,
    Matmul = matmul::Matmul,
    L2Norm = l2_norm::L2Norm,
    Slice = onetrip_ir::tensor::Slice,
    StateRead = state_read::StateRead,
    Window = window::Window,
    StateWrite = state_write::StateWrite,
    Copy = copy::Copy,
    Conv = conv::Conv,
    DeltaNet = delta_net::DeltaNet,
    Rope = rope::Rope,
    CacheWrite = cache_write::CacheWrite,
    Attention = attention::Attention,
    Elementwise = elementwise::Elementwise,
    Sample = sample::Sample,
}

impl Op {
    /// The element type in which the op's kernel at this site accepts its first input in MMA fragment layout
    /// ([`onetrip_ir::tensor::Role::MmaFragment`]); `None` where it does not.
    pub fn accepts_fragment_layout(&self, site: &OpSite) -> Option<DType> {
        match (self, site.target) {
            (Op::Matmul(op), Target::Cuda(_)) => op.accepts_fragment_layout(site),
            _ => None,
        }
    }

    /// Whether the op has a kernel at this site that writes output `output` in MMA fragment layout with elements of `dtype`.
    pub fn emits_fragment_layout(&self, site: &OpSite, output: usize, dtype: DType) -> bool {
        if !matches!((self, site.target), (Op::Matmul(_) | Op::Attention(_), Target::Cuda(_))) {
            return false;
        }
        let mut wanted = site.clone();
        wanted.outs[output] = site.outs[output].as_mma_fragment(dtype);
        self.lower(&wanted).is_there()
    }
}

/// The candidates of every op that has more than one kernel in a kernel language, with the reasons for which each may be
/// rejected.
pub fn candidates() -> Vec<Described> {
    [matmul::candidates(), attention::candidates(), delta_net::candidates()].concat()
}

/// Why ops that only listings of other engines have (states as values, windows, copies) have no kernel on GPUs. A listing is
/// never run, so no rule is refused for it.
pub const LISTED_ONLY: &str = "serves listings of other engines only, which are counted and not run";

/// Checks the number of inputs of an op.
pub fn want_inputs(op: &'static str, ins: &[Sig], n: usize) -> Result<(), ShapeError> {
    if ins.len() == n {
        return Ok(());
    }
    Err(ShapeError { op, why: format!("takes {n} inputs, got {}", ins.len()) })
}
