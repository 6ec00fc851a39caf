//! Matmul in CUDA.
//!
//! - `gemv` (one row): one launch that streams the weights, with prologue and epilogue.
//! - `gemm_int8_mma` (2 to 8 rows, int8 activations): quantization, then tensor cores.
//! - `gemm_skinny` (9 to 64 rows of 16-bit factors, quantized weights): conversion, then tensor cores; x may come in MMA
//!   fragment layout already, and outputs may be written in it.
//! - `gemv_multi` (up to 8 rows, all else): one launch with prologue and epilogue, activations in shared memory.
//! - `gemm_f16` (more rows, 16-bit factors): tensor cores, through a GEMM library or our own kernel.
//! - `gemm_f32_simt` (more rows, all else): the prologue row by row into scratch slots, then the products tile by tile with the
//!   epilogue.

use super::*;
use crate::codegen::cuda::{Unit, WEIGHTS, caps, meets_int8, tree};
use onetrip_ir::formats::planes;
use onetrip_ir::formats::planes::PlaneSpec;

mod gemm_f16;
mod gemm_int8_mma;
mod gemm_skinny;
mod gemv;

/// Threads of a block of `gemv_multi`; `MORE_THREADS` for one token and a matrix with at most half as many rows as the device
/// then has warps.
const THREADS: usize = 512;
const MORE_THREADS: usize = 1024;
/// Bytes of weights that a block of `gemv_multi` prefetches to L2 before the dependency wait; those of all blocks fit L2
/// together.
const FETCH: usize = 160 * 1024;
/// Rows, and tokens, of a tile of `gemm_f32_simt`.
const TILE: usize = 64;

/// One product as a kernel reads it.
struct Product {
    int8: bool,
    planes: Option<PlaneSpec>,
    row_bytes: usize,
}

pub(super) fn lower(op: &Matmul, site: &OpSite) -> Lowering {
    let (w0, o0) = (op.first_weight(), op.first_operand());
    if op.norm.is_some() && site.ins[1].dtype != DType::F32 {
        return Lowering::Gap("norm weights that are not f32 have no CUDA kernel");
    }
    let products: Vec<Product> = site.ins[w0..o0]
        .iter()
        .map(|sig| {
            let rows = sig.rows.constant().unwrap_or(0) as usize;
            let row_bytes = (sig.bytes().constant().unwrap_or(0) as usize).checked_div(rows).unwrap_or(0);
            let planes = if sig.layout() == Layout::Planes { planes::spec(sig.dtype) } else { None };
            Product { int8: meets_int8(sig, site.compute), planes, row_bytes }
        })
        .collect();
    let lowering = Cuda { op, site, products };
    if site.bucket == RowBucket::R9To64
        && let Some(half) = lowering.half()
        && let Some(answer) = lowering.gemm_skinny(half)
    {
        return answer;
    }
    if site.ins.iter().chain(&site.outs).any(Sig::is_mma_fragment) {
        return Lowering::Gap(
            "values in MMA fragment layout have a CUDA kernel for 9 to 64 rows of quantized weights only",
        );
    }
    if site.bucket == RowBucket::R1
        && let Some(answer) = lowering.gemv()
    {
        return answer;
    }
    if site.bucket == RowBucket::R2To8
        && let Some(answer) = lowering.gemm_int8_mma()
    {
        return answer;
    }
    if site.bucket.is_small()
        && let Some(answer) = lowering.gemv_multi()
    {
        return answer;
    }
    if let Some(answer) = lowering.gemm_f16() {
        return answer;
    }
    lowering.gemm_f32_simt().unwrap_or(Lowering::Gap("a weight of this type and layout has no CUDA kernel"))
}

/// The 16-bit type in which x may come in MMA fragment layout: the one that it would be converted to.
pub(super) fn accepts_fragment_layout(op: &Matmul, site: &OpSite) -> Option<DType> {
    let half = site.rounding(&site.ins[op.first_weight()]);
    let mut given = site.clone();
    given.ins[0] = site.ins[0].as_mma_fragment(gemm_f16::dtype(half));
    (half.is_half() && lower(op, &given).is_there()).then_some(given.ins[0].dtype)
}

struct Cuda<'a> {
    op: &'a Matmul,
    site: &'a OpSite,
    products: Vec<Product>,
}

/// The range of a product's rows among the rows of all outputs, numbered through, and its index among the products of its
/// output.
struct Place {
    begin: usize,
    end: usize,
    place: usize,
}

/// Launch shape of `gemv_multi`: threads of a block, rows of a unit, K warps that share a unit, loads in flight for each row.
struct Cut {
    threads: usize,
    rows: usize,
    k_warps: usize,
    unroll: usize,
}

