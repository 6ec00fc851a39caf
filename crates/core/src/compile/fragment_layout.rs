//! Chooses the activations that their producer writes in the MMA fragment layout
//! ([`onetrip_ir::tensor::Role::MmaFragment`]), in which their consumer reads them. Each saves the dispatch that would convert
//! it, and half the bytes.

use crate::graph::{Graph, Source};
use onetrip_ir::context::LoweringContext;

/// Marks a value as MMA fragment layout if its only consumer accepts that layout and its producer can emit it. Other values
/// stay f32.
pub(super) fn choose(graph: &mut Graph, ctx: &LoweringContext) {
    for reader in 0..graph.nodes.len() {
        let node = &graph.nodes[reader];
        let Some((&x, others)) = node.ins.split_first() else { continue };
        let is_its_own = graph.only_consumer(x) == Some(reader) && !others.contains(&x);
        if !is_its_own || graph.values[x].source != Source::Node || graph.values[x].sig.is_state() {
            continue;
        }
        let Some(dtype) = node.op.accepts_fragment_layout(&graph.site(ctx, &node.ins, &node.outs)) else { continue };
        let Some(maker) = graph.producer(x).map(|n| &graph.nodes[n]) else { continue };
        let Some(output) = maker.outs.iter().position(|&v| v == x) else { continue };
        if maker.op.emits_fragment_layout(&graph.site(ctx, &maker.ins, &maker.outs), output, dtype) {
            graph.values[x].sig = graph.values[x].sig.as_mma_fragment(dtype);
        }
    }
}
