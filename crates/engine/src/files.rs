//! Model files: GGUF (single and split), safetensors (single and sharded), read by memory map.
//!
//! Files are hostile until checked: no count, offset or length of a file is believed before it is compared with
//! what is really there, and nothing is allocated by an unchecked number.

mod bytes;
mod error;
mod folder;
mod gguf;
mod gguf_write;
mod metadata;
mod model_file;
mod safetensors;
mod split;
mod summary;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use error::{FileError, KeyError};
pub use gguf_write::{GgufWriter, WriteError};
pub use metadata::MetadataAccess;
pub use model_file::ModelFile;
pub use summary::{MetadataRow, PartRow, Summary, TensorRow, TypeRow};
pub use types::TensorType;
pub use value::{Kind, Metadata, TensorInfo, Value};
