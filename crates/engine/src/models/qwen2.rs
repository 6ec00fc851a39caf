//! Qwen 2 and 2.5: the layers of Llama with biases on q, k and v. `GraphBuilder::linear` adds biases that the file has, so the
//! definition is Llama's.

use onetrip_core::graph::ValueId;

use crate::graph_builder::{BuildError, GraphBuilder};

/// Adds the ops of the model to the graph; returns the logits.
pub fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    super::llama::define(p)
}
