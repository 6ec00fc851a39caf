//! The ops: one folder per op under `ops/`, and the one list of them.
//!
//! [`OpDef`] has no default bodies: an op that does not answer for a kernel language does not compile. An answer is
//! [`Lowering::Steps`] or a written [`Lowering::Gap`]; choosing the kernel *is* the support check.

use std::sync::Arc;

use crate::cpu_mem::{CpuCall, Scratch};
use crate::expr::Expr;
use crate::reference::{Parts, RefCall};
use crate::simd::Isa;
use crate::tensor::Sig;

pub mod attention;
pub mod cache_write;
pub mod columns;
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
pub mod state_read;
pub mod state_write;
pub mod window;

/// Classes of row counts for which plans are built and kernels chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowClass {
    /// One row.
    One,
    /// 2 to 8 rows.
    Few,
    /// 9 to 64 rows.
    Some,
    /// More than 64 rows.
    Many,
}

impl RowClass {
    /// The class of a batch of `rows` tokens.
    pub fn of(rows: usize) -> RowClass {
        match rows {
            0..=1 => RowClass::One,
            2..=8 => RowClass::Few,
            9..=64 => RowClass::Some,
            _ => RowClass::Many,
        }
    }

    /// At most eight rows: every worker can redo the work on the rows rather than wait for it.
    pub fn is_small(self) -> bool {
        self <= RowClass::Few
    }

    /// Name in plans and file names.
    pub fn name(self) -> &'static str {
        match self {
            RowClass::One => "1",
            RowClass::Few => "2-8",
            RowClass::Some => "9-64",
            RowClass::Many => "65+",
        }
    }
}

/// How far activations may be rounded where they meet weights; [`crate::precision::rounding`] says what that makes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// f32.
    F32,
    /// f16 where tensor cores multiply; f32 elsewhere.
    F16,
    /// bf16 where tensor cores multiply; f32 elsewhere.
    Bf16,
    /// int8 in blocks of 32 where the weight is quantized; f16 where tensor cores multiply.
    Int8,
}

/// Which kernel language a plan is lowered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Rust on the CPU, with the instruction set of its kernels.
    Cpu(Isa),
    /// CUDA C++, for a device that can do this.
    Cuda(CudaCaps),
    /// WGSL, for a device that can do this.
    Wgsl(WgslCaps),
}

impl Target {
    /// Kernels are text that a device compiles.
    pub fn is_text(self) -> bool {
        !matches!(self, Target::Cpu(_))
    }

    /// Bytes of a weight that a kernel can bind at once: a larger one lies in shards ([`Sig::shards`]).
    pub fn binding_bytes(self) -> u64 {
        match self {
            Target::Wgsl(caps) => caps.binding_bytes,
            _ => u64::MAX,
        }
    }

    /// Rows of one step at most: a longer prompt runs in chunks. A GPU wants more of them to be busy.
    pub fn step_rows(self) -> usize {
        match self {
            Target::Cpu(_) => 512,
            Target::Cuda(_) => 2048,
            // Values of wide layers must fit a binding.
            Target::Wgsl(caps) if caps.binding_bytes < 256 << 20 => 1024,
            Target::Wgsl(_) => 2048,
        }
    }
}

/// What kernels may know of an NVIDIA GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaCaps {
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Multiprocessors.
    pub sms: u32,
    /// Bytes of dynamic shared memory that a block may ask for.
    pub shared: u32,
    /// cuBLASLt can be called.
    pub lt: bool,
}

impl Default for CudaCaps {
    /// An H200, for plans without a device.
    fn default() -> Self {
        CudaCaps { sm: 90, sms: 132, shared: 227 * 1024, lt: true }
    }
}

