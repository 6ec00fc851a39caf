//! Matmul of many rows in f32 on CUDA cores: see `prologue.cu` and `gemm_f32_simt.cu`.

use super::*;

/// Rows, and tokens, of a tile of `gemm_f32_simt`.
const TILE: usize = 64;

impl Cuda<'_> {
    pub(super) fn gemm_f32_simt(&self) -> Option<Lowering> {
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
            let id = KernelId::new("matmul", if int8 { "quantize" } else { "rows" });
            launches.push(unit.launch(
                id.norm(op.norm.is_some()).quantizing(int8),
                rows.clone(),
                Cost::of(read, made.clone(), flops),
            ));
        }
        let mut unit = self.unit(256);
        unit.read("X_IN", "float", Arg::In(0));
        unit.read("ROUNDED", "float", Arg::Scratch(0)).read("NORMED", "float", Arg::Scratch(1));
        self.set_operands(&mut unit);
        let x = |p: usize| match (self.products[p].int8, normed) {
            (true, _) => "ROUNDED",
            (false, true) => "NORMED",
            (false, false) => "X_IN",
        };
        let problems = self.problems(&|p| format!("W{p}"), &x);
        let tiles: usize = site.outs.iter().map(|out| out.width.div_ceil(TILE)).sum();
        unit.set("TILES", tiles);
        unit.part(WEIGHTS).part(&problems).part(include_str!("gemm_f32_simt.cu"));
        let raw_x = if int8 || normed { Expr::Const(0) } else { site.ins[0].bytes() };
        let read = site.ins[op.first_weight()..].iter().fold(made + raw_x, |a, s| a + s.bytes());
        let grid = Expr::CeilDiv(Box::new(rows), TILE as u64) * tiles;
        launches.push(unit.launch(
            KernelId::new("matmul", "gemm_f32_simt").variant(self.form()),
            grid,
            Cost::of(read, cost.written, cost.flops),
        ));
        Some(Lowering::steps(launches, scratch))
    }
}
