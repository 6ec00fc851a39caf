//! Rules about the form in which a value lies between two ops.

use crate::fuse::rewrite::Rewrite;
use crate::graph::{Graph, Source};
use crate::ops::Op;
use onetrip_ir::context::LoweringContext;

pub fn fragment_layout(g: &Graph, ctx: &LoweringContext, at: usize) -> Option<Rewrite> {
    let reader = &g.nodes[at];
    let (&value, others) = reader.ins.split_first()?;
    let sig = &g.values[value].sig;
    let is_its_own = g.only_consumer(value) == Some(at) && !others.contains(&value);
    let is_f32_slot = g.values[value].source == Source::Node && !sig.is_state() && !sig.is_mma_fragment();
    if !is_its_own || !is_f32_slot {
        return None;
    }
    let dtype = reader.op.accepts_fragment_layout(&g.site(ctx, &reader.ins, &reader.outs))?;
    let is_made_by_rows = match g.nodes[g.producer(value)?].op {
        Op::Matmul(_) => true,
        Op::Attention(_) => ctx.one_each,
        _ => false,
    };
    is_made_by_rows.then(|| Rewrite::Relayout { value, sig: sig.as_mma_fragment(dtype) })
}
