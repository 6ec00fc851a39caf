//! The model definitions: one file for each architecture, with everything that is special about it.

use crate::architecture::Architecture;
use crate::config::{Config, ConfigError, Keys};
use crate::files::{Kind, ModelFile};

mod gemma3;
mod llama;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;

/// All architectures.
pub const MODELS: &[&Architecture] =
    &[&llama::MODEL, &qwen2::MODEL, &qwen3::MODEL, &qwen35::MODEL, &gemma3::MODEL, &phi3::MODEL, &olmo2::MODEL];

/// Finds the definition of a file's architecture, and reads and checks the file's configuration.
pub fn configure(file: &ModelFile) -> Result<(&'static Architecture, Config), ConfigError> {
    let keys = Keys::new(file)?;
    let model = find(&keys)?;
    Ok((model, model.configure(&keys)?))
}

/// The definition of the architecture that a file names.
pub fn find(keys: &Keys) -> Result<&'static Architecture, ConfigError> {
    let (named, gguf) = (keys.named(), keys.is_gguf());
    let is = |m: &&&Architecture| if gguf { m.name == named } else { m.model_types.contains(&named) };
    let unknown = || {
        let known: Vec<&str> = match keys.file().kind() {
            Kind::Gguf => MODELS.iter().map(|m| m.name).collect(),
            _ => MODELS.iter().flat_map(|m| m.model_types).copied().collect(),
        };
        let why = MODELS.iter().find(|m| m.name == named && !m.folders.is_empty());
        ConfigError::Arch {
            file: keys.file().name().into(),
            arch: onetrip_ir::text::shown(named),
            known: known.join(", "),
            why: why.map_or(String::new(), |m| format!(" ({})", m.folders)),
        }
    };
    MODELS.iter().find(is).copied().ok_or_else(unknown)
}
