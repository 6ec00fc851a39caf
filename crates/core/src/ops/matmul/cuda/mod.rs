//! Matmul in CUDA. `select.rs` lists the kernels in order of preference, `tune.rs` has their sizes.
//!
//! - `gemv` (one row): one launch that streams the weights, with prologue and epilogue.
//! - `gemm_int8_mma` (2 to 8 rows, int8 activations): quantization, then tensor cores.
//! - `gemm_skinny` (9 to 64 rows of 16-bit factors, quantized weights): conversion, then tensor cores; x may come in MMA
//!   fragment layout already, and outputs may be written in it.
//! - `gemv_multi` (up to 8 rows, all else): one launch with prologue and epilogue, activations in shared memory.
//! - `cublaslt` (more than 64 rows of 16-bit factors): a GEMM library; `gemm_f16_mma` (any rows of 16-bit factors): our own kernel
//!   on tensor cores.
//! - `gemm_f32_simt` (more rows, all else): the prologue row by row into scratch slots, then the products tile by tile with the
//!   epilogue.

use super::*;
use crate::codegen::cuda::{Unit, WEIGHTS, caps, has_weight_type, meets_int8, tree};
use crate::select::select;
use onetrip_ir::formats::planes;
use onetrip_ir::formats::planes::PlaneSpec;

mod gemm_f16_mma;
mod gemm_f32_simt;
mod gemm_int8_mma;
mod gemm_library;
mod gemm_skinny;
mod gemv;
mod gemv_multi;
mod half;
mod problems;
pub(super) mod select;
mod tune;

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
    if !site.ins[w0..o0].iter().all(has_weight_type) {
        return Lowering::Gap("a weight of this type and layout has no CUDA kernel");
    }
    // Only the first candidate reads or writes MMA fragment layout.
    let has_fragment = site.ins.iter().chain(&site.outs).any(Sig::is_mma_fragment);
    let all = Cuda::CANDIDATES;
    let candidates = if has_fragment { &all[..1] } else { all };
    let site = Cuda { op, site, products };
    Lowering::selected(select(candidates, site.site.bucket, &site))
}

/// The 16-bit type in which x may come in MMA fragment layout: the one that it would be converted to.
pub(super) fn accepts_fragment_layout(op: &Matmul, site: &OpSite) -> Option<DType> {
    let half = site.rounding(&site.ins[op.first_weight()]);
    let mut given = site.clone();
    given.ins[0] = site.ins[0].as_mma_fragment(half::dtype(half));
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

    /// Whether the activations of a row fit the registers of a block of `gemv`.
    fn rows_fit_registers(&self) -> bool {
        tune::rows_fit_registers(self)
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

    /// Reads weights and operands and writes outputs. Every weight has a type in `weights.cuh`: a candidate needs that.
    fn set_operands(&self, unit: &mut Unit) {
        let (w0, o0) = (self.op.first_weight(), self.op.first_operand());
        for (p, sig) in self.site.ins[w0..o0].iter().enumerate() {
            unit.weight(&format!("W{p}"), Arg::In(w0 + p), sig, self.products[p].int8);
        }
        for i in o0..self.site.ins.len() {
            unit.read(&format!("OPERAND{}", i - w0), "float", Arg::In(i));
        }
        for o in 0..self.site.outs.len() {
            unit.write(&format!("OUT{o}"), "float", Arg::Out(o));
        }
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
}
