//! The model pages: one function per architecture, in the order of its paper.

use crate::page::{Page, PageError};
use onetrip_core::graph::ValueId;

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen35;

/// Writes a model to a page and gives the logits.
pub type Write = fn(&mut Page) -> Result<ValueId, PageError>;

/// The pages by GGUF's name of the architecture.
pub const PAGES: &[(&str, Write)] = &[
    ("llama", llama::write),
    ("qwen2", qwen2::write),
    ("qwen3", qwen3::write),
    ("qwen35", qwen35::write),
    ("gemma3", gemma3::write),
];

/// Names of the architectures that there is a page for.
pub fn names() -> Vec<&'static str> {
    PAGES.iter().map(|(name, _)| *name).collect()
}
