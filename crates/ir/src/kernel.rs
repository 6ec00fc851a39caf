//! The launch IR: the description of one launch that an op's lowering gives to a device. A launch has code (a CPU function,
//! kernel text, or a call of the vendor's matrix library), operands, a grid, and a cost.

use std::sync::Arc;

use crate::cpu::call::CpuCall;
use crate::cpu::scratch::Scratch;
use crate::expr::Expr;
use crate::formats::DType;
use crate::kernel_id::KernelId;

/// Memory traffic and operations of an op or of one launch.
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
    /// A cost of these bytes and operations.
    pub fn of(read: Expr, written: Expr, flops: Expr) -> Cost {
        Cost { read, written, flops }
    }
}

/// A CPU kernel. Every worker of a dispatch calls it once; it takes ranges of work items until none is left.
pub type CpuKernel = Arc<dyn Fn(&CpuCall, &mut Scratch) + Send + Sync>;

/// The code of a launch.
#[derive(Clone)]
pub enum Code {
    /// A function over work items.
    Cpu(CpuKernel),
    /// Text that the device compiles.
    Text(Arc<Text>),
    /// A matrix product that the vendor's library computes (cuBLASLt).
    Library(Gemm),
}

/// `out = x · weightᵀ (+ bias) (+ residual)` with 16-bit factors and f32 accumulation, as GEMM libraries offer it.
///
/// Operands in order: x `[m, k]`, weight `[n, k]`, the bias `[n]` if `bias` is set, the residual `[m, n]` if `residual` is set,
/// and out `[m, n]`. x and weight are of `dtype`, all others are f32; all matrices are row-major without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Type of both factors: f16 or bf16.
    pub dtype: DType,
    /// Rows of x.
    pub m: Expr,
    /// Rows of the weight.
    pub n: usize,
    /// Elements in a row of x and of the weight.
    pub k: usize,
    /// A bias vector is added to every row.
    pub bias: bool,
    /// A matrix of the shape of the product is added.
    pub residual: bool,
}

/// A kernel as text: one whole translation unit. Operands are bound in the order of [`Launch::args`]: in WGSL as
/// `@group(0) @binding(i)`, in CUDA C++ as the kernel's parameters, one pointer each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// CUDA C++ or WGSL.
    pub source: String,
    /// Name of the kernel's function in `source`.
    pub entry: String,
    /// Threads of a thread block (CUDA) or workgroup (WGSL), in one dimension. The launch's grid is the number of such blocks.
    /// A device may split that number over two grid dimensions, so a kernel computes its block's index from both dimensions and
    /// returns where the index lies beyond its work.
    pub workgroup: u32,
    /// Bytes of dynamic shared memory (CUDA).
    pub shared: u32,
    /// Whether the kernel reads or writes each operand, in the order of the operands.
    pub access: Vec<Access>,
}

/// How a kernel accesses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel only reads it.
    Read,
    /// The kernel only writes it, and writes every byte of it that a later dispatch reads.
    Write,
    /// The kernel reads and writes it.
    ReadWrite,
}

/// Operand of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Input of the op.
    In(usize),
    /// Shard of an input that is a weight: the input, and the shard's number. [`Arg::In`] stands for shard 0.
    Shard(usize, usize),
    /// Output of the op.
    Out(usize),
    /// Scratch of this lowering.
    Scratch(usize),
    /// The step batch, in the layout of [`crate::batch::StepBatch::words`] (text kernels only).
    Batch,
    /// One u32 for each sequence of the batch: the token id that was sampled last for it. `sample` writes it, `embed` reads it
    /// where a token's id is [`crate::batch::PENDING_TOKEN`] (text kernels only).
    PendingTokens,
    /// The zeroed workspace: [`crate::device::ZEROED_WORKSPACE_WORDS`] words that are zero when a dispatch begins. It holds
    /// split-K semaphores, which count the blocks that have finished, and split-K partials. A dispatch that uses it leaves it
    /// zero (text kernels only).
    ZeroedWorkspace,
}

/// One launch of an op's lowering; becomes one dispatch of the plan.
#[derive(Clone)]
pub struct Launch {
    /// Kernel and variant.
    pub kernel: KernelId,
    /// The kernel's function or text, or a library call.
    pub code: Code,
    /// Operands, in the order of the kernel's parameters.
    pub args: Vec<Arg>,
    /// Number of work items (CPU), thread blocks (CUDA) or workgroups (WGSL).
    pub grid: Expr,
    /// Fewest work items that are worth giving to a CPU worker at a time.
    pub grain: usize,
    /// Bytes and operations of this launch alone.
    pub cost: Cost,
    /// Grid syncs: how often all blocks or workers wait for each other inside the kernel.
    pub grid_syncs: u32,
}
