//! Qwen 2 and 2.5: Llama's layers with biases on q, k and v (the file has them).

use onetrip_core::graph::ValueId;

use crate::graph_builder::{BuildError, GraphBuilder};

/// Builds the model's graph; gives the logits.
pub fn define(p: &mut GraphBuilder) -> Result<ValueId, BuildError> {
    super::llama::define(p)
}
