//! Matmul in WGSL. `select.rs` lists the kernels in order of preference, `tune.rs` has their sizes.
//!
//! - *GEMV* (up to 8 rows): LANES threads share a row of a weight, and a workgroup has several rows; sums are reduced by
//!   subgroup shuffles. Every workgroup recomputes the norm. Weights in planes are multiplied by activations quantized to int8
//!   (`dot4I8Packed`), others by f32 activations.
//! - *tiles* (more rows): 64 rows of activations times 64 rows of a weight, staged in workgroup memory; with f16 factors and
//!   cooperative matrices, tiles of `gemm_f16_mma`.
//!
//! Activation quantization, and a norm before tiles, are a launch of their own (`matmul/prologue`). A weight that is larger
//! than one binding is sharded by rows: each shard is a weight to these kernels and computes its own columns of the output.

use super::*;
use crate::codegen::wgsl;
use crate::codegen::wgsl::template::{each, renamed};
use crate::codegen::wgsl::{Wgsl, caps, lanes, row_lanes, tree};
use crate::precision::Rounding;
use crate::select::select;
use onetrip_ir::formats::planes;

mod gemm_f16_mma;
mod gemv;
mod gemv_multi;
pub(super) mod select;
mod tune;

/// Bytes of workgroup memory that reductions need beside a staged row.
const RESERVED: usize = 1024;

/// Layout of a row of activations quantized to int8, as offsets in 32-bit words from its start: the quants in order where a
/// weight has 8-bit quants, the quants of every eight with even and odd elements apart where a weight has 4-bit quants, then
/// the scale of every 32 elements and the sum of every 16 quants.
#[derive(Clone, Copy)]
struct Rounded {
    natural: bool,
    permuted: bool,
    at_permuted: usize,
    at_scales: usize,
    at_sums: usize,
    row: usize,
}

impl Rounded {
    fn new(k: usize, natural: bool, permuted: bool) -> Rounded {
        let at_permuted = if natural { k / 4 } else { 0 };
        let at_scales = at_permuted + if permuted { k / 4 } else { 0 };
        let at_sums = at_scales + (k / 32).next_multiple_of(4);
        Rounded { natural, permuted, at_permuted, at_scales, at_sums, row: at_sums + (k / 16).next_multiple_of(4) }
    }

    /// Bytes of one row with its scales and sums in workgroup memory.
    fn staged_bytes(&self, k: usize) -> usize {
        4 * self.at_scales + k / 32 * 12
    }

    fn declare(&self, w: &mut Wgsl) {
        w.flag("NATURAL", self.natural);
        w.flag("PERMUTED", self.permuted);
        w.number("AT_PERMUTED", self.at_permuted);
        w.number("AT_SCALES", self.at_scales);
        w.number("AT_SUMS", self.at_sums);
        w.number("ROUNDED_ROW", self.row);
    }

    /// Declares the binding and the functions that read it.
    fn read(&self, w: &mut Wgsl, arg: Arg) {
        self.declare(w);
        w.bind("rounded", "vec4<u32>", arg, Access::Read);
        w.file(include_str!("rounded.wgsl"));
    }
}

/// Declares a matrix of floats with rows of `k`: the binding `name`, and `name_eight(row, i)` for elements 8i .. 8i + 8 of a
/// row.
fn eights(w: &mut Wgsl, name: &str, arg: Arg, dtype: DType, k: usize) {
    if !k.is_multiple_of(8) {
        w.read(name, arg, dtype);
        w.file(&renamed(include_str!("weight_floats.wgsl"), "w0", name));
        return;
    }
    let head = format!("fn {name}_eight(row: u32, i: u32) -> Eight {{");
    if dtype == DType::F32 {
        w.bind(name, "vec4<f32>", arg, Access::Read);
        w.line(format!("{head} let at = row * (K / 4u) + 2u * i; return Eight({name}[at], {name}[at + 1u]); }}"));
        return;
    }
    w.bind(name, "vec4<u32>", arg, Access::Read);
    let pair = if dtype == DType::F16 { "unpack2x16float" } else { "unpack_bf16" };
    w.line(format!("{head} let v = {name}[row * (K / 8u) + i];"));
    let four = |a: &str, b: &str| format!("vec4<f32>({pair}(v.{a}), {pair}(v.{b}))");
    w.line(format!("    return Eight({}, {}); }}", four("x", "y"), four("z", "w")));
}

