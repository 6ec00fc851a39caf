//! The launch IR: what an op hands to a device for one launch. A launch has code (a CPU function, kernel text, or a call of
//! the vendor's matrix library), operands, a grid, and what it moves and computes.

use std::sync::Arc;

use crate::cpu::call::CpuCall;
use crate::cpu::scratch::Scratch;
use crate::expr::Expr;
use crate::formats::DType;
use crate::kernel_id::KernelId;

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
    pub dtype: DType,
    /// Rows of x.
    pub m: Expr,
    /// Rows of the weight.
    pub n: usize,
    /// Elements in a row of either.
    pub k: usize,
    /// A bias is added to every row.
    pub bias: bool,
    /// A matrix of the product's shape is added.
    pub residual: bool,
}

/// A kernel as text: one whole translation unit. Operands are bound in the order of [`Launch::args`]: in WGSL as
/// `@group(0) @binding(i)`, in CUDA C++ as the kernel's parameters, one pointer each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// The text.
    pub source: String,
    /// Name of the kernel in it.
    pub entry: String,
    /// Threads of a thread block (CUDA) or workgroup (WGSL), in one dimension. The launch's grid counts these; a device may split that number over two
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
    /// token's id is [`crate::batch::PENDING_TOKEN`] (text kernels only).
    PendingTokens,
    /// [`crate::device::ZEROED_WORKSPACE_WORDS`] that are zero when a dispatch begins: counters of blocks that finish, and what
    /// they pass on: split-K semaphores and partials. A dispatch that uses them leaves them zero (text kernels only).
    ZeroedWorkspace,
}

/// One launch of an op's lowering; becomes one dispatch of the plan.
#[derive(Clone)]
pub struct Launch {
    /// Kernel and variant.
    pub kernel: KernelId,
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
