//! The model definitions: one function per architecture, in the order of its paper.

use crate::graph_builder::{BuildError, GraphBuilder};
use onetrip_core::graph::ValueId;

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen35;

/// Builds a model's graph and gives the logits.
pub type Define = fn(&mut GraphBuilder) -> Result<ValueId, BuildError>;

/// The model definitions by GGUF's name of the architecture.
pub const MODELS: &[(&str, Define)] = &[
    ("llama", llama::define),
    ("qwen2", qwen2::define),
    ("qwen3", qwen3::define),
    ("qwen35", qwen35::define),
    ("gemma3", gemma3::define),
];

/// Names of the architectures that there is a page for.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|(name, _)| *name).collect()
}