/// How one weight is multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    /// Quants times activations quantized to int8.
    Quants,
    /// Floats times floats: a weight that is stored otherwise is dequantized or converted on reading.
    Floats,
}

/// A weight as kernels read it: a whole one or a shard.
struct Weight {
    arg: Arg,
    sig: Sig,
    path: Path,
}

/// A range of columns of an output: all of them, or those that one shard of each of its weights computes.
struct OutputSlice {
    /// The output.
    y: usize,
    /// The output's tree. Its leaves are indices into the plan's weights, followed by the operands.
    tree: Tree,
    first: usize,
    width: usize,
}

impl OutputSlice {
    /// The WGSL expression for the output's column that is column `n` of the slice.
    fn column(&self) -> String {
        if self.first == 0 { "n".into() } else { format!("({}u + n)", self.first) }
    }
}

struct Plan<'a> {
    op: &'a Matmul,
    site: &'a OpSite,
    k: usize,
    weights: Vec<Weight>,
    slices: Vec<OutputSlice>,
    rounded: Rounded,
}

pub(super) fn lower(op: &Matmul, site: &OpSite) -> Lowering {
    let (w0, o0) = (op.first_weight(), op.first_operand());
    let k = site.ins[0].width;
    let (mut weights, mut starts) = (vec![], vec![]);
    let (mut natural, mut permuted) = (false, false);
    for (i, w) in site.ins[w0..o0].iter().enumerate() {
        let path = match (w.layout(), planes::spec(w.dtype)) {
            (Layout::Planes, Some(spec)) if site.rounding(w) == Rounding::Int8 => {
                natural |= spec.bits == 8 || !site.bucket.is_small();
                permuted |= spec.bits == 4 && site.bucket.is_small();
                Path::Quants
            }
            (Layout::Planes, Some(_)) => Path::Floats,
            (Layout::Stored, None) => Path::Floats,
            _ => return Lowering::Gap("quantized weights are read from planes on GPUs"),
        };
        starts.push(weights.len());
        let shards = wgsl::shards(site, w0 + i).into_iter();
        weights.extend(shards.map(|(arg, sig)| Weight { arg, sig, path }));
    }
    starts.push(weights.len());
    let Some(slices) = slices(op, site, &weights, &starts) else {
        return Lowering::Gap("weights of one output that are larger than a binding must have their shards alike");
    };
    let p = Plan { op, site, k, weights, slices, rounded: Rounded::new(k, natural, permuted) };
    Lowering::selected(select(Plan::CANDIDATES, site.bucket, &p))
}

/// The slices of all outputs. `starts[p]` is the index of product p's first weight (shard). None if the weights of one output
/// are sharded at different rows.
fn slices(op: &Matmul, site: &OpSite, weights: &[Weight], starts: &[usize]) -> Option<Vec<OutputSlice>> {
    let mut slices = vec![];
    for (y, tree) in op.outputs.iter().enumerate() {
        let used = op.products_of(tree);
        let of = |p: usize| &weights[starts[p]..starts[p + 1]];
        let rows = |p: usize| of(p).iter().map(|w| w.sig.rows.constant().unwrap_or(0) as usize);
        let shards = rows(*used.first()?);
        if used.iter().any(|&p| !rows(p).eq(shards.clone())) {
            return None;
        }
        let mut first = 0;
        for (i, width) in shards.enumerate() {
            let leaf = |l: usize| if l < op.products { starts[l] + i } else { weights.len() + l - op.products };
            slices.push(OutputSlice { y, tree: tree.replace(&|l| Tree::In(leaf(l))), first, width });
            first += width;
        }
        debug_assert_eq!(first, site.outs[y].width);
    }
    Some(slices)
}

