//! Matmul in WGSL.
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
use crate::codegen::wgsl::{Wgsl, caps, lanes, row_lanes, tree};
use crate::precision::Rounding;
use crate::select::select;
use onetrip_ir::formats::planes;

mod gemm_f16_mma;
mod gemv;
mod gemv_multi;
pub(super) mod select;

/// Threads of a workgroup.
const WG: u32 = 128;
/// Threads of a workgroup that stages a row of at least `LONG` elements: Llama-8B's down takes 15 us on an H200; with `WG`
/// threads it took 54.
const WG_LONG: u32 = 512;
const LONG: usize = 8192;
/// Threads of a workgroup of tiles: 16 x 16, each with 4 x 4 elements.
const WG_TILE: u32 = 256;
/// Bytes of workgroup memory that reductions need beside a staged row.
const RESERVED: usize = 1024;
/// Rows of activations, and rows of a weight, in a tile of `gemm_f32_simt`.
const TILE: u64 = 64;

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
        w.function("rounded_four(i: u32) -> vec4<u32>", "rounded[i]");
        let at = |from: &str, i: &str| format!("t * (ROUNDED_ROW / 4u) + {from} / 4u + ({i} >> 2u)");
        let scale = format!("bitcast<f32>(rounded[{}][block & 3u])", at("AT_SCALES", "block"));
        w.function("rounded_scale(t: u32, block: u32) -> f32", &scale);
        let four = format!("bitcast<vec4<i32>>(rounded[{}])", at("AT_SUMS", "(2u * block)"));
        let sums = format!("select({four}.xy, {four}.zw, (block & 1u) == 1u)");
        w.function("rounded_sums(t: u32, block: u32) -> vec2<i32>", &sums);
        let words = format!("rounded[{}]", at("0u", "(2u * i)"));
        let words = format!("select({words}.xy, {words}.zw, (i & 1u) == 1u)");
        w.function("rounded_words(t: u32, i: u32) -> vec2<u32>", &words);
        w.line("fn rounded_eight(t: u32, i: u32) -> Eight {");
        w.line("    let words = rounded_words(t, i);");
        w.line("    let scale = rounded_scale(t, i >> 2u);");
        w.line("    return Eight(vec4<f32>(unpack4xI8(words.x)) * scale, vec4<f32>(unpack4xI8(words.y)) * scale);");
        w.line("}");
    }
}

