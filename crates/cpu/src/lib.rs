//! the CPU device: thread pool and memory
