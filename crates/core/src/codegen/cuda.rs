//! Assembles a CUDA translation unit: constants, operands and kernel text become one kernel, for one launch.
//!
//! The texts are in the ops' folders and in `codegen/cuda/`; they name operands and sizes by macros that [`Unit`] defines
//! in front of them. Every unit is compiled by itself, so names need no prefix. The header of a kernel's file has defaults
//! for them (`codegen/cuda/defaults.cuh`), so that the file compiles without a launch.

use std::fmt::{Display, Write};
use std::sync::Arc;

use crate::lowering::{Lowering, OpSite};
use onetrip_ir::expr::Expr;
use onetrip_ir::formats::DType;
use onetrip_ir::formats::block::ScaleKind;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::kernel::{Access, Arg, Code, Cost, Launch, Text};
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::target::{Compute, CudaCaps, Target};
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Layout, Sig};
use onetrip_ir::tree::Tree;

/// Inline PTX and its wrappers; replaced where kernels run without a GPU.
pub const MACHINE: &str = include_str!("cuda/machine.cuh");
const COMMON: &str = include_str!("cuda/common.cuh");
const BATCH: &str = include_str!("cuda/batch.cuh");
/// Weights as kernels read them, and activation quantization to int8.
pub const WEIGHTS: &str = include_str!("cuda/weights.cuh");
/// Tensor cores, asynchronous copies and clusters; like [`MACHINE`], replaced where kernels run without a GPU.
pub const TENSOR: &str = include_str!("cuda/tensor.cuh");
/// Attention heads: RMS norm, rotary embedding, and vectors of a KV cache.
pub const HEADS: &str = include_str!("cuda/heads.cuh");
/// Conversion to 16 bits, f16 or bf16 as `HALF_BF16` says, and the MMA fragment layout.
pub const HALF: &str = include_str!("cuda/half.cuh");
/// Tables of a matmul's outputs and products.
pub const PROBLEMS: &str = include_str!("cuda/problems.cuh");
/// Causal convolution of a channel.
pub const CONV: &str = include_str!("cuda/conv.cuh");

/// The capabilities of the site's CUDA device; the defaults for other targets, which never ask.
pub fn caps(site: &OpSite) -> CudaCaps {
    match site.target {
        Target::Cuda(caps) => caps,
        _ => CudaCaps::default(),
    }
}

/// A translation unit under construction: its constants, operands and text.
pub struct Unit {
    threads: u32,
    shared: usize,
    blocks: u32,
    cluster: u32,
    defines: String,
    text: String,
    args: Vec<Arg>,
    access: Vec<Access>,
}

impl Unit {
    /// An empty unit whose thread blocks have `threads` threads, a multiple of 32.
    pub fn new(threads: u32) -> Unit {
        let mut unit = Unit {
            threads,
            shared: 0,
            blocks: 1,
            cluster: 1,
            defines: String::new(),
            text: String::new(),
            args: vec![],
            access: vec![],
        };
        // Without it a kernel's file takes the defaults of its header.
        unit.set("ONETRIP_LAUNCH", 1).set("THREADS", threads);
        unit.set("WARPS", threads / 32);
        unit
    }

    /// Defines a constant.
    pub fn set(&mut self, name: &str, value: impl Display) -> &mut Self {
        let _ = writeln!(self.defines, "#define {name} {value}");
        self
    }

    /// Defines an f32 constant, with all its bits.
    pub fn set_f32(&mut self, name: &str, value: f32) -> &mut Self {
        self.set(name, float(value))
    }

    /// Bytes of dynamic shared memory.
    pub fn shared(&mut self, bytes: usize) -> &mut Self {
        self.shared = bytes;
        self
    }

    /// Thread blocks that should be resident on an SM at once (`__launch_bounds__`): bounds the registers per thread.
    pub fn resident(&mut self, groups: u32) -> &mut Self {
        self.blocks = groups;
        self
    }

    /// Thread blocks of a cluster; every grid must be a multiple of it. Devices from sm_90 on have clusters, of up to 8 blocks.
    pub fn cluster(&mut self, groups: u32) -> &mut Self {
        self.cluster = groups;
        self
    }

    fn operand(&mut self, arg: Arg, access: Access) -> usize {
        self.args.push(arg);
        self.access.push(access);
        self.args.len() - 1
    }

