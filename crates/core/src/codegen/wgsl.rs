//! WGSL put together of pieces: constants, bindings with accessors, generated expressions, and the kernel's own text.
//!
//! A `kernel.wgsl` declares no binding and no constant of its own site. What it needs is named in its first lines, and
//! its op's `wgsl` answer declares it here: `read("x", …)` makes the binding `x` and a function `x_at(i)` that gives
//! number i whatever the type; an optional operand that is absent becomes a function that gives a constant. So one text
//! serves all forms of an op and stays free of conditions on types.

use crate::lowering::{Lowering, OpSite};
use onetrip_ir::expr::Expr;
use onetrip_ir::formats::DType;
use onetrip_ir::formats::block::ScaleKind;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::kernel::{Access, Arg, Code, Cost, Launch, Text};
use onetrip_ir::target::{Target, WgslCaps};
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Layout, Sig};
use onetrip_ir::tree::Tree;

/// Sums, maxima and rounding that several kernels use.
const MATH: &str = include_str!("wgsl/math.wgsl");
/// The step batch.
const BATCH: &str = include_str!("wgsl/batch.wgsl");
/// One thread a number of the output.
const PER_ELEMENT: &str = include_str!("wgsl/per_element.wgsl");
/// A weight in planes.
const PLANES: &str = include_str!("wgsl/planes.wgsl");
/// Reductions in workgroup memory.
const REDUCE: &str = include_str!("wgsl/reduce.wgsl");
/// Reductions that begin in subgroups of any size.
const REDUCE_SUBGROUP: &str = include_str!("wgsl/reduce_subgroup.wgsl");

/// Workgroups that meet in one dispatch.
const SPLIT_K: &str = include_str!("wgsl/split_k.wgsl");

/// A kernel in the making.
pub(crate) struct Wgsl {
    kernel: String,
    workgroup: u32,
    source: String,
    args: Vec<Arg>,
    access: Vec<Access>,
}

/// How a float is written down.
pub(crate) fn float(x: f32) -> String {
    format!("{x:?}f")
}

/// A size as an expression over the step batch.
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
        // Rows of a value are never counts of cached positions.
        Expr::Keys(_) | Expr::Pairs(_) => "0u".into(),
    }
}

/// An expression tree over operands whose values `leaf` names.
pub(crate) fn tree(tree: &Tree, leaf: &dyn Fn(usize) -> String) -> String {
    tree.code(float, leaf)
}

impl Wgsl {
    /// A kernel of this name in plans, run in workgroups of `workgroup` threads (`WG` in its text).
    pub fn new(kernel: impl Into<String>, workgroup: u32) -> Wgsl {
        let mut w = Wgsl { kernel: kernel.into(), workgroup, source: String::new(), args: vec![], access: vec![] };
        w.line(format!("// {}", w.kernel.clone()));
        w.number("WG", workgroup as usize);
        w.bind("batch", "u32", Arg::Batch, Access::Read);
        w.line("struct Eight { a: vec4<f32>, b: vec4<f32> }");
        w.text(BATCH).text(MATH)
    }

    /// Asks for an extension of the language.
    pub fn enable(&mut self, extension: &str) {
        self.source.insert_str(0, &format!("enable {extension};\n"));
    }

