//! Chooses one layout for each weight of a graph.

use std::collections::BTreeMap;

use crate::graph::{Graph, Source};
use crate::ops::Op;
use onetrip_ir::formats::planes;
use onetrip_ir::target::{Compute, Target};
use onetrip_ir::tensor::{Layout, tile_layout};

/// Layout of each weight by its index; weights that no matmul reads stay as stored.
pub type Layouts = BTreeMap<usize, Layout>;

/// Chooses one layout for each weight of a graph. A quantized weight that a matmul reads is in interleaved tiles on the CPU
/// (with int8 activations) and in planes on GPUs; a quantized embedding table is in planes on GPUs too. All other weights
/// stay as stored.
pub fn choose_layouts(graph: &Graph, target: Target, compute: Compute) -> Layouts {
    let mut layouts = Layouts::new();
    if !target.is_text() && compute != Compute::Int8 {
        return layouts;
    }
    for node in &graph.nodes {
        let weights = match &node.op {
            Op::Matmul(m) => &node.ins[m.first_weight()..m.first_operand()],
            Op::Embed(_) if target.is_text() => &node.ins[..1],
            _ => continue,
        };
        for &v in weights {
            let sig = &graph.values[v].sig;
            if let Source::Weight(w) = graph.values[v].source {
                match target.is_text() {
                    true if planes::spec(sig.dtype).is_some() => layouts.insert(w, Layout::Planes),
                    false if tile_layout(sig.dtype, sig.width).is_some() => layouts.insert(w, Layout::Tile16),
                    _ => None,
                };
            }
        }
    }
    layouts
}