    /// An operand that is read, as a pointer to `kind`.
    pub fn read(&mut self, name: &str, kind: &str, arg: Arg) -> &mut Self {
        let i = self.operand(arg, Access::Read);
        self.set(name, format!("((const {kind}*)A.a{i})"))
    }

    /// An operand that is written.
    pub fn write(&mut self, name: &str, kind: &str, arg: Arg) -> &mut Self {
        let i = self.operand(arg, Access::Write);
        self.set(name, format!("(({kind}*)A.a{i})"))
    }

    /// An operand that is read and written.
    pub fn update(&mut self, name: &str, kind: &str, arg: Arg) -> &mut Self {
        let i = self.operand(arg, Access::ReadWrite);
        self.set(name, format!("(({kind}*)A.a{i})"))
    }

    /// The words of the step batch, as operand `BATCH`.
    pub fn batch(&mut self) -> &mut Self {
        self.read("BATCH", "u32", Arg::Batch)
    }

    /// Defines `X_PLACE(c)`, the column of the stored row at which element `c` of the view is, and `X_STRIDE`, the elements
    /// from one stored row to the next. Without a view the op reads whole rows.
    pub fn view_of(&mut self, view: &Option<Slice>, stride: usize) -> &mut Self {
        self.set("X_STRIDE", stride);
        match view {
            None => self.set("X_PLACE(c)", "(c)"),
            Some(Slice { group, start, len }) => {
                self.set("X_PLACE(c)", format!("((c) / {len}u * {group}u + {start}u + (c) % {len}u)"))
            }
        }
    }

    /// Defines `ROWS`, the number of rows of a value, as an expression over the batch (which must be an operand already).
    pub fn rows(&mut self, rows: &Expr) -> &mut Self {
        let code = rows_code(rows);
        self.set("ROWS", code)
    }

    /// Adds a weight as an operand and defines `name` as its reader (`cuda/weights.cuh`). False where no kernel reads its
    /// layout.
    pub fn weight(&mut self, name: &str, arg: Arg, sig: &Sig, int8: bool) -> bool {
        let Some((kind, parts)) = weight_type(sig, int8) else { return false };
        let i = self.operand(arg, Access::Read);
        let base = format!("(const u8*)A.a{i}");
        let fields: Vec<String> = parts.iter().map(|at| format!("{base} + {at}")).collect();
        self.set(name, format!("{kind}{{{}}}", fields.join(", ")));
        true
    }

    /// Defines `name` as generated statements: the problems of this launch (which weights and outputs a kernel works on) and its
    /// epilogue. The kernel's file has a default of that name in its header, and so compiles by itself.
    pub fn code(&mut self, name: &str, statements: &str) -> &mut Self {
        let lines = statements.trim_end().replace("#pragma unroll", "_Pragma(\"unroll\")").replace('\n', " \\\n    ");
        self.set(name, lines)
    }

