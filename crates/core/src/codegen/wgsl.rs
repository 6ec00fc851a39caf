//! Assembles a WGSL module: constants, bindings with accessors, generated expressions, and the kernel's own text.
//!
//! A kernel's file is complete WGSL: its header declares the constants, bindings and functions that it needs, with defaults
//! (see [`template`]). The op's `wgsl` answer declares those of the site here, in the header's place: `read("x", …)` makes the
//! binding `x` and a function `x_at(i)` that returns element i whatever the type; an optional operand that is absent becomes a
//! function that returns a constant. So one text serves all forms of an op and stays free of conditions on types.

use crate::lowering::{Lowering, OpSite};
use onetrip_ir::expr::Expr;
use onetrip_ir::formats::DType;
use onetrip_ir::formats::block::ScaleKind;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::kernel::{Access, Arg, Code, Cost, Launch, Text};
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::target::{Target, WgslCaps};
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Layout, Sig};
use onetrip_ir::tree::Tree;
use template::{renamed, without_header};

pub(crate) mod template;

/// Scalar functions and exact rounding.
const MATH: &str = include_str!("wgsl/math.wgsl");
/// Accessors of the step batch.
const BATCH: &str = include_str!("wgsl/batch.wgsl");
/// The entry point of kernels with one thread per element of the output.
const PER_ELEMENT: &str = include_str!("wgsl/per_element.wgsl");
/// Readers of a quantized weight in planes.
const PLANES: &str = include_str!("wgsl/planes.wgsl");
/// Reductions through workgroup memory.
const REDUCE: &str = include_str!("wgsl/reduce.wgsl");
/// Reductions that begin in subgroups of any size.
const REDUCE_SUBGROUP: &str = include_str!("wgsl/reduce_subgroup.wgsl");

/// The split-K workspace: publishing partial sums, and finding the workgroup that arrives last.
const SPLIT_K: &str = include_str!("wgsl/split_k.wgsl");

/// A module under construction: its text and bindings.
pub(crate) struct Wgsl {
    kernel: KernelId,
    workgroup: u32,
    source: String,
    args: Vec<Arg>,
    access: Vec<Access>,
}

/// A WGSL literal of an f32.
pub(crate) fn float(x: f32) -> String {
    format!("{x:?}f")
}

/// WGSL for an expression in T, S and L, over the step batch.
pub(crate) fn size(e: &Expr) -> String {
    let join = |parts: &[Expr], op: &str| format!("({})", parts.iter().map(size).collect::<Vec<_>>().join(op));
    match e {
        Expr::Const(n) => format!("{n}u"),
        Expr::T => "batch_t()".into(),
        Expr::S => "batch_s()".into(),
        Expr::L => "batch[2]".into(),
        Expr::Sum(parts) => join(parts, " + "),
        Expr::Product(parts) => join(parts, " * "),
        Expr::CeilDiv(a, n) => format!("(({} + {}u) / {n}u)", size(a), n - 1),
        // Keys and pairs count cached positions; no value of a graph has that many rows.
        Expr::Keys(_) | Expr::Pairs(_) => "0u".into(),
    }
}

/// A WGSL expression for a tree; `leaf` gives the code of an operand.
pub(crate) fn tree(tree: &Tree, leaf: &dyn Fn(usize) -> String) -> String {
    tree.code(float, leaf)
}

impl Wgsl {
    /// An empty module, whose kernel has this name in plans and workgroups of `workgroup` threads (`WG` in its text).
    pub fn new(kernel: impl Into<KernelId>, workgroup: u32) -> Wgsl {
        let mut w = Wgsl { kernel: kernel.into(), workgroup, source: String::new(), args: vec![], access: vec![] };
        w.line(format!("// {}", w.kernel));
        w.number("WG", workgroup as usize);
        w.bind("batch", "u32", Arg::Batch, Access::Read);
        w.line("struct Eight { a: vec4<f32>, b: vec4<f32> }");
        w.text(BATCH).text(MATH)
    }

    /// Enables an extension of the language.
    pub fn enable(&mut self, extension: &str) {
        self.source.insert_str(0, &format!("enable {extension};\n"));
    }

