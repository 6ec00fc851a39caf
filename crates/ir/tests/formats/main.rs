//! Quantization formats: equal to the `gguf` package bit for bit (`goldens`), and sound by themselves (`properties`).

mod goldens;
mod properties;