    /// Appends kernel text.
    pub fn part(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Finishes the unit: a launch of `grid` thread blocks, whose kernel has this name in plans.
    pub fn launch(self, kernel: impl Into<KernelId>, grid: Expr, cost: Cost) -> Launch {
        let (kernel, n) = (kernel.into(), self.args.len());
        let entry: String =
            kernel.to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>()
                + "_kernel";
        let fields: Vec<String> = (0..n).map(|i| format!("void* a{i};")).collect();
        let params: Vec<String> = (0..n).map(|i| format!("void* a{i}")).collect();
        let names: Vec<String> = (0..n).map(|i| format!("a{i}")).collect();
        let cluster = match self.cluster {
            1 => String::new(),
            n => format!("__cluster_dims__({n}, 1, 1) "),
        };
        let head = format!(
            "struct Args {{ {} }};\n#define ARGS {{{}}}\n#define KERNEL extern \"C\" __global__ void {cluster}\
             __launch_bounds__({}, {}) {entry}({})\n",
            fields.join(" "),
            names.join(", "),
            self.threads,
            self.blocks,
            params.join(", "),
        );
        let source = format!("{MACHINE}{COMMON}{BATCH}{}{head}{}", self.defines, self.text);
        let shared = self.shared as u32;
        let text = Text { source, entry, workgroup: self.threads, shared, access: self.access };
        Launch { kernel, code: Code::Text(Arc::new(text)), args: self.args, grid, grain: 1, cost, grid_syncs: 0 }
    }

    /// A lowering that consists of this one launch.
    pub fn lower(self, kernel: impl Into<KernelId>, grid: Expr, cost: Cost) -> Lowering {
        Lowering::steps(vec![self.launch(kernel, grid, cost)], vec![])
    }
}

/// C++ for an expression in T, S and L, over the batch's words.
fn rows_code(rows: &Expr) -> String {
    let join = |parts: &[Expr], sep: &str| {
        let parts: Vec<String> = parts.iter().map(rows_code).collect();
        format!("({})", parts.join(sep))
    };
    match rows {
        Expr::Const(n) => format!("{n}u"),
        Expr::T => "(Batch{BATCH}.t())".into(),
        Expr::S => "(Batch{BATCH}.s())".into(),
        Expr::L => "(BATCH[2])".into(),
        Expr::Sum(parts) => join(parts, " + "),
        Expr::Product(parts) => join(parts, " * "),
        Expr::CeilDiv(e, n) => format!("(({} + {}u) / {n}u)", rows_code(e), n.saturating_sub(1)),
        // Keys and pairs count cached positions; no value of a graph has that many rows.
        Expr::Keys(_) | Expr::Pairs(_) => "0u".into(),
    }
}

/// Whether a weight has a type in `cuda/weights.cuh`: whether any CUDA kernel reads its layout.
pub fn has_weight_type(sig: &Sig) -> bool {
    weight_type(sig, false).is_some()
}

/// The type of a weight in `cuda/weights.cuh`, and the byte offsets of its planes.
fn weight_type(sig: &Sig, int8: bool) -> Option<(String, Vec<usize>)> {
    let floats = |kind: usize| Some((format!("Floats<{kind}>"), vec![0]));
    match (sig.dtype, sig.layout()) {
        (DType::F32, Layout::Stored) => floats(0),
        (DType::F16, Layout::Stored) => floats(1),
        (DType::BF16, Layout::Stored) => floats(2),
        (dtype, Layout::Planes) => {
            let p = Planes::new(dtype, sig.rows.constant()? as usize, sig.width)?;
            let s = p.spec;
            let scale = match s.scale {
                ScaleKind::F16 => "ScaleF16",
                ScaleKind::E8M0 => "ScaleE8M0",
            };
            let name = format!("Planes<{}, {}, {}, {}, {scale}, {int8}>", s.bits, s.group, s.zero, s.has_min);
            Some((name, vec![0, p.at_scales, if s.has_min { p.at_mins } else { 0 }]))
        }
        _ => None,
    }
}

/// Whether activations are quantized to int8 for the product with this weight.
pub fn meets_int8(sig: &Sig, compute: Compute) -> bool {
    compute == Compute::Int8 && sig.layout() == Layout::Planes
}

/// A C++ literal of an f32, with all its bits.
pub fn float(value: f32) -> String {
    if value.is_finite() { format!("{value:e}f") } else { format!("__int_as_float({:#x})", value.to_bits()) }
}

/// A C++ expression for a tree; `leaf` gives the code of an operand.
pub fn tree(tree: &Tree, leaf: &dyn Fn(usize) -> String) -> String {
    tree.code(float, leaf)
}

/// The number of thread blocks of `per` items each for `rows` rows of `width` items.
pub fn groups(rows: &Expr, width: usize, per: usize) -> Expr {
    match rows.constant() {
        Some(n) => Expr::from((n * width as u64).div_ceil(per as u64)),
        None => Expr::CeilDiv(Box::new(rows.clone() * width), per as u64),
    }
}

/// The element type of a KV cache in `cuda/heads.cuh`; `None` where heads of `dim` elements have no kernel.
pub fn cache_type(sig: &Sig, dim: usize) -> Option<&'static str> {
    match sig.dtype {
        _ if !dim.is_multiple_of(8) => None,
        DType::F32 => Some("CACHE_F32"),
        DType::F16 => Some("CACHE_F16"),
        DType::Q8_0 if dim.is_multiple_of(32) => Some("CACHE_Q8_0"),
        _ => None,
    }
}
