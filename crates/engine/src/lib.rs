//! The engine of onetrip: model files, tokenizers, chat templates, model pages, states, scheduler, step.
//!
//! Engine never names a kernel.

pub mod chat;
pub mod files;
pub mod tokenizer;