impl Plan<'_> {
    /// A kernel behind the prologue launch, where it needs one: quantized rows, and normed f32 rows for tiles. `main` gets the
    /// scratch of either, and whether workgroups quantize a row themselves.
    fn behind_prologue(&self, main: impl Fn(Option<Arg>, Option<Arg>, bool) -> Launch) -> Lowering {
        let (quants, floats) = (self.has(Path::Quants), self.has(Path::Floats));
        let (mut launches, mut scratch) = (vec![], vec![]);
        let is_staged = self.stages_row();
        let rounded = (quants && !is_staged).then(|| {
            scratch.push(self.rows() * (self.rounded.row * 4));
            Arg::Scratch(scratch.len() - 1)
        });
        let is_normed = floats && !self.site.bucket.is_small() && self.op.norm.is_some();
        let normed = is_normed.then(|| {
            scratch.push(self.rows() * (self.k * 4));
            Arg::Scratch(scratch.len() - 1)
        });
        if rounded.is_some() || normed.is_some() {
            launches.push(self.prologue(rounded, normed, None));
        }
        launches.push(main(rounded, normed, quants && is_staged));
        Lowering::steps(launches, scratch)
    }

    /// A single row is quantized by every workgroup for itself where it fits workgroup memory, which takes less time than a
    /// further dispatch.
    fn stages_row(&self) -> bool {
        let bytes = self.rounded.staged_bytes(self.k) + RESERVED;
        self.site.bucket == RowBucket::R1 && bytes <= caps(self.site.target).workgroup_bytes as usize
    }

    fn rows(&self) -> Expr {
        self.site.ins[0].rows.clone()
    }

    /// Columns of all outputs together.
    fn columns(&self) -> usize {
        self.site.outs.iter().map(|s| s.width).sum()
    }

    fn has(&self, path: Path) -> bool {
        self.weights.iter().any(|w| w.path == path)
    }

    /// Indices of the weights that a slice reads.
    fn weights_of(&self, slice: &OutputSlice) -> Vec<usize> {
        slice.tree.leaves().into_iter().filter(|&l| l < self.weights.len()).collect()
    }

    fn begin(&self, name: impl Into<KernelId>, workgroup: u32) -> Wgsl {
        let mut w = Wgsl::new(name, workgroup);
        w.number("K", self.k);
        w.size("rows", &self.rows());
        w
    }

    fn prologue(&self, rounded: Option<Arg>, floats: Option<Arg>, halves: Option<Arg>) -> Launch {
        let workgroup = tune::of(&caps(self.site.target)).workgroup;
        let mut w = self.begin(KernelId::new("matmul", "prologue").tuned("workgroup", workgroup), workgroup);
        let norm = self.op.norm.map(|_| (Arg::In(1), self.site.ins[1].dtype));
        w.read("x", Arg::In(0), DType::F32);
        w.read_or("norm", norm, 1.0);
        w.flag("NORM", norm.is_some());
        w.float("EPS", self.op.norm.unwrap_or(0.0));
        w.flag("ROUNDED", rounded.is_some());
        w.flag("FLOATS", floats.is_some());
        w.flag("HALVES", halves.is_some());
        self.rounded.declare(&mut w);
        let put = |w: &mut Wgsl, name: &str, of: &str, arg: Option<Arg>| {
            if let Some(arg) = arg {
                w.bind(name, of, arg, Access::Write);
            }
            let body = if arg.is_some() { format!("{name}[i] = x;") } else { String::new() };
            w.line(format!("fn put_{name}(i: u32, x: {of}) {{ {body} }}"));
        };
        put(&mut w, "rounded", "u32", rounded);
        put(&mut w, "floats", "f32", floats);
        put(&mut w, "halves", "u32", halves);
        let w = w
            .reductions(&caps(self.site.target))
            .text(include_str!("quantize_block.wgsl"))
            .text(include_str!("prologue.wgsl"));
        let mut written = Expr::Const(0);
        if rounded.is_some() {
            written = written + self.rows() * (self.rounded.row * 4);
        }
        if floats.is_some() {
            written = written + self.rows() * (self.k * 4);
        }
        if halves.is_some() {
            written = written + self.rows() * (self.k * 2);
        }
        let read = self.site.ins[..self.op.first_weight()].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        w.launch(self.rows(), Cost::of(read, written, self.rows() * (self.k * 6)))
    }

    /// Bytes and operations of the main launch, whose activations are those that the prologue launch has written.
    fn cost(&self, rounded: Option<Arg>, floats: Option<Arg>) -> Cost {
        let all = self.op.cost(self.site);
        if rounded.is_none() && floats.is_none() {
            return all;
        }
        let mut read = self.site.ins[self.op.first_weight()..].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        if rounded.is_some() {
            read = read + self.rows() * (self.rounded.row * 4);
        }
        if floats.is_some() {
            read = read + self.rows() * (self.k * 4);
        }
        Cost { read, ..all }
    }

    /// Declares all weights, operands and outputs. `file` is the further file for a weight, by its path, written for `w0`.
    fn weights(&self, w: &mut Wgsl, file: impl Fn(Path) -> &'static str) {
        let o0 = self.op.first_operand();
        for (i, Weight { arg, sig, path }) in self.weights.iter().enumerate() {
            let name = format!("w{i}");
            let rows = sig.rows.constant().unwrap_or(0) as usize;
            w.number(&format!("{name}_ROWS"), rows);
            if !wgsl::planes(w, &name, *arg, sig) {
                eights(w, &name, *arg, sig.dtype, self.k);
            }
            w.file(&renamed(file(*path), "w0", &name));
        }
        for (i, sig) in self.site.ins[o0..].iter().enumerate() {
            w.read(&format!("o{i}"), Arg::In(o0 + i), sig.dtype);
        }
        for (i, sig) in self.site.outs.iter().enumerate() {
            w.write(&format!("y{i}"), Arg::Out(i));
            w.number(&format!("Y{i}_WIDTH"), sig.width);
        }
    }

    /// The WGSL expression for a slice's element in row `t` and column `n`, from the products `p`.
    fn value(&self, slice: &OutputSlice) -> String {
        let (y, n) = (slice.y, slice.column());
        tree(&slice.tree, &|l| match l.checked_sub(self.weights.len()) {
            None => format!("p.of_w{l}"),
            Some(i) if self.site.ins[self.op.first_operand() + i].rows.constant() == Some(1) => format!("o{i}_at({n})"),
            Some(i) => format!("o{i}_at(t * Y{y}_WIDTH + {n})"),
        })
    }

    /// Declares what a kernel's file takes for a slice `s0`: its width, its part of the workgroups (`s0_FROM` to `s0_END`,
    /// where a workgroup computes `per` columns), the struct of its products, and the epilogue `s0_put`. Returns the number of
    /// workgroups.
    fn outputs(&self, w: &mut Wgsl, per: impl Fn(&OutputSlice) -> u64) -> u64 {
        let mut end = 0;
        for (o, slice) in self.slices.iter().enumerate() {
            w.number(&format!("s{o}_WIDTH"), slice.width);
            w.number(&format!("s{o}_FROM"), end as usize);
            end += (slice.width as u64).div_ceil(per(slice));
            w.number(&format!("s{o}_END"), end as usize);
            let products: Vec<String> = self.weights_of(slice).iter().map(|p| format!("of_w{p}: f32")).collect();
            w.line(format!("struct s{o}_Products {{ {} }}", products.join(", ")));
            let (y, n, value) = (slice.y, slice.column(), self.value(slice));
            let head = format!("fn s{o}_put(t: u32, n: u32, p: s{o}_Products)");
            w.line(format!("{head} {{ y{y}[t * Y{y}_WIDTH + {n}] = {value}; }}"));
        }
        end
    }

    /// A kernel's file with what it has for slice `s0` written for each; in it, what it has for weight `w0` for each weight that
    /// the slice reads, and what it has for number 0 of other things for as many as `more` says.
    fn for_slices<'a>(&self, file: &str, more: impl Fn(&OutputSlice) -> Vec<(&'a str, usize)>) -> String {
        let slices: Vec<usize> = (0..self.slices.len()).collect();
        each(file, "s", &slices, |o, text| {
            let slice = &self.slices[o];
            let text = each(&text, "w", &self.weights_of(slice), |_, text| text);
            more(slice)
                .iter()
                .fold(text, |text, &(what, count)| each(&text, what, &(0..count).collect::<Vec<_>>(), |_, text| text))
        })
    }

    /// Declares the prologue of a single row, which every workgroup recomputes into workgroup memory.
    fn stage(&self, w: &mut Wgsl) {
        let norm = self.op.norm.map(|_| (Arg::In(1), self.site.ins[1].dtype));
        self.rounded.declare(w);
        w.read_or("norm", norm, 1.0);
        w.flag("NORM", norm.is_some());
        w.float("EPS", self.op.norm.unwrap_or(0.0));
        if lanes(&caps(self.site.target)).is_some_and(|n| n >= 8) {
            w.bind("x", "vec4<f32>", Arg::In(0), Access::Read);
            w.function("x_at(i: u32) -> f32", "x[i >> 2u][i & 3u]");
            w.file(include_str!("stage_lanes.wgsl"));
            return;
        }
        w.read("x", Arg::In(0), DType::F32);
        w.file(include_str!("quantize_block.wgsl"));
        w.file(include_str!("stage.wgsl"));
    }

    /// Declares `floats_eight` for all rows. Returns the statements of the prologue.
    fn floats_of_rows(&self, w: &mut Wgsl) -> &'static str {
        eights(w, "x", Arg::In(0), DType::F32, self.k);
        let Some(eps) = self.op.norm else {
            w.function("floats_eight(t: u32, i: u32) -> Eight", "x_eight(t, i)");
            return "";
        };
        eights(w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        w.float("EPS", eps);
        w.file(include_str!("norm.wgsl"));
        "norm_factors(lid);"
    }

    fn gemv(&self, rounded: Option<Arg>, staged: bool) -> Launch {
        let floats = self.has(Path::Floats);
        let rows = if self.site.bucket == RowBucket::R1 { 1 } else { 8 };
        let name = if rounded.is_some() || staged { "int8" } else { "f32" };
        let caps = caps(self.site.target);
        let tune::Gemv { workgroup, turns } = tune::gemv(self, staged);
        let id = KernelId::new("matmul", if rows == 1 { "gemv" } else { "gemv_multi" }).variant(name);
        let mut w = self.begin(id.tuned("workgroup", workgroup).tuned("turns", turns), workgroup);
        w.number("TURNS", turns);
        w.number("ROWS", rows);
        w.line("alias Sums = array<f32, ROWS>;");
        let mut w = w.reductions(&caps);
        if let Some(arg) = rounded {
            self.rounded.read(&mut w, arg);
        }
        let mut prologue = "";
        if staged {
            self.stage(&mut w);
            prologue = "stage(lid);";
        }
        if floats && staged {
            w.file(include_str!("floats_of_row.wgsl"));
            if self.op.norm.is_some() {
                prologue = "stage(lid); row_factor(lid);";
            }
        } else if floats {
            prologue = self.floats_of_rows(&mut w);
        }
        w.line(format!("fn prologue(lid: u32) {{ {prologue} }}"));
        self.weights(&mut w, |path| match path {
            Path::Quants => include_str!("gemv_quants.wgsl"),
            Path::Floats => include_str!("gemv_floats.wgsl"),
        });
        let grid = self.outputs(&mut w, |_| turns as u64 * u64::from(workgroup / row_lanes(&caps)));
        w.file(&self.for_slices(include_str!("gemv.wgsl"), |_| vec![]));
        w.launch(grid.into(), self.cost(rounded, None))
    }

    fn gemm_f32_simt(&self, rounded: Option<Arg>, normed: Option<Arg>) -> Launch {
        let name = if rounded.is_some() { "int8" } else { "f32" };
        let (workgroup, tile) = tune::F32_SIMT;
        let id = KernelId::new("matmul", "gemm_f32_simt").variant(name);
        let mut w = self.begin(id.tuned("tile_t", tile).tuned("tile_n", tile), workgroup);
        w.line("var<workgroup> tile_x: array<f32, 2048>;");
        w.line("var<workgroup> tile_w: array<f32, 2048>;");
        if let Some(arg) = rounded {
            self.rounded.read(&mut w, arg);
        }
        if self.has(Path::Floats) {
            eights(&mut w, "floats", normed.unwrap_or(Arg::In(0)), DType::F32, self.k);
        }
        for (i, weight) in self.weights.iter().enumerate() {
            let x = if weight.path == Path::Quants { "rounded" } else { "floats" };
            w.function(&format!("w{i}_x_eight(t: u32, i: u32) -> Eight"), &format!("{x}_eight(t, i)"));
        }
        self.weights(&mut w, |_| include_str!("gemm_f32_simt_tile.wgsl"));
        let tiles = self.outputs(&mut w, |_| tile);
        w.number("TILES", tiles as usize);
        w.file(&self.for_slices(include_str!("gemm_f32_simt.wgsl"), |_| vec![]));
        let grid = Expr::CeilDiv(Box::new(self.rows()), tile) * Expr::Const(tiles);
        w.launch(grid, self.cost(rounded, normed))
    }
}
