//! Matmul of many rows with 16-bit factors on tensor cores, by our own kernel: it dequantizes weights on their way to shared memory
//! and evaluates the trees in registers.

use super::*;
use crate::codegen::cuda::HALF;
use crate::precision::Rounding;

impl Cuda<'_> {
    /// The lowering: the conversion of the activations, then the products.
    pub(super) fn gemm_f16_mma(&self, half: Rounding) -> Option<Lowering> {
        let scratch = vec![self.site.ins[0].rows.clone() * (2 * self.k())];
        Some(Lowering::steps(vec![self.convert_rows(half, false), self.mma_launch(half)], scratch))
    }

    /// The launch of our own kernel, which computes all outputs.
    fn mma_launch(&self, half: Rounding) -> Launch {
        let (op, site, k) = (self.op, self.site, self.k());
        let rows = site.ins[0].rows.clone();
        let most = op.outputs.iter().map(|t| op.products_of(t).len()).max().unwrap_or(1);
        let (tile_t, tile_n) = tune::f16_tile(self, most);
        let (stages, columns) = tune::of(caps(site)).f16_stages;
        let mut unit = self.half_unit(half, 256);
        unit.read("X_HALF", "u16", Arg::Scratch(0));
        let w0 = op.first_weight();
        for (p, sig) in site.ins[w0..op.first_operand()].iter().enumerate() {
            if self.is_direct(p, half) {
                unit.read(&format!("W{p}"), "u16", Arg::In(w0 + p));
            } else {
                unit.weight(&format!("W{p}"), Arg::In(w0 + p), sig, false);
            }
        }
        for i in op.first_operand()..site.ins.len() {
            unit.read(&format!("OPERAND{}", i - w0), "float", Arg::In(i));
        }
        for o in 0..site.outs.len() {
            unit.write(&format!("OUT{o}"), "float", Arg::Out(o));
        }
        let tiles: usize = site.outs.iter().map(|out| out.width.div_ceil(tile_n)).sum();
        let problems = self.problems(&|p| format!("W{p}"), &|_| "X_HALF");
        unit.set("TILES", tiles).set("TILE_T", tile_t).set("TILE_N", tile_n).set("STAGES", stages);
        unit.set("COLUMNS", columns).resident(2).shared(stages * (tile_t + tile_n) * (columns + 8) * 2);
        unit.part(WEIGHTS).part(HALF).part(&problems).part(include_str!("gemm_f16_mma.cu"));
        let cost = op.cost(site);
        let read = site.ins[w0..].iter().fold(rows.clone() * (2 * k), |a, s| a + s.bytes());
        let grid = Expr::CeilDiv(Box::new(rows), tile_t as u64) * tiles;
        let id = KernelId::new("matmul", if half == Rounding::Bf16 { "gemm_bf16_mma" } else { "gemm_f16_mma" });
        let id = id.tuned("tile_t", tile_t).tuned("tile_n", tile_n).tuned("stages", stages).tuned("columns", columns);
        unit.launch(id, grid, Cost::of(read, cost.written, self.product_flops()))
    }
}