/// What kernels may use of a wgpu adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgslCaps {
    /// Arithmetic in f16.
    pub f16: bool,
    /// Least and largest size of a subgroup, where there are subgroups.
    pub subgroups: Option<(u32, u32)>,
    /// Dot products of four int8.
    pub dot4: bool,
    /// Side of the tiles of cooperative matrices: 8, 16, or 0 where there are none.
    pub coop: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations of a workgroup.
    pub invocations: u32,
    /// Bytes of a weight that one buffer has and one binding takes, at most 1 GiB.
    pub binding_bytes: u64,
}

impl WgslCaps {
    /// Bytes of a buffer of weights at most, whatever an adapter offers.
    pub const MAX_SHARD: u64 = 1 << 30;
}

impl Default for WgslCaps {
    /// What nearly every adapter of recent years offers, for plans without a device.
    fn default() -> Self {
        WgslCaps {
            f16: true,
            subgroups: Some((32, 32)),
            dot4: true,
            coop: 0,
            workgroup_bytes: 32768,
            invocations: 256,
            binding_bytes: WgslCaps::MAX_SHARD,
        }
    }
}

/// Everything an op may look at when it chooses a kernel or counts its cost.
#[derive(Clone, Debug)]
pub struct Site {
    /// Signatures of the inputs.
    pub ins: Vec<Sig>,
    /// Signatures of the outputs.
    pub outs: Vec<Sig>,
    /// How many rows the plan is for.
    pub class: RowClass,
    /// Every sequence has one token: row i is that of sequence i.
    pub one_each: bool,
    /// Precision of activations.
    pub compute: Compute,
    /// Where it will run.
    pub target: Target,
}

/// What an op or step moves and computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Bytes read.
    pub read: Expr,
    /// Bytes written.
    pub written: Expr,
    /// Floating-point or integer multiply and add operations, two per multiply-add.
    pub flops: Expr,
}

impl Cost {
    /// Adds up.
    pub fn of(read: Expr, written: Expr, flops: Expr) -> Cost {
        Cost { read, written, flops }
    }

    /// Reads all inputs once, writes all outputs once.
    pub fn streams(site: &Site, flops: Expr) -> Cost {
        let sum = |sigs: &[Sig]| sigs.iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        Cost { read: sum(&site.ins), written: sum(&site.outs), flops }
    }
}

/// A CPU kernel: called once by every worker of a dispatch, takes ranges of work items until none is left.
pub type CpuKernel = Arc<dyn Fn(&CpuCall, &mut Scratch) + Send + Sync>;

/// The code of a step.
#[derive(Clone)]
pub enum Code {
    /// A function over work items.
    Cpu(CpuKernel),
    /// Text that the device compiles.
    Text(Arc<Text>),
    /// A product of matrices that a library of the device's maker computes.
    Library(Gemm),
}

/// `out = x · weightᵀ (+ bias) (+ residual)` with 16-bit factors and sums in f32, as libraries of matrix products have it.
///
/// Operands in order: x `[m, k]`, weight `[n, k]`, the bias `[n]` and the residual `[m, n]` where there are such, out
/// `[m, n]`. The factors are of `dtype`, all else is f32; rows lie one behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Type of both factors: f16 or bf16.
    pub dtype: crate::formats::DType,
    /// Rows of x.
    pub m: Expr,
    /// Rows of the weight.
    pub n: usize,
    /// Numbers in a row of either.
    pub k: usize,
    /// A bias is added to every row.
    pub bias: bool,
    /// A matrix of the product's shape is added.
    pub residual: bool,
}

/// A kernel as text: one whole translation unit. Operands are bound in the order of [`Step::args`]: in WGSL as
/// `@group(0) @binding(i)`, in CUDA C++ as the kernel's parameters, one pointer each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// The text.
    pub source: String,
    /// Name of the kernel in it.
    pub entry: String,
    /// Threads of a group, in one dimension. The step's grid counts groups; a device may split that number over two
    /// dimensions, so kernels make the group's index of both and leave where it lies beyond their work.
    pub workgroup: u32,
    /// Bytes of dynamic shared memory (CUDA).
    pub shared: u32,
    /// What the kernel does with each operand.
    pub access: Vec<Access>,
}

