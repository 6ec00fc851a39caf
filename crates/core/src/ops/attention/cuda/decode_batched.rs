//! Many rows over caches in f16, each the one token of its sequence: see `decode_batched.cu`.

use super::*;

impl Cuda<'_> {
    /// The lowering; none if heads do not fit shared memory.
    pub(super) fn decode_batched(&self) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let out = &site.outs[0];
        let tune::Batched { threads, together, resident_blocks, extra, least } = tune::batched(self);
        let groups = op.heads / together;
        let width = op.dim.next_multiple_of(16);
        let row_stride = if width.is_multiple_of(64) { width } else { width + 8 };
        let pairs = op.q_rope.as_ref().map_or(0, |r| 2 * r.pairs);
        let step_bytes = if op.write.is_some() { 2 * 2 * op.dim } else { 0 };
        let tiles = threads / 32 * 2 * 16 * row_stride * 2;
        let shared = tiles + width * 32 + step_bytes + 4 * ((together + 1) * (op.dim + 4) + pairs.next_multiple_of(4));
        if shared > caps(site).shared as usize {
            return None;
        }
        let mut unit = self.unit(threads, op.write.is_some());
        unit.set("HPB", together)
            .set("RESIDENT_BLOCKS", resident_blocks)
            .set("EXTRA", extra)
            .set("LEAST", least)
            .set("COUNTERS", ZEROED_WORKSPACE_WORDS);
        self.set_write(&mut unit);
        unit.set("OUT_FRAGMENT", out.is_mma_fragment() as u8).set("HALF_BF16", (out.dtype == DType::BF16) as u8);
        unit.shared(shared).resident(2).part(TENSOR).part(HEADS).part(HALF).part(include_str!("step_kv.cuh"));
        unit.part(include_str!("softmax.cuh")).part(include_str!("decode_batched.cu"));
        let scratch = vec![(Expr::T * groups + resident_blocks) * (together * (op.dim + 4) * 4)];
        let fragment = if out.is_mma_fragment() { format!(".{}-fragment", out.dtype.name()) } else { String::new() };
        let id = KernelId::new("attention", "decode_batched").variant(format!("{}{fragment}", self.form()));
        let id = id.tuned("heads", together).tuned("threads", threads).tuned("resident_blocks", resident_blocks);
        let launch = unit.launch(id, Expr::from(resident_blocks), op.cost(site));
        Some(Lowering::steps(vec![launch], scratch))
    }
}