/// Declares a matrix of floats with rows of `k`: the binding `name`, and `name_eight(row, i)` for elements 8i .. 8i + 8 of a
/// row.
fn eights(w: &mut Wgsl, name: &str, arg: Arg, dtype: DType, k: usize) {
    if !k.is_multiple_of(8) {
        w.read(name, arg, dtype);
        let text = include_str!("weight_floats.wgsl").replace("$W", name);
        w.line(text);
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

    /// The number of columns of the slice as a WGSL literal.
    fn width(&self) -> String {
        format!("{}u", self.width)
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
        let mut w = self.begin("matmul/prologue", WG);
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

    /// Declares `floats_eight` for a single row, by means of `x_at` and `norm_at`, which must be declared before.
    fn floats_of_row(&self, w: &mut Wgsl) {
        w.line("var<private> factor_of_row: f32 = 1.0;");
        w.line("fn row_factor(lid: u32) {");
        w.line("    var sum = 0.0;");
        w.line("    for (var i = lid; i < K; i += WG) { let x = x_at(i); sum += x * x; }");
        w.line("    factor_of_row = inverseSqrt(workgroup_sum(sum, lid) / f32(K) + EPS);\n}");
        w.line("fn floats_eight(t: u32, i: u32) -> Eight {");
        w.line("    var e: array<f32, 8>;");
        w.line("    for (var j = 0u; j < 8u; j++) { e[j] = x_at(8u * i + j) * factor_of_row * norm_at(8u * i + j); }");
        w.line("    return Eight(vec4<f32>(e[0], e[1], e[2], e[3]), vec4<f32>(e[4], e[5], e[6], e[7]));\n}");
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

    /// Declares all weights, operands and outputs. `template` gives the further text for each weight, by its path.
    fn weights(&self, w: &mut Wgsl, template: impl Fn(Path) -> String) {
        let o0 = self.op.first_operand();
        for (i, Weight { arg, sig, path }) in self.weights.iter().enumerate() {
            let name = format!("w{i}");
            let rows = sig.rows.constant().unwrap_or(0) as usize;
            w.number(&format!("{name}_ROWS"), rows);
            if !wgsl::planes(w, &name, *arg, sig) {
                eights(w, &name, *arg, sig.dtype, self.k);
            }
            w.line(template(*path).replace("$W", &name));
        }
        for (i, sig) in self.site.ins[o0..].iter().enumerate() {
            w.read(&format!("o{i}"), Arg::In(o0 + i), sig.dtype);
        }
        for (i, sig) in self.site.outs.iter().enumerate() {
            w.write(&format!("y{i}"), Arg::Out(i));
            w.number(&format!("Y{i}_WIDTH"), sig.width);
        }
    }

    /// The WGSL expression for a slice's element in row `t` and column `n`, from the products `p0`, `p1`, ….
    fn value(&self, slice: &OutputSlice) -> String {
        let (y, n) = (slice.y, slice.column());
        tree(&slice.tree, &|l| match l.checked_sub(self.weights.len()) {
            None => format!("p{l}"),
            Some(i) if self.site.ins[self.op.first_operand() + i].rows.constant() == Some(1) => format!("o{i}_at({n})"),
            Some(i) => format!("o{i}_at(t * Y{y}_WIDTH + {n})"),
        })
    }

    /// Writes `main`, which calls the `out_…` of the slice to which workgroup `g` belongs; a workgroup computes `per` columns.
    /// Returns the number of workgroups.
    fn main(&self, w: &mut Wgsl, before: &str, per: u64, call: &str) -> u64 {
        w.line("@compute @workgroup_size(WG)");
        w.line("fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,");
        w.line("        @builtin(local_invocation_index) lid: u32) {");
        w.line("    let g = wid.x + wid.y * nwg.x;");
        w.line(before);
        let mut end = 0;
        for (o, slice) in self.slices.iter().enumerate() {
            let from = end;
            end += (slice.width as u64).div_ceil(per);
            let otherwise = if o > 0 { "else " } else { "" };
            w.line(format!("    {otherwise}if n < {end}u {{ out_{o}({call}, n - {from}u, lid); }}"));
        }
        w.line("}");
        end
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

    /// Declares `floats_eight` for all rows. Returns the statements with which `main` must begin.
    fn floats_of_rows(&self, w: &mut Wgsl) -> &'static str {
        eights(w, "x", Arg::In(0), DType::F32, self.k);
        let Some(eps) = self.op.norm else {
            w.function("floats_eight(t: u32, i: u32) -> Eight", "x_eight(t, i)");
            return "    let n = g;";
        };
        eights(w, "norm", Arg::In(1), self.site.ins[1].dtype, self.k);
        w.float("EPS", eps);
        w.file(include_str!("norm.wgsl"));
        "    norm_factors(lid);\n    let n = g;"
    }

    fn gemv(&self, rounded: Option<Arg>, staged: bool) -> Launch {
        let floats = self.has(Path::Floats);
        let rows = if self.site.bucket == RowBucket::R1 { 1 } else { 8 };
        let name = if rounded.is_some() || staged { "int8" } else { "f32" };
        let caps = caps(self.site.target);
        // Every workgroup stages the row for itself. Where the row is long, workgroups have more threads and so more rows of
        // the weight, and the row is staged fewer times.
        let is_long = staged && self.k >= LONG && caps.invocations >= WG_LONG;
        let workgroup = if is_long { WG_LONG } else { WG };
        let mut w =
            self.begin(KernelId::new("matmul", if rows == 1 { "gemv" } else { "gemv_multi" }).variant(name), workgroup);
        // Rows of a weight that the lanes of a row compute one after the other. More of them make fewer workgroups recompute
        // the prologue, but need enough rows in all to fill the GPU.
        let all: usize = self.site.outs.iter().map(|s| s.width).sum();
        let turns = if is_long {
            1 + (all >= 16384) as usize
        } else if staged {
            [1, 2, 4][(all >= 2048) as usize + (all >= 8192) as usize]
        } else {
            1
        };
        w.number("TURNS", turns);
        w.number("ROWS", rows);
        w.line("alias Sums = array<f32, ROWS>;");
        let mut w = w.reductions(&caps);
        if let Some(arg) = rounded {
            self.rounded.read(&mut w, arg);
        }
        let mut before = "    let n = g;".to_string();
        if staged {
            self.stage(&mut w);
            before = "    stage(lid);\n    let n = g;".into();
        }
        if floats && staged {
            // Float weights beside quantized ones read the same row in f32, with the norm applied again on each read.
            self.floats_of_row(&mut w);
            if self.op.norm.is_some() {
                before = "    stage(lid);\n    row_factor(lid);\n    let n = g;".into();
            }
        } else if floats {
            before = self.floats_of_rows(&mut w).into();
        }
        self.weights(&mut w, |path| match path {
            Path::Quants => include_str!("gemv_quants.wgsl").into(),
            Path::Floats => include_str!("gemv_floats.wgsl").into(),
        });
        for (o, slice) in self.slices.iter().enumerate() {
            let (y, width, n) = (slice.y, slice.width(), slice.column());
            w.line(format!("fn out_{o}(m: u32, group: u32, lid: u32) {{"));
            w.line("    for (var turn = 0u; turn < TURNS; turn++) {");
            w.line("    let n = (group * TURNS + turn) * (WG / LANES) + lid / LANES;");
            let used = self.weights_of(slice);
            for p in &used {
                w.line(format!("    let s{p} = dot_w{p}(min(n, {width} - 1u), lid % LANES);"));
                w.line(format!("    var sums{p} = s{p};"));
            }
            w.line("    for (var t = 0u; t < ROWS; t++) {");
            w.line("        if ROWS > 1u && t >= rows() { break; }");
            for p in &used {
                w.line(format!("        let p{p} = lanes_sum(sums{p}[t], lid);"));
            }
            let value = self.value(slice);
            w.line(format!("        if lid % LANES == 0u && n < {width} {{ y{y}[t * Y{y}_WIDTH + {n}] = {value}; }}"));
            w.line("    } }");
            w.line("}");
        }
        let grid = self.main(&mut w, &before, turns as u64 * u64::from(workgroup / row_lanes(&caps)), "0u");
        w.launch(grid.into(), self.cost(rounded, None))
    }

    fn gemm_f32_simt(&self, rounded: Option<Arg>, normed: Option<Arg>) -> Launch {
        let name = if rounded.is_some() { "int8" } else { "f32" };
        let mut w = self.begin(KernelId::new("matmul", "gemm_f32_simt").variant(name), WG_TILE);
        w.line("var<workgroup> tile_x: array<f32, 2048>;");
        w.line("var<workgroup> tile_w: array<f32, 2048>;");
        if let Some(arg) = rounded {
            self.rounded.read(&mut w, arg);
        }
        if self.has(Path::Floats) {
            eights(&mut w, "floats", normed.unwrap_or(Arg::In(0)), DType::F32, self.k);
        }
        self.weights(&mut w, |path| {
            let x = if path == Path::Quants { "rounded" } else { "floats" };
            include_str!("gemm_f32_simt.wgsl").replace("$X", x)
        });
        for (o, slice) in self.slices.iter().enumerate() {
            let (y, width, n) = (slice.y, slice.width(), slice.column());
            w.line(format!("fn out_{o}(m: u32, tile: u32, lid: u32) {{"));
            let used = self.weights_of(slice);
            for p in &used {
                w.line(format!("    var acc{p}: array<vec4<f32>, 4>;"));
                w.line(format!("    tile_w{p}(m, tile, lid, &acc{p});"));
            }
            w.line("    for (var r = 0u; r < 4u; r++) { for (var c = 0u; c < 4u; c++) {");
            w.line("        let t = m * 64u + (lid / 16u) * 4u + r;");
            w.line("        let n = tile * 64u + (lid % 16u) * 4u + c;");
            w.line(format!("        if t < rows() && n < {width} {{"));
            for p in &used {
                w.line(format!("            let p{p} = acc{p}[r][c];"));
            }
            w.line(format!("            y{y}[t * Y{y}_WIDTH + {n}] = {};", self.value(slice)));
            w.line("        }");
            w.line("    } }");
            w.line("}");
        }
        let tiles: u64 = self.slices.iter().map(|p| (p.width as u64).div_ceil(TILE)).sum();
        let before =
            format!("    let m = g / {tiles}u;\n    let n = g % {tiles}u;\n    if m * 64u >= rows() {{ return; }}");
        self.main(&mut w, &before, TILE, "m");
        let grid = Expr::CeilDiv(Box::new(self.rows()), TILE) * Expr::Const(tiles);
        w.launch(grid, self.cost(rounded, normed))
    }
}