    /// Appends a line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.source.push_str(line.as_ref());
        self.source.push('\n');
    }

    /// Appends text.
    pub fn text(mut self, text: &str) -> Wgsl {
        self.source.push_str(text);
        self
    }

    /// Appends the reductions over a workgroup, through subgroups where there are some.
    pub fn reductions(mut self, caps: &WgslCaps) -> Wgsl {
        match lanes(caps) {
            Some(lanes) => {
                self.number("LANES", lanes as usize);
                self.text(REDUCE_SUBGROUP)
            }
            None => self.text(REDUCE),
        }
    }

    /// Declares the words through which workgroups of one dispatch meet.
    pub fn split_k_workspace(&mut self) {
        self.bind("workspace", "atomic<u32>", Arg::ZeroedWorkspace, Access::ReadWrite);
        self.line(SPLIT_K);
    }

    /// A constant.
    pub fn number(&mut self, name: &str, value: usize) {
        self.line(format!("const {name}: u32 = {value}u;"));
    }

    /// A constant.
    pub fn float(&mut self, name: &str, value: f32) {
        self.line(format!("const {name}: f32 = {};", float(value)));
    }

    /// A constant.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.line(format!("const {name}: bool = {value};"));
    }

    /// `fn name() -> u32`: a size of the batch.
    pub fn size(&mut self, name: &str, value: &Expr) {
        self.line(format!("fn {name}() -> u32 {{ return {}; }}", size(value)));
    }

    /// A binding of an array.
    pub fn bind(&mut self, name: &str, of: &str, arg: Arg, access: Access) {
        let mode = if access == Access::Read { "read" } else { "read_write" };
        let n = self.args.len();
        self.line(format!("@group(0) @binding({n}) var<storage, {mode}> {name}: array<{of}>;"));
        self.args.push(arg);
        self.access.push(access);
    }

    /// A float operand: the binding `name`, and `name_at(i)`. Formats that are no floats have other readers.
    pub fn read(&mut self, name: &str, arg: Arg, dtype: DType) {
        let (of, value) = match dtype {
            DType::F16 => ("u32", format!("unpack2x16float({name}[i >> 1u])[i & 1u]")),
            DType::BF16 => ("u32", format!("bitcast<f32>(({name}[i >> 1u] >> (16u * (i & 1u))) << 16u)")),
            _ => ("f32", format!("{name}[i]")),
        };
        self.bind(name, of, arg, Access::Read);
        self.line(format!("fn {name}_at(i: u32) -> f32 {{ return {value}; }}"));
    }

    /// As [`Wgsl::read`], or a function that gives `absent` where there is no such operand.
    pub fn read_or(&mut self, name: &str, operand: Option<(Arg, DType)>, absent: f32) {
        match operand {
            Some((arg, dtype)) => self.read(name, arg, dtype),
            None => self.line(format!("fn {name}_at(i: u32) -> f32 {{ return {}; }}", float(absent))),
        }
    }

    /// As [`Wgsl::read`] of rows of `stride` numbers, of which `name_at` sees `view` (all without one), of `width`.
    pub fn read_view(&mut self, name: &str, arg: Arg, view: &Option<Slice>, stride: usize, width: usize) {
        let Some(Slice { group, start, len }) = view else { return self.read(name, arg, DType::F32) };
        self.bind(name, "f32", arg, Access::Read);
        let column = format!("(c / {len}u) * {group}u + {start}u + c % {len}u");
        let value = format!("{name}[(i / {width}u) * {stride}u + {column}]");
        self.line(format!("fn {name}_at(i: u32) -> f32 {{ let c = i % {width}u; return {value}; }}"));
    }

    /// An f32 output.
    pub fn write(&mut self, name: &str, arg: Arg) {
        self.bind(name, "f32", arg, Access::Write);
    }

    /// Defines a function.
    pub fn function(&mut self, signature: &str, value: &str) {
        self.line(format!("fn {signature} {{ return {value}; }}"));
    }

    /// The finished step of `grid` workgroups.
    pub fn launch(self, grid: Expr, cost: Cost) -> Launch {
        let Wgsl { kernel, workgroup, source, args, access } = self;
        let text = Text { source, entry: "main".into(), workgroup, shared: 0, access };
        Launch { kernel, code: Code::Text(text.into()), args, grid, grain: 1, cost, grid_syncs: 0 }
    }

    /// A lowering with a thread for every number of the one output: `value(r, c)` is declared before.
    pub fn per_element(mut self, site: &OpSite, cost: Cost) -> Lowering {
        let (rows, width) = (&site.outs[0].rows, site.outs[0].width);
        self.write("y", Arg::Out(0));
        self.line(format!("fn put(r: u32, c: u32) {{ y[r * {width}u + c] = value(r, c); }}"));
        self.per_element_put(rows, width, cost)
    }

    /// A lowering with a thread for every number of `rows` rows of `width`: `put(r, c)` is declared before.
    pub fn per_element_put(mut self, rows: &Expr, width: usize, cost: Cost) -> Lowering {
        self.number("WIDTH", width);
        self.size("rows", rows);
        let grid = Expr::CeilDiv(Box::new(rows.clone() * width), u64::from(self.workgroup));
        self.text(PER_ELEMENT).lowering(grid, cost)
    }

    /// A lowering of this one step.
    pub fn lowering(self, grid: Expr, cost: Cost) -> Lowering {
        Lowering::Steps { launches: vec![self.launch(grid, cost)], scratch: vec![] }
    }
}

/// Declares a weight in planes as `name`, with the readers of `wgsl/planes.wgsl`; false where it is none. `K` is the
/// width of its rows.
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
    w.line(PLANES.replace("$W", name));
    true
}

/// The shards of an input that is a weight ([`Sig::shards`]), as operands.
pub(crate) fn shards(site: &OpSite, input: usize) -> Vec<(Arg, Sig)> {
    let shards = site.ins[input].shards(site.target.binding_bytes()).into_iter().enumerate();
    shards.map(|(i, sig)| (if i == 0 { Arg::In(input) } else { Arg::Shard(input, i) }, sig)).collect()
}

/// Threads that sum up together without workgroup memory; none where there are no subgroups of use.
pub(crate) fn lanes(caps: &WgslCaps) -> Option<u32> {
    caps.subgroups.map(|(least, _)| least.min(32)).filter(|&n| n >= 4 && n.is_power_of_two())
}

/// Threads that share a row in kernels which take several rows in a workgroup: `LANES` in their text.
pub(crate) fn row_lanes(caps: &WgslCaps) -> u32 {
    lanes(caps).unwrap_or(32)
}

/// What the target's adapter offers; the defaults where the target is another one.
pub(crate) fn caps(target: Target) -> WgslCaps {
    match target {
        Target::Wgsl(caps) => caps,
        _ => WgslCaps::default(),
    }
}
