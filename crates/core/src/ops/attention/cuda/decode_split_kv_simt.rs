//! Few rows over caches of any type: see `decode_split_kv_simt.cu`.

use super::*;

impl Cuda<'_> {
    /// The lowering; none if heads do not fit shared memory.
    pub(super) fn decode_split_kv_simt(&self) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let o = op.operands();
        let tune::Shares { together, splits, threads, unroll } = tune::split_kv_simt(self);
        let blocks = op.heads / together;
        let lanes = (op.dim / 8).next_power_of_two();
        let mut unit = self.unit(threads, op.write.is_some());
        unit.set("HPB", together).set("SPLITS", splits).set("UNROLL", unroll);
        unit.set("LPK", lanes);
        self.set_write(&mut unit);
        let row = |i: usize| site.ins[o.states + i].dtype.row_bytes(op.dim).unwrap_or(0);
        let step_bytes = if op.write.is_some() { 8 * (row(0) + row(1)) } else { 0 };
        let shared = 4 * (together * (1 + threads / 32) * op.dim + op.dim + together * splits) + step_bytes;
        if shared > caps(site).shared as usize {
            return None;
        }
        unit.shared(shared).part(HEADS).part(include_str!("step_kv.cuh")).part(include_str!("decode_split_kv_simt.cu"));
        let scratch = vec![Expr::T * (op.heads * splits * (op.dim + 4) * 4)];
        let id = KernelId::new("attention", "decode_split_kv").variants(self.form());
        let id = id.tuned("heads", together).tuned("splits", splits).tuned("unroll", unroll);
        let launch = unit.launch(id, Expr::T * (blocks * splits), op.cost(site));
        Some(Lowering::steps(vec![launch], scratch))
    }
}
