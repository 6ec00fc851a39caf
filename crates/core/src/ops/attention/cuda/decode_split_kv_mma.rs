//! Few rows over caches in f16, on tensor cores: see `decode_split_kv_mma.cu`.

use super::*;

impl Cuda<'_> {
    /// The lowering.
    pub(super) fn decode_split_kv_mma(&self) -> Option<Lowering> {
        let (op, site) = (self.op, self.site);
        let tune::SplitKvMma { together, cluster, clusters, least, threads } = tune::split_kv_mma(self);
        let blocks = op.heads / together;
        let mut unit = self.unit(threads, op.write.is_some());
        unit.set("HPB", together).set("CLUSTER", cluster).set("CLUSTERS", clusters).set("LEAST", least);
        self.set_write(&mut unit);
        let pairs = op.q_rope.as_ref().map_or(0, |r| 2 * r.pairs);
        let step_bytes = if op.write.is_some() { 8 * 2 * 2 * op.dim } else { 0 };
        let queries = op.dim.div_ceil(32) * 2 * 32 * 16;
        let heads = together * (op.dim + 4 + threads / 32 * (op.dim + 2)).next_multiple_of(4);
        unit.shared(queries + 4 * (heads + pairs.next_multiple_of(4)) + step_bytes);
        unit.cluster(cluster as u32).part(TENSOR).part(HEADS).part(include_str!("step_kv.cuh"));
        unit.part(include_str!("softmax.cuh")).part(include_str!("decode_split_kv_mma.cu"));
        let scratch = vec![Expr::T * (op.heads * clusters * (op.dim + 4) * 4)];
        let grid = Expr::T * (blocks * clusters * cluster);
        let id = KernelId::new("attention", "decode_split_kv").variants(self.form());
        let id =
            id.tuned("heads", together).tuned("cluster", cluster).tuned("clusters", clusters).tuned("least", least);
        Some(Lowering::steps(vec![unit.launch(id, grid, op.cost(site))], scratch))
    }
}
