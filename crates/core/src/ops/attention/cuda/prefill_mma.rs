//! Many rows on tensor cores: see `prefill_mma.cu`.

use super::*;

impl Cuda<'_> {
    /// The lowering; none if no tile fits shared memory.
    pub(super) fn prefill_mma(&self) -> Option<Lowering> {
        let op = self.op;
        let mut launches = self.write_launches()?;
        let tune::PrefillMma { warps, keys, rows, is_split, shared } = tune::prefill_mma(self)?;
        let together = tune::together(op, rows);
        let queries = rows / together;
        let mut unit = self.unit(32 * warps, false);
        unit.set("ROWS", rows).set("HPB", together).set("QUERIES", queries).set("KEYS_TILE", keys);
        unit.set("SPLIT_KEYS", is_split as u8).set("QUERIES_STAY", (op.dim <= 128) as u8).write(
            "OUT",
            "float",
            Arg::Out(0),
        );
        unit.shared(shared);
        unit.part(TENSOR).part(HEADS).part(include_str!("softmax.cuh")).part(include_str!("prefill_mma.cu"));
        let grid = (Expr::CeilDiv(Box::new(Expr::T), queries as u64) + Expr::S) * (op.heads / together);
        let id = KernelId::new("attention", "prefill_mma")
            .tuned("warps", warps)
            .tuned("keys", keys)
            .tuned("queries", queries);
        launches.push(unit.launch(id, grid, self.cost_without_write()));
        Some(Lowering::steps(launches, vec![]))
    }
}
