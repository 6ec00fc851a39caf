//! The model definitions: one function for each architecture, with its ops in the order of the paper.

use crate::graph_builder::{BuildError, GraphBuilder};
use onetrip_core::graph::ValueId;

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen35;

/// Adds the ops of a model to a graph and returns the logits, one row for each row of the output.
pub type Define = fn(&mut GraphBuilder) -> Result<ValueId, BuildError>;

/// The model definitions, by the name of the architecture in GGUF.
pub const MODELS: &[(&str, Define)] = &[
    ("llama", llama::define),
    ("qwen2", qwen2::define),
    ("qwen3", qwen3::define),
    ("qwen35", qwen35::define),
    ("gemma3", gemma3::define),
];

/// Names of all architectures that have a model definition.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|(name, _)| *name).collect()
}
