//! An opened model whose weights are not loaded: its file, its configuration, its weights by name, and the plans made from its
//! model definition.

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

use crate::architecture::Architecture;
use crate::config::{Config, ConfigError};
use crate::files::{FileError, ModelFile};
use crate::graph_builder::{BuildError, GraphBuilder, Want};
use crate::memory;
use crate::models;
use crate::weights::Weights;

/// Options that hold for all plans of a model: types, precision, rules and target.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Element type of the KV caches.
    pub cache: DType,
    /// Type to which matrices are converted at load; `None` keeps the types of the file.
    pub weights: Option<DType>,
    /// Precision of activations.
    pub compute: Compute,
    /// Fusion rules that are applied to graphs.
    pub fuse: Fuse,
    /// The kind of device for which plans are lowered, with its capabilities.
    pub target: Target,
    /// Name of the device, as plans print it.
    pub device: String,
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration in the file is missing values or is not supported.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model definition does not fit the weights of the file.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The graph cannot be lowered to a plan.
    #[error("{0}")]
    Plan(String),
}

/// The key of a plan: the row buckets of its batches, and its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// Bucket of the number of tokens.
    pub tokens: RowBucket,
    /// Bucket of the number of sequences.
    pub seqs: RowBucket,
    /// Whether every sequence has exactly one token, as in a decode tick.
    pub one_each: bool,
    /// The output: sampled tokens, or logits of some or all rows.
    pub want: Want,
}

impl PlanKey {
    /// The key for a batch of `tokens` tokens in `seqs` sequences.
    pub fn of(tokens: usize, seqs: usize, want: Want) -> PlanKey {
        PlanKey { tokens: RowBucket::of(tokens), seqs: RowBucket::of(seqs), one_each: tokens == seqs, want }
    }
}

/// An opened model: graphs and plans can be made from it without loading weights.
pub struct Model {
    /// The opened file or folder.
    pub file: Arc<ModelFile>,
    /// Architecture and hyperparameters.
    pub config: Config,
    /// Options that hold for all plans of this model.
    pub options: ModelOptions,
    /// Number of positions that a sequence may have: those for which the model was trained, until it is loaded for another
    /// number. Rotary frequencies may depend on it.
    pub context: usize,
    architecture: &'static Architecture,
    weights: Weights,
    layouts: Layouts,
    states: Vec<Sig>,
}

impl Model {
    /// Opens a model file or folder.
    pub fn open(path: &Path, options: ModelOptions) -> Result<Model, ModelError> {
        Model::new(ModelFile::open(path)?, options)
    }

    /// Makes a model from an opened file: reads the configuration, finds every weight that the model definition names, and
    /// chooses the layouts of weights.
    pub fn new(file: ModelFile, options: ModelOptions) -> Result<Model, ModelError> {
        let (architecture, config) = models::configure(&file)?;
        let file = Arc::new(file);
        let (special, minus_one) = (architecture.tensors, config.norm_minus_one);
        let weights = Weights::new(file.clone(), special, minus_one, options.weights, options.target);
        let context = config.context;
        let (layouts, states) = Default::default();
        let mut model = Model { file, config, options, context, architecture, weights, layouts, states };
        let (graph, states) = model.graph(Want::LastLogits)?;
        if let Some(tensor) = model.weights.unread(model.config.layers) {
            let what = format!("is not part of the architecture {}, so the answers would be wrong", architecture.name);
            let hint = "use a file of a supported model, or another program for this one";
            return Err(FileError::tensor(model.file.name(), tensor, what, hint).into());
        }
        model.layouts = choose_layouts(&graph, model.options.target, model.options.compute);
        model.states = states;
        Ok(model)
    }

    /// The graph as the model definition builds it, before any rule is applied, and the signatures of its states.
    pub fn graph(&mut self, want: Want) -> Result<(Graph, Vec<Sig>), ModelError> {
        let mut builder = GraphBuilder::new(&self.config, &mut self.weights, self.options.cache, self.context, want);
        let define = self.architecture.define;
        let logits = define(&mut builder)?;
        Ok(builder.finish(logits)?)
    }

    /// Makes the plan for a key, with the rules of the model's options.
    pub fn plan(&mut self, key: PlanKey) -> Result<Plan, ModelError> {
        let fuse = self.options.fuse.clone();
        self.plan_with(key, &fuse, false)
    }

    /// Makes the plan for a key with the rules `fuse` instead of those of the model's options. With `assume`, a rule is
    /// applied even where the device has no kernel for the op that it makes; such a plan may have gaps and then cannot run.
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

    /// A context for a long conversation, in positions: what the model was trained for, as far as a quarter of the memory that is
    /// free holds its caches, and at most 32,768. Where that is not known (on GPUs), `usual` or less.
    pub fn roomy_context(&self, usual: usize) -> usize {
        const MOST: usize = 32_768;
        let row = |s: &Sig| s.cache().and_then(|c| s.dtype.row_bytes(c.dim).map(|bytes| (bytes * c.heads) as u64));
        let position: u64 = self.states.iter().filter_map(row).sum();
        let free = memory::available().filter(|_| !self.options.target.is_text());
        let fits = free.map_or(usual, |free| usize::try_from(free / 4 / position.max(1)).unwrap_or(MOST));
        self.config.context.min(MOST).min(fits.max(usual.min(self.config.context)))
    }

    /// Signatures of the states (KV caches and recurrent states), by state index.
    pub fn states(&self) -> &[Sig] {
        &self.states
    }

    /// The weights that the model definition has named.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The layouts in memory that were chosen for the weights.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Number of elements in a row of logits: rows of the output matrix, or of the embedding where the two are tied.
    pub fn vocabulary(&mut self) -> Result<usize, ModelError> {
        let found = self.weights.output(&self.config)?.sig;
        Ok(found.rows.constant().unwrap_or(0) as usize)
    }
}
