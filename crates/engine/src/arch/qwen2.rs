//! Qwen 2 and 2.5: Llama's layers with biases on q, k and v (the file has them).

use onetrip_core::graph::ValueId;

use crate::page::{Page, PageError};

/// Writes the model; gives the logits.
pub fn write(p: &mut Page) -> Result<ValueId, PageError> {
    super::llama::write(p)
}