/// What a kernel does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes every part of it that anybody reads.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

/// Operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Input of the op.
    In(usize),
    /// Shard of an input that is a weight: the input, and the shard's number. `In` is its first.
    Shard(usize, usize),
    /// Output of the op.
    Out(usize),
    /// Scratch of this lowering.
    Scratch(usize),
    /// The step batch, as [`crate::batch::StepBatch::words`] writes it down (text kernels only).
    Batch,
    /// One u32 for each sequence of the batch: its last sampled id. `sample` writes it, `embed` reads it where a
    /// token's id is [`crate::batch::FEED`] (text kernels only).
    Feed,
    /// [`crate::device::ZERO_WORDS`] that are zero when a dispatch begins: counters of blocks that finish, and what these
    /// hand over. A dispatch that uses them leaves them zero (text kernels only).
    Zeros,
}

/// One launch of an op's lowering; becomes one row of the plan.
#[derive(Clone)]
pub struct Step {
    /// Kernel and variant, as printed: `matmul/tile16.1`.
    pub kernel: String,
    /// Code.
    pub code: Code,
    /// Operands, in the order in which the kernel addresses them.
    pub args: Vec<Arg>,
    /// Work items.
    pub grid: Expr,
    /// Smallest number of work items worth giving to one worker at a time.
    pub grain: usize,
    /// What this step itself moves and computes.
    pub cost: Cost,
    /// Waits of all workers for each other inside the kernel.
    pub grid_syncs: u32,
}

/// An op's answer for a kernel language.
pub enum Lowering {
    /// Launches in order, with the sizes in bytes of the scratch slots they share.
    Steps {
        /// The launches.
        steps: Vec<Step>,
        /// Bytes of each scratch slot.
        scratch: Vec<Expr>,
    },
    /// There is no kernel here, and why.
    Gap(&'static str),
}

impl Lowering {
    /// There is a kernel.
    pub fn is_there(&self) -> bool {
        matches!(self, Lowering::Steps { .. })
    }

    /// A lowering of one text kernel, which moves and computes the op's minimum.
    pub fn text(kernel: impl Into<String>, args: Vec<Arg>, grid: Expr, cost: Cost, text: Text) -> Lowering {
        debug_assert_eq!(args.len(), text.access.len());
        let code = Code::Text(Arc::new(text));
        Lowering::Steps {
            steps: vec![Step { kernel: kernel.into(), code, args, grid, grain: 1, cost, grid_syncs: 0 }],
            scratch: vec![],
        }
    }

    /// A lowering of one step on all inputs and outputs, which moves and computes the op's minimum.
    pub fn one(
        site: &Site,
        kernel: impl Into<String>,
        grid: Expr,
        grain: usize,
        cost: Cost,
        code: impl Fn(&CpuCall, &mut Scratch) + Send + Sync + 'static,
    ) -> Lowering {
        let args = (0..site.ins.len()).map(Arg::In).chain((0..site.outs.len()).map(Arg::Out)).collect();
        let code = Code::Cpu(Arc::new(code));
        Lowering::Steps {
            steps: vec![Step { kernel: kernel.into(), code, args, grid, grain, cost, grid_syncs: 0 }],
            scratch: vec![],
        }
    }
}

/// What an op computes.
pub enum Meaning {
    /// A naive f32 function.
    Direct(Box<dyn Fn(&mut RefCall)>),
    /// The same as these ops: the reference of a fused op cannot drift from its parts.
    Same(Parts),
}

/// Why an op cannot take its inputs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op}: {why}")]
pub struct ShapeError {
    /// The op.
    pub op: &'static str,
    /// What does not fit.
    pub why: String,
}

/// A test case of an op: the op on inputs of these shapes, with the bytes and flops it must claim, by hand.
#[derive(Clone)]
pub struct Case {
    /// Name in the table of cases.
    pub name: String,
    /// The op.
    pub op: Op,
    /// Its inputs.
    pub ins: Vec<Sig>,
    /// What reads its first output, with its other inputs: for what two ops do otherwise than each alone.
    pub then: Option<(Op, Vec<Sig>)>,
    /// Tokens, sequences and context of the batch.
    pub batch: crate::expr::Bind,
    /// Bytes read, bytes written, flops, as counted by hand.
    pub cost: Option<(u64, u64, u64)>,
    /// Largest error allowed, relative to the largest magnitude of the output.
    pub tolerance: f32,
    /// Precision of activations.
    pub compute: Compute,
    /// Inputs whose numbers are drawn from a range (f32, as stored): input, lowest, highest.
    pub ranges: Vec<(usize, f32, f32)>,
}

impl Case {
    /// A case without a counted cost and with the usual tolerance for f32 kernels.
    pub fn new(name: impl Into<String>, op: impl Into<Op>, ins: Vec<Sig>, (t, s, l): (u64, u64, u64)) -> Case {
        let batch = crate::expr::Bind { t, s, l };
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
        }
    }

