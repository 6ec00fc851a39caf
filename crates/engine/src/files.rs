//! Model files: GGUF (single and split), safetensors (single and sharded), read by memory map.
//!
//! Files are untrusted input: every count, offset and length is compared with the bytes that the file really has before it is
//! used, and nothing is allocated in a size that was not checked.

mod bytes;
mod error;
mod folder;
mod gguf;
mod gguf_write;
mod metadata;
mod model_file;
mod safetensors;
mod split;
mod stand_in;
mod summary;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use error::{FileError, KeyError};
pub use gguf_write::{GgufWriter, WriteError};
pub use metadata::MetadataAccess;
pub use model_file::ModelFile;
pub(crate) use stand_in::{StandIn, stand_in};
pub use summary::{MetadataRow, PartRow, Summary, TensorRow, TypeRow};
pub use types::TensorType;
pub use value::{Kind, Metadata, TensorInfo, Value};