impl Cuda<'_> {
    fn k(&self) -> usize {
        self.site.ins[0].width
    }

    /// The place of each product; none if a product belongs to several outputs or to none.
    fn places(&self) -> Option<Vec<Place>> {
        let mut places: Vec<Option<Place>> = (0..self.op.products).map(|_| None).collect();
        let mut begin = 0;
        for (tree, out) in self.op.outputs.iter().zip(&self.site.outs) {
            let end = begin + out.width;
            for (place, p) in self.op.products_of(tree).into_iter().enumerate() {
                if places[p].replace(Place { begin, end, place }).is_some() {
                    return None;
                }
            }
            begin = end;
        }
        places.into_iter().collect()
    }

    /// Products grouped by the form of their weights: each group is one weight stream.
    fn streams(&self) -> Vec<Vec<usize>> {
        let form = |p: usize| (self.products[p].planes, self.products[p].planes.is_none().then(|| self.dtype(p)));
        let mut streams: Vec<Vec<usize>> = vec![];
        for p in 0..self.op.products {
            match streams.iter_mut().find(|s| form(s[0]) == form(p)) {
                Some(stream) => stream.push(p),
                None => streams.push(vec![p]),
            }
        }
        streams
    }

    fn dtype(&self, p: usize) -> DType {
        self.site.ins[self.op.first_weight() + p].dtype
    }

    /// The part of the kernel's name that says how it reads its weights.
    fn form(&self) -> &'static str {
        let int8 = self.products.iter().filter(|p| p.int8).count();
        match (int8 == self.products.len(), int8 > 0) {
            (true, _) => "int8",
            (false, true) => "mixed",
            _ if self.products.iter().all(|p| p.planes.is_none()) => "float",
            _ => "dequant",
        }
    }

    /// A kernel unit with the batch, the number of rows and the constant `K`.
    fn unit(&self, threads: usize) -> Unit {
        let mut unit = Unit::new(threads as u32);
        unit.batch().rows(&self.site.ins[0].rows).set("K", self.k());
        unit
    }

    fn set_norm(&self, unit: &mut Unit) {
        unit.set("NORM", self.op.norm.is_some() as u8).set_f32("NORM_EPS", self.op.norm.unwrap_or(0.0));
        match self.op.norm {
            Some(_) => unit.read("NORM_WEIGHT", "float", Arg::In(1)),
            None => unit.set("NORM_WEIGHT", "((const float*)0)"),
        };
    }

    /// Reads weights and operands and writes outputs; false where a weight has no kernel.
    fn set_operands(&self, unit: &mut Unit) -> bool {
        let (w0, o0) = (self.op.first_weight(), self.op.first_operand());
        for (p, sig) in self.site.ins[w0..o0].iter().enumerate() {
            if !unit.weight(&format!("W{p}"), Arg::In(w0 + p), sig, self.products[p].int8) {
                return false;
            }
        }
        for i in o0..self.site.ins.len() {
            unit.read(&format!("OPERAND{}", i - w0), "float", Arg::In(i));
        }
        for o in 0..self.site.outs.len() {
            unit.write(&format!("OUT{o}"), "float", Arg::Out(o));
        }
        true
    }

    /// The expression for element (`t`, `row`) of an output; `product` gives the expression of a product by its place in the
    /// tree.
    fn value(&self, output: usize, product: &dyn Fn(usize) -> String) -> String {
        let (w0, width) = (self.op.first_weight(), self.site.outs[output].width);
        let used = self.op.products_of(&self.op.outputs[output]);
        tree(&self.op.outputs[output], &|leaf| match used.iter().position(|&p| p == leaf) {
            Some(place) => product(place),
            None if self.site.ins[w0 + leaf].rows.constant() == Some(1) => format!("OPERAND{leaf}[row]"),
            None => format!("OPERAND{leaf}[(size_t)t * {width}u + row]"),
        })
    }

    /// Bytes of one token's activations in shared memory, and which forms of them the weights need: f32, int8 in order, int8
    /// with even and odd elements apart.
    fn staged(&self) -> (usize, [bool; 3]) {
        let k = self.k();
        let float = self.products.iter().any(|p| !p.int8);
        let bits = |n| self.products.iter().any(|p| p.int8 && p.planes.is_some_and(|s| s.bits == n));
        let (q, eo) = (bits(8), bits(4));
        let sums = if q || eo { k / 32 * 4 + k / 16 * 4 } else { 0 };
        (if float { 4 * k } else { 0 } + if q { k } else { 0 } + if eo { k } else { 0 } + sums, [float, q, eo])
    }

    fn cut(&self) -> Cut {
        let sms = caps(self.site).sms as usize;
        let total: usize = self.site.outs.iter().map(|o| o.width).sum();
        let one = self.site.bucket == RowBucket::R1;
        let chunk = |p: &Product| p.planes.map_or(p.row_bytes, |s| self.k() / 8 * s.bits).div_ceil(16);
        let loads = self.products.iter().map(chunk).max().unwrap_or(1).div_ceil(32);
        let threads = if one { MORE_THREADS } else { THREADS };
        let warps = sms * (threads / 32);
        if total * 2 <= warps && loads > 1 {
            // Fewer rows than warps: several warps share a row.
            let k_warps = [8, 4, 2].into_iter().find(|&n| n <= loads && total * n <= warps).unwrap_or(2);
            return Cut { threads, rows: 1, k_warps, unroll: loads.div_ceil(k_warps).clamp(1, 4) };
        }
        let warps = THREADS / 32;
        let most = if one { loads.clamp(1, 4) } else { 1 };
        let fits = |n: &usize| *n == 1 || total >= 2 * n * sms * warps / 3 && n * most <= 8;
        // Rows that the busiest warp computes, where units have n rows.
        let longest = |n: &usize| total.div_ceil(*n).div_ceil(sms).div_ceil(warps) * n;
        let rows = [4, 2, 1].into_iter().filter(fits).min_by_key(longest).unwrap_or(1);
        Cut { threads: THREADS, rows, k_warps: 1, unroll: most }
    }

    fn gemv_multi(&self) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let Cut { threads, rows, k_warps, unroll } = self.cut();
        let warps = threads / 32;
        let most_products = op.outputs.iter().map(|t| op.products_of(t).len()).max().unwrap_or(1);
        let smem_bytes = if k_warps > 1 { warps * most_products * 128 } else { warps * 8 * 4 };
        let (bytes, [float, q, eo]) = self.staged();
        let most = if site.bucket == RowBucket::R1 { 1 } else { 8 };
        let fits = |n: &usize| *n <= most && smem_bytes + n * bytes <= caps(site).shared as usize;
        let tokens = [8, 4, 2, 1].into_iter().find(fits)?;

        let mut unit = self.unit(threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        if !self.set_operands(&mut unit) {
            return None;
        }
        let (mut products, mut outputs, mut fetches) = (String::new(), String::new(), String::new());
        let mut units = 0;
        for (o, out) in site.outs.iter().enumerate() {
            let used = op.products_of(&op.outputs[o]);
            let (n, begin) = (out.width, units);
            units += n.div_ceil(rows);
            let from = format!("const u32 row = (unit - {begin}u) * UNIT_ROWS");
            let otherwise = if o == 0 { "" } else { "else " };
            products += &format!("{otherwise}if (unit < {units}u) {{\n{from};\n");
            let start = |p: usize| format!("auto b{p} = begin_rows(W{p}, row, {n}u, k_warp);\n");
            // The first loads of all products are issued together where there are enough registers to hold their chunks.
            let together = used.len() * rows * unroll <= if threads > THREADS { 4 } else { 16 };
            if together {
                products.extend(used.iter().map(|&p| start(p)));
            }
            for (place, &p) in used.iter().enumerate() {
                let late = if together { String::new() } else { start(p) };
                products += &format!(
                    "{{ {late}float acc[UNIT_ROWS][N]; dot_rows<N>(W{p}, b{p}, x, row, {n}u, k_warp, acc); \
                     sums[{place}] = collect<N>(acc); }}\n"
                );
            }
            products += "}\n";
            let value = self.value(o, &|place| format!("sums[{place}]"));
            outputs += &format!(
                "{otherwise}if (unit < {units}u) {{ {from} + lane_row; if (row < {n}u) OUT{o}[(size_t)t * {n}u + row] = \
                 {value}; }}\n"
            );
            let unit_bytes: usize = used.iter().map(|&p| self.products[p].row_bytes * rows).sum();
            let limit = (FETCH / unit_bytes.max(1)).max(1);
            let fetch: String = used
                .iter()
                .map(|p| format!("W{p}.fetch((a - {begin}u) * UNIT_ROWS, min((b - {begin}u) * UNIT_ROWS, {n}u)); "))
                .collect();
            fetches += &format!(
                "{{ const u32 a = max(first, {begin}u), b = min(min(end, {units}u), a + {limit}u); if (a < b) {{ {fetch}}} }}\n"
            );
        }
        let groups = units.div_ceil(warps / k_warps).min(caps(site).sms as usize).max(1);
        unit.set("UNIT_ROWS", rows)
            .set("K_WARPS", k_warps)
            .set("UNROLL", unroll)
            .set("UNITS", units)
            .set("GRID_BLOCKS", groups);
        unit.set("MOST_TOKENS", tokens).set("MOST_PRODUCTS", most_products).set("ACTIVATIONS_AT", smem_bytes);
        unit.set("NEED_F32", float as u8).set("NEED_Q", q as u8).set("NEED_EO", eo as u8);
        unit.shared(smem_bytes + tokens * bytes);
        let text = include_str!("gemv_multi.cu")
            .replace("UNIT_PRODUCTS", &products)
            .replace("UNIT_OUTPUTS", &outputs)
            .replace("UNIT_FETCHES", &fetches);
        unit.part(WEIGHTS).part(&text);
        let norm = if op.norm.is_some() { "norm+" } else { "" };
        Some(unit.lower(format!("matmul/{norm}gemv_multi.{}", self.form()), groups.into(), op.cost(site)))
    }

    fn gemm_f32_simt(&self) -> Option<Lowering> {
        let (op, site, k) = (self.op, self.site, self.k());
        let rows = site.ins[0].rows.clone();
        let int8 = self.products.iter().any(|p| p.int8);
        let normed = op.norm.is_some() && self.products.iter().any(|p| !p.int8);
        let bytes = |is: bool| if is { rows.clone() * (4 * k) } else { Expr::Const(0) };
        let scratch = vec![bytes(int8), bytes(normed)];
        let made = bytes(int8) + bytes(normed);
        let cost = op.cost(site);
        let mut launches = vec![];
        if int8 || normed {
            let mut unit = self.unit(256);
            unit.read("X_IN", "float", Arg::In(0));
            self.set_norm(&mut unit);
            unit.set("NEED_F32", normed as u8).set("NEED_INT8", int8 as u8);
            unit.write("ROUNDED", "float", Arg::Scratch(0)).write("NORMED", "float", Arg::Scratch(1));
            unit.part(WEIGHTS).part(include_str!("prologue.cu"));
            let flops = if op.norm.is_some() { rows.clone() * (4 * k) } else { Expr::Const(0) };
            let read = site.ins[..op.first_weight()].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
            let norm = if op.norm.is_some() { "norm+" } else { "" };
            let what = if int8 { "quantize" } else { "rows" };
            launches.push(unit.launch(
                format!("matmul/{norm}{what}"),
                rows.clone(),
                Cost::of(read, made.clone(), flops),
            ));
        }
        let mut unit = self.unit(256);
        unit.read("X_IN", "float", Arg::In(0));
        unit.read("ROUNDED", "float", Arg::Scratch(0)).read("NORMED", "float", Arg::Scratch(1));
        if !self.set_operands(&mut unit) {
            return None;
        }
        let (mut outputs, mut tiles) = (String::new(), 0);
        for (o, out) in site.outs.iter().enumerate() {
            let (n, begin) = (out.width, tiles);
            tiles += n.div_ceil(TILE);
            outputs += &format!("if (tile < {tiles}u) {{\nconst u32 row0 = (tile - {begin}u) * {TILE};\n");
            for (place, &p) in op.products_of(&op.outputs[o]).iter().enumerate() {
                let x = if self.products[p].int8 {
                    "ROUNDED"
                } else if normed {
                    "NORMED"
                } else {
                    "X_IN"
                };
                outputs +=
                    &format!("float p{place}[16]; tile_product(W{p}, {x}, row0, {n}u, t0, rows, ws, xs, p{place});\n");
            }
            let value = self.value(o, &|place| format!("p{place}[i]"));
            outputs += &format!(
                "#pragma unroll\nfor (int i = 0; i < 16; i++) {{ const u32 t = t0 + threadIdx.x / 16 * 4 + i / 4, row = \
                 row0 + threadIdx.x % 16 * 4 + i % 4; if (t < rows && row < {n}u) OUT{o}[(size_t)t * {n}u + row] = {value}; }}\n\
                 return;\n}}\n"
            );
        }
        unit.set("TILES", tiles);
        unit.part(WEIGHTS).part(&include_str!("gemm_f32_simt.cu").replace("TILE_OUTPUTS", &outputs));
        let raw_x = if int8 || normed { Expr::Const(0) } else { site.ins[0].bytes() };
        let read = site.ins[op.first_weight()..].iter().fold(made + raw_x, |a, s| a + s.bytes());
        let grid = Expr::CeilDiv(Box::new(rows), TILE as u64) * tiles;
        launches.push(unit.launch(
            format!("matmul/gemm_f32_simt.{}", self.form()),
            grid,
            Cost::of(read, cost.written, cost.flops),
        ));
        Some(Lowering::Steps { launches, scratch })
    }
}
