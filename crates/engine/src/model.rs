//! A model before it runs: its file, shape, weights by name, and the plans of its definition. Nothing is loaded yet.

use onetrip_core::compile::layout::choose_layouts;
use onetrip_core::compile::lower::lower_assuming;
use std::path::Path;
use std::sync::Arc;

use onetrip_core::compile::layout::Layouts;
use onetrip_core::fuse::Fuse;
use onetrip_core::graph::Graph;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::formats::DType;
use onetrip_ir::plan::Plan;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::Sig;

use crate::config::{Config, ConfigError};
use crate::files::{FileError, ModelFile};
use crate::graph_builder::{BuildError, GraphBuilder, Want};
use crate::models::{self, MODELS};
use crate::weights::Weights;

/// What is chosen once for a model: precision, caches, rules.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Type of the key/value caches.
    pub cache: DType,
    /// Convert matrices to this type at load.
    pub weights: Option<DType>,
    /// Precision of activations.
    pub compute: Compute,
    /// Rules.
    pub fuse: Fuse,
    /// Where plans run.
    pub target: Target,
    /// Name of the device in plans.
    pub device: String,
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its model definition.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A graph that cannot be lowered.
    #[error("{0}")]
    Plan(String),
}

/// The key of a plan: row buckets of the batch, and the output that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// Bucket of the number of tokens.
    pub tokens: RowBucket,
    /// Bucket of the number of sequences.
    pub seqs: RowBucket,
    /// Every sequence has one token: a decode step.
    pub one_each: bool,
    /// What is made of the logits.
    pub want: Want,
}

impl PlanKey {
    /// The plan of a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, want: Want) -> PlanKey {
        PlanKey { tokens: RowBucket::of(tokens), seqs: RowBucket::of(seqs), one_each: tokens == seqs, want }
    }
}

/// A model, opened.
pub struct Model {
    /// The file.
    pub file: Arc<ModelFile>,
    /// The shape.
    pub config: Config,
    /// What was chosen.
    pub options: ModelOptions,
    weights: Weights,
    layouts: Layouts,
    states: Vec<Sig>,
}

impl Model {
    /// Opens a model file or folder.
    pub fn open(path: &Path, options: ModelOptions) -> Result<Model, ModelError> {
        Model::new(ModelFile::open(path)?, options)
    }

    /// A model of an opened file: reads the configuration, finds every weight that the model definition names, chooses layouts.
    pub fn new(file: ModelFile, options: ModelOptions) -> Result<Model, ModelError> {
        let config = Config::read(&file, &models::names())?;
        let file = Arc::new(file);
        let weights = Weights::new(file.clone(), &config.arch, config.norm_plus_one, options.weights, options.target);
        let mut model = Model { file, config, options, weights, layouts: Layouts::new(), states: vec![] };
        let (graph, states) = model.graph(Want::LastLogits)?;
        model.layouts = choose_layouts(&graph, model.options.target, model.options.compute);
        model.states = states;
        Ok(model)
    }

    /// The graph as the model's definition writes it, before any rule, and the signatures of its states.
    pub fn graph(&mut self, want: Want) -> Result<(Graph, Vec<Sig>), ModelError> {
        let name = self.config.arch.as_str();
        let define = MODELS.iter().find(|(arch, _)| *arch == name).map(|(_, define)| *define);
        let define = define.ok_or_else(|| ModelError::Plan(format!("no definition of architecture {name}")))?;
        let mut builder = GraphBuilder::new(&self.config, &mut self.weights, self.options.cache, want);
        let logits = define(&mut builder)?;
        Ok(builder.finish(logits)?)
    }

    /// The plan for a bucket of batches.
    pub fn plan(&mut self, key: PlanKey) -> Result<Plan, ModelError> {
        let fuse = self.options.fuse.clone();
        self.plan_with(key, &fuse, false)
    }

    /// The plan for a bucket of batches by other rules than the model's own; with `assume`, rules are not refused where
    /// the device has no kernel for what they make (such a plan has gaps and cannot run).
    pub fn plan_with(&mut self, key: PlanKey, fuse: &Fuse, assume: bool) -> Result<Plan, ModelError> {
        let (graph, _) = self.graph(key.want)?;
        let o = &self.options;
        let ctx = LoweringContext {
            tokens: key.tokens,
            seqs: key.seqs,
            one_each: key.one_each,
            compute: o.compute,
            target: o.target,
        };
        let plan = lower_assuming(graph, ctx, fuse, &self.layouts, &o.device, assume);
        plan.map_err(|e| ModelError::Plan(format!("{}: {e}", self.file.name())))
    }

    /// The caches, in the order of their indices.
    pub fn states(&self) -> &[Sig] {
        &self.states
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Layouts of the weights.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Elements in a row of logits.
    pub fn vocabulary(&mut self) -> Result<usize, ModelError> {
        let found = match self.weights.find("output.weight")? {
            Some((_, sig)) => sig,
            None => self.weights.get("token_embd.weight")?.1,
        };
        Ok(found.rows.constant().unwrap_or(0) as usize)
    }
}