    /// Appends a line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.source.push_str(line.as_ref());
        self.source.push('\n');
    }

    /// Appends a file without its header.
    pub fn text(mut self, file: &str) -> Wgsl {
        self.file(file);
        self
    }

    /// As [`Wgsl::text`], on a module that is borrowed.
    pub fn file(&mut self, file: &str) {
        let (about, text) = without_header(file);
        self.source.push_str(about);
        self.source.push_str(text);
    }

    /// Appends the reductions over a workgroup, through subgroups where the device has usable ones.
    pub fn reductions(mut self, caps: &WgslCaps) -> Wgsl {
        match lanes(caps) {
            Some(lanes) => {
                self.number("LANES", lanes as usize);
                self.text(REDUCE_SUBGROUP)
            }
            None => self.text(REDUCE),
        }
    }

    /// Declares the split-K workspace: zeroed words through which the workgroups of one dispatch pass partial sums and find
    /// the last of them.
    pub fn split_k_workspace(&mut self) {
        self.bind("workspace", "atomic<u32>", Arg::ZeroedWorkspace, Access::ReadWrite);
        self.file(SPLIT_K);
    }

    /// Declares a u32 constant.
    pub fn number(&mut self, name: &str, value: usize) {
        self.line(format!("const {name}: u32 = {value}u;"));
    }

    /// Declares an f32 constant.
    pub fn float(&mut self, name: &str, value: f32) {
        self.line(format!("const {name}: f32 = {};", float(value)));
    }

    /// Declares a bool constant.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.line(format!("const {name}: bool = {value};"));
    }

    /// Declares `fn name() -> u32`, which returns an expression over the batch.
    pub fn size(&mut self, name: &str, value: &Expr) {
        self.line(format!("fn {name}() -> u32 {{ return {}; }}", size(value)));
    }

    /// Declares a storage binding: an array with elements of WGSL type `of`.
    pub fn bind(&mut self, name: &str, of: &str, arg: Arg, access: Access) {
        let mode = if access == Access::Read { "read" } else { "read_write" };
        let n = self.args.len();
        self.line(format!("@group(0) @binding({n}) var<storage, {mode}> {name}: array<{of}>;"));
        self.args.push(arg);
        self.access.push(access);
    }

    /// Declares a float operand: the binding `name`, and `name_at(i)`. Quantized formats have other readers.
    pub fn read(&mut self, name: &str, arg: Arg, dtype: DType) {
        let (of, value) = match dtype {
            DType::F16 => ("u32", format!("unpack2x16float({name}[i >> 1u])[i & 1u]")),
            DType::BF16 => ("u32", format!("bitcast<f32>(({name}[i >> 1u] >> (16u * (i & 1u))) << 16u)")),
            _ => ("f32", format!("{name}[i]")),
        };
        self.bind(name, of, arg, Access::Read);
        self.line(format!("fn {name}_at(i: u32) -> f32 {{ return {value}; }}"));
    }

    /// As [`Wgsl::read`], or a function that returns `absent` where there is no such operand.
    pub fn read_or(&mut self, name: &str, operand: Option<(Arg, DType)>, absent: f32) {
        match operand {
            Some((arg, dtype)) => self.read(name, arg, dtype),
            None => self.line(format!("fn {name}_at(i: u32) -> f32 {{ return {}; }}", float(absent))),
        }
    }

    /// As [`Wgsl::read`], of an f32 operand with rows of `stride` elements, of which `name_at` indexes only the `view`, as
    /// rows of `width` elements. Without a view it indexes all.
    pub fn read_view(&mut self, name: &str, arg: Arg, view: &Option<Slice>, stride: usize, width: usize) {
        let Some(Slice { group, start, len }) = view else { return self.read(name, arg, DType::F32) };
        self.bind(name, "f32", arg, Access::Read);
        let column = format!("(c / {len}u) * {group}u + {start}u + c % {len}u");
        let value = format!("{name}[(i / {width}u) * {stride}u + {column}]");
        self.line(format!("fn {name}_at(i: u32) -> f32 {{ let c = i % {width}u; return {value}; }}"));
    }

    /// Declares an f32 output.
    pub fn write(&mut self, name: &str, arg: Arg) {
        self.bind(name, "f32", arg, Access::Write);
    }

    /// Defines a function that returns `value`.
    pub fn function(&mut self, signature: &str, value: &str) {
        self.line(format!("fn {signature} {{ return {value}; }}"));
    }

    /// Finishes the module: a launch of `grid` workgroups.
    pub fn launch(self, grid: Expr, cost: Cost) -> Launch {
        let Wgsl { kernel, workgroup, source, args, access } = self;
        let text = Text { source, entry: "main".into(), workgroup, shared: 0, access };
        Launch { kernel, code: Code::Text(text.into()), args, grid, grain: 1, cost, grid_syncs: 0 }
    }

    /// A lowering with one thread per element of the only output; `value(r, c)` must be declared before.
    pub fn per_element(mut self, site: &OpSite, cost: Cost) -> Lowering {
        let (rows, width) = (&site.outs[0].rows, site.outs[0].width);
        self.write("y", Arg::Out(0));
        self.line(format!("fn put(r: u32, c: u32) {{ y[r * {width}u + c] = value(r, c); }}"));
        self.per_element_put(rows, width, cost)
    }

    /// A lowering with one thread per element of `rows` rows of `width`; `put(r, c)` must be declared before.
    pub fn per_element_put(mut self, rows: &Expr, width: usize, cost: Cost) -> Lowering {
        self.number("WIDTH", width);
        self.size("rows", rows);
        let grid = Expr::CeilDiv(Box::new(rows.clone() * width), u64::from(self.workgroup));
        self.text(PER_ELEMENT).lowering(grid, cost)
    }

    /// A lowering that consists of this one launch.
    pub fn lowering(self, grid: Expr, cost: Cost) -> Lowering {
        Lowering::steps(vec![self.launch(grid, cost)], vec![])
    }
}

