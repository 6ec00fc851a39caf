//! What a file of `models/` says about one architecture: its names, the keys and tensors of its files, its graph, and the
//! dimensions of published models.

use onetrip_core::graph::ValueId;

use crate::config::{Config, ConfigError, Keys, Shape, Traits};
use crate::graph_builder::{BuildError, GraphBuilder};

/// An architecture. Everything that is special about it is here; [`Architecture::PLAIN`] has what most of them share.
pub struct Architecture {
    /// Name in GGUF (`general.architecture`).
    pub name: &'static str,
    /// Names in `config.json` (`model_type`). Empty: folders of Hugging Face are not read, for the reason in `folders`.
    pub model_types: &'static [&'static str],
    /// Why folders of Hugging Face are not read; empty where they are.
    pub folders: &'static str,
    /// Models of this architecture, for docs/models.md.
    pub models: &'static str,
    /// How common keys are read.
    pub traits: Traits,
    /// Parts of tensor names that are not the usual ones: in GGUF and in folders of Hugging Face.
    pub tensors: &'static [(&'static str, &'static str)],
    /// Keys that are read by no code of this program although files have them, by GGUF's name and `config.json`'s, and the
    /// reason: what they say follows from something else, or concerns training.
    pub ignored: &'static [(&'static str, &'static str, &'static str)],
    /// Reads the hyperparameters that only this architecture has.
    pub read: fn(&Keys, &mut Config) -> Result<(), ConfigError>,
    /// Adds the ops of the model to a graph and returns the logits, one row for each row of the output.
    pub define: fn(&mut GraphBuilder) -> Result<ValueId, BuildError>,
    /// Dimensions of published models, for plans without weights.
    pub shapes: &'static [Shape],
}

impl Architecture {
    /// What most architectures share.
    pub const PLAIN: Architecture = Architecture {
        name: "",
        model_types: &[],
        folders: "",
        models: "",
        traits: Traits::PLAIN,
        tensors: &[],
        ignored: &[],
        read: |_, _| Ok(()),
        define: |p| p.embed(),
        shapes: &[],
    };
}

impl Architecture {
    /// Reads and checks the configuration of a file of this architecture.
    pub fn configure(&self, keys: &Keys) -> Result<Config, ConfigError> {
        let mut config = Config::common(keys, self.name, &self.traits)?;
        (self.read)(keys, &mut config)?;
        config.check(keys)?;
        Ok(config)
    }
}
