//! Many rows over caches of any type: see `prefill_simt.cu`.

use super::*;

impl Cuda<'_> {
    /// The lowering; none if the fused cache write has no kernel.
    pub(super) fn prefill_simt(&self) -> Option<Lowering> {
        let (op, [queries, keys_tile]) = (self.op, tune::PREFILL_SIMT);
        let mut launches = self.write_launches()?;
        let mut unit = self.unit(8 * queries, false);
        unit.set("QUERIES", queries).set("KEYS_TILE", keys_tile).write("OUT", "float", Arg::Out(0));
        unit.shared(4 * ((queries + keys_tile) * (op.dim + 4) + queries * keys_tile));
        unit.part(HEADS).part(include_str!("prefill_simt.cu"));
        let grid = (Expr::CeilDiv(Box::new(Expr::T), queries as u64) + Expr::S) * op.heads;
        let id = KernelId::new("attention", "prefill_simt").tuned("queries", queries).tuned("keys", keys_tile);
        launches.push(unit.launch(id, grid, self.cost_without_write()));
        Some(Lowering::steps(launches, vec![]))
    }
}