/// Declares a weight in planes as `name`, with the readers of `wgsl/planes.wgsl`; false where the weight is not in planes.
/// The kernel must define `K`, the width of the weight's rows.
pub(crate) fn planes(w: &mut Wgsl, name: &str, arg: Arg, sig: &Sig) -> bool {
    let rows = sig.rows.constant().unwrap_or(0) as usize;
    let Some(planes) = Planes::new(sig.dtype, rows, sig.width).filter(|_| sig.layout() == Layout::Planes) else {
        return false;
    };
    w.bind(name, "vec4<u32>", arg, Access::Read);
    w.number(&format!("{name}_BITS"), planes.spec.bits);
    w.number(&format!("{name}_GROUP"), planes.spec.group);
    w.float(&format!("{name}_ZERO"), planes.spec.zero as f32);
    w.flag(&format!("{name}_HAS_MIN"), planes.spec.has_min);
    w.number(&format!("{name}_AT_SCALES"), planes.at_scales / 4);
    w.number(&format!("{name}_AT_MINS"), planes.at_mins / 4);
    w.flag(&format!("{name}_IN_F16"), planes.spec.scale == ScaleKind::F16);
    let scale = match planes.spec.scale {
        ScaleKind::F16 => "unpack2x16float(word)[i & 1u]",
        // The upper half of an f32.
        ScaleKind::E8M0 => "bitcast<f32>((word >> (16u * (i & 1u))) << 16u)",
    };
    w.function(&format!("{name}_scale_in(word: u32, i: u32) -> f32"), scale);
    w.file(&renamed(PLANES, "w0", name));
    true
}

/// The shards of a weight that is input `input` ([`Sig::shards`]), as operands.
pub(crate) fn shards(site: &OpSite, input: usize) -> Vec<(Arg, Sig)> {
    let shards = site.ins[input].shards(site.target.binding_bytes()).into_iter().enumerate();
    shards.map(|(i, sig)| (if i == 0 { Arg::In(input) } else { Arg::Shard(input, i) }, sig)).collect()
}

/// Threads that can reduce by subgroup shuffles, without workgroup memory: a power of two from 4 to 32. `None` where the
/// device's subgroups are unknown or unusable.
pub(crate) fn lanes(caps: &WgslCaps) -> Option<u32> {
    caps.subgroups.map(|(least, _)| least.min(32)).filter(|&n| n >= 4 && n.is_power_of_two())
}

/// Threads that share a row in kernels whose workgroups compute several rows: `LANES` in their text.
pub(crate) fn row_lanes(caps: &WgslCaps) -> u32 {
    lanes(caps).unwrap_or(32)
}

/// The capabilities of the target's adapter; the defaults where the target is another one.
pub(crate) fn caps(target: Target) -> WgslCaps {
    match target {
        Target::Wgsl(caps) => caps,
        _ => WgslCaps::default(),
    }
}
