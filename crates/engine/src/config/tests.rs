//! Tests of configurations, through the registry of architectures.

mod folders;
mod gguf;
