//! The launch IR, to which an op is lowered. A launch has code (a CPU function, kernel text, or a call of the vendor's matrix
//! library), operands, a grid, and a cost: the bytes it moves and the operations it computes.

use std::sync::Arc;

use crate::cpu::call::CpuCall;
use crate::cpu::scratch::Scratch;
use crate::expr::Expr;
use crate::formats::DType;
use crate::kernel_id::KernelId;

/// Bytes that an op or a launch moves and operations that it computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Bytes read.
    pub read: Expr,
    /// Bytes written.
    pub written: Expr,
    /// Floating-point and integer operations, two per multiply-add.
    pub flops: Expr,
}

impl Cost {
    /// The cost of so many bytes read, bytes written and operations.
    pub fn of(read: Expr, written: Expr, flops: Expr) -> Cost {
        Cost { read, written, flops }
    }
}

/// A CPU kernel. Every worker of a dispatch calls it once, and it takes ranges of work items until none is left.
pub type CpuKernel = Arc<dyn Fn(&CpuCall, &mut Scratch) + Send + Sync>;

/// The code of a launch.
#[derive(Clone)]
pub enum Code {
    /// A function over work items, for the CPU.
    Cpu(CpuKernel),
    /// Kernel source that the device compiles: CUDA C++ or WGSL.
    Text(Arc<Text>),
    /// A GEMM that the vendor's library computes.
    Library(Gemm),
}

/// A GEMM for a library such as cuBLASLt: `out = x · weightᵀ (+ bias) (+ residual)`, with 16-bit factors accumulated in f32.
///
/// Operands in order: x `[m, k]`, weight `[n, k]`, the bias `[n]` and the residual `[m, n]` where present, out `[m, n]`.
/// Both factors are of `dtype` and the other operands f32; all matrices are row-major without padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Type of both factors: f16 or bf16.
    pub dtype: DType,
    /// Rows of x.
    pub m: Expr,
    /// Rows of the weight.
    pub n: usize,
    /// Columns of x and of the weight: the reduction dimension.
    pub k: usize,
    /// True if a bias is added to every row.
    pub bias: bool,
    /// True if a residual of the output's shape is added.
    pub residual: bool,
}

/// A kernel as text: one whole translation unit. Operands are bound in the order of [`Launch::args`]: in WGSL as
/// `@group(0) @binding(i)`, in CUDA C++ as the kernel's parameters, one pointer each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// The source text.
    pub source: String,
    /// Name of the kernel function in the source.
    pub entry: String,
    /// Threads of a thread block (CUDA) or workgroup (WGSL), in one dimension. The launch's grid is the number of blocks or
    /// workgroups. A device may split that number over two grid dimensions, so a kernel computes its index from both and
    /// returns if the index lies beyond its work.
    pub workgroup: u32,
    /// Bytes of dynamic shared memory (CUDA).
    pub shared: u32,
    /// How the kernel accesses each operand.
    pub access: Vec<Access>,
}

/// How a kernel accesses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads.
    Read,
    /// Only writes, and writes every element that a later dispatch reads.
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// Operand of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Input of the op, by index.
    In(usize),
    /// Shard of a weight: the index of the op's input, and that of the shard. `In` stands for the first shard.
    Shard(usize, usize),
    /// Output of the op, by index.
    Out(usize),
    /// Scratch buffer of this lowering, by index.
    Scratch(usize),
    /// The step batch in the layout of [`crate::batch::StepBatch::words`] (text kernels only).
    Batch,
    /// One u32 for each sequence of the batch: the token id that was sampled last for it. `sample` writes it, `embed` reads it
    /// where a token's id is [`crate::batch::PENDING_TOKEN`] (text kernels only).
    PendingTokens,
    /// [`crate::device::ZEROED_WORKSPACE_WORDS`] words that are zero when a dispatch begins. They hold split-K semaphores,
    /// which count the blocks that have finished, and partials. A dispatch that uses them leaves them zero (text kernels only).
    ZeroedWorkspace,
}

/// One launch of an op's lowering; becomes one dispatch of the plan.
#[derive(Clone)]
pub struct Launch {
    /// Kernel, variant and tuning.
    pub kernel: KernelId,
    /// CPU function, kernel text or library call.
    pub code: Code,
    /// Operands, in the order of the kernel's parameters.
    pub args: Vec<Arg>,
    /// Thread blocks or workgroups on a GPU, work items on the CPU.
    pub grid: Expr,
    /// The fewest work items that are worth a worker's taking at a time (CPU).
    pub grain: usize,
    /// Bytes moved and operations computed by this launch alone.
    pub cost: Cost,
    /// Grid-wide synchronizations inside the kernel.
    pub grid_syncs: u32,
}
