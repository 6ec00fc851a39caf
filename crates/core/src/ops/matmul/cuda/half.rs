//! What the kernels with 16-bit factors share: the type of the factors, and the activations, which are normed and converted to it
//! once for all products.

use super::*;
use crate::codegen::cuda::HALF;
use crate::precision::Rounding;

impl Cuda<'_> {
    /// The 16-bit type of the factors, where all products have one.
    pub(super) fn half(&self) -> Option<Rounding> {
        let (w0, o0) = (self.op.first_weight(), self.op.first_operand());
        let first = self.site.rounding(&self.site.ins[w0]);
        let alike = self.site.ins[w0..o0].iter().all(|w| self.site.rounding(w) == first);
        (alike && first.is_half()).then_some(first)
    }

    pub(super) fn half_unit(&self, half: Rounding, threads: usize) -> Unit {
        let mut unit = self.unit(threads);
        unit.set("HALF_BF16", (half == Rounding::Bf16) as u8);
        unit
    }

    /// Whether the weight is stored in the 16-bit type of the factors, so that it is not dequantized.
    pub(super) fn is_direct(&self, product: usize, half: Rounding) -> bool {
        let sig = &self.site.ins[self.op.first_weight() + product];
        sig.layout() == Layout::Stored && sig.dtype == dtype(half)
    }

    /// Rows of a product's weight.
    pub(super) fn weight_rows(&self, product: usize) -> usize {
        self.site.ins[self.op.first_weight() + product].rows.constant().unwrap_or(0) as usize
    }

    /// Norms the activations and converts them to 16 bits into scratch slot 0, row-major or in MMA fragment layout.
    pub(super) fn convert_rows(&self, half: Rounding, as_fragment: bool) -> Launch {
        let (op, site, k) = (self.op, self.site, self.k());
        let rows = site.ins[0].rows.clone();
        // About sixteen elements a thread.
        let threads = (k / 16).next_power_of_two().clamp(64, 512);
        let mut unit = self.half_unit(half, threads);
        unit.read("X_IN", "float", Arg::In(0));
        self.set_norm(&mut unit);
        unit.write("ROUNDED", "u16", Arg::Scratch(0)).set("FRAGMENT_LAYOUT", as_fragment as u8);
        unit.part(HALF).part(include_str!("convert.cu"));
        let read = site.ins[..op.first_weight()].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        let flops = if op.norm.is_some() { rows.clone() * (4 * k) } else { Expr::Const(0) };
        let cost = Cost::of(read, rows.clone() * (2 * k), flops);
        let groups = if as_fragment { Expr::CeilDiv(Box::new(rows), 8) * 8 } else { rows };
        unit.launch(
            KernelId::new("matmul", "convert").norm(op.norm.is_some()).variant(dtype(half).name()),
            groups,
            cost,
        )
    }

    /// Floating-point operations of all products and trees, without the prologue.
    pub(super) fn product_flops(&self) -> Expr {
        let rows = &self.site.ins[0].rows;
        let products: usize = (0..self.op.products).map(|p| 2 * self.k() * self.weight_rows(p)).sum();
        let trees: usize =
            self.op.outputs.iter().zip(&self.site.outs).map(|(t, out)| out.width * t.flops() as usize).sum();
        rows.clone() * (products + trees)
    }
}

/// The factors' type.
pub(super) fn dtype(half: Rounding) -> DType {
    if half == Rounding::Bf16 { DType::BF16 } else { DType::F16 }
}