    /// Asserts bytes read, bytes written and flops.
    pub fn costs(mut self, read: u64, written: u64, flops: u64) -> Case {
        self.cost = Some((read, written, flops));
        self
    }

    /// Gives its first output to another op, with these inputs behind it; what that makes is the case's output.
    pub fn then(mut self, op: impl Into<Op>, ins: Vec<Sig>) -> Case {
        self.then = Some((op.into(), ins));
        self
    }

    /// All inputs: its own, then those of what follows.
    pub fn all_ins(&self) -> impl Iterator<Item = &Sig> {
        self.ins.iter().chain(self.then.iter().flat_map(|(_, ins)| ins))
    }

    /// Draws the numbers of an f32 input evenly from a range, where ordinary random numbers would make no sense.
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
    /// What it computes.
    fn meaning(&self) -> Meaning;
    /// The least it can move and compute.
    fn cost(&self, site: &Site) -> Cost;
    /// How it runs on the CPU.
    fn cpu(&self, site: &Site) -> Lowering;
    /// How it runs in CUDA C++.
    fn cuda(&self, site: &Site) -> Lowering;
    /// How it runs in WGSL.
    fn wgsl(&self, site: &Site) -> Lowering;
    /// Its test cases.
    fn cases() -> Vec<Case>;
}

/// Makes the enum of ops and the forwarders from the one list.
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
            /// What it computes.
            pub fn meaning(&self) -> Meaning { match self { $(Op::$Name(op) => op.meaning()),* } }
            /// The least it can move and compute.
            pub fn cost(&self, site: &Site) -> Cost { match self { $(Op::$Name(op) => op.cost(site)),* } }
            /// How it runs on the site's target.
            pub fn lower(&self, site: &Site) -> Lowering {
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
    Columns = columns::Columns,
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
    /// The type of the pieces ([`crate::tensor::Role::Pieces`]) that its kernel here would take its first input as.
    pub fn takes_pieces(&self, site: &Site) -> Option<crate::formats::DType> {
        match (self, site.target) {
            (Op::Matmul(op), Target::Cuda(_)) => op.takes_pieces(site),
            _ => None,
        }
    }

    /// It has a kernel here that gives an output as pieces of a type.
    pub fn gives_pieces(&self, site: &Site, output: usize, dtype: crate::formats::DType) -> bool {
        if !matches!((self, site.target), (Op::Matmul(_) | Op::Attention(_), Target::Cuda(_))) {
            return false;
        }
        let mut wanted = site.clone();
        wanted.outs[output] = site.outs[output].as_pieces(dtype);
        self.lower(&wanted).is_there()
    }
}

/// Checks the number of inputs of an op.
pub fn want_inputs(op: &'static str, ins: &[Sig], n: usize) -> Result<(), ShapeError> {
    if ins.len() == n {
        return Ok(());
    }
    Err(ShapeError { op, why: format!("takes {n} inputs, got {}", ins.len()) })
}
