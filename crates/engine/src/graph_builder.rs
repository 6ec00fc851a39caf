//! The builder that model definitions use to make a graph: one method for each op, called in the order of the model's paper.

use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::OpDef;
use onetrip_core::ops::attention::Attention;
use onetrip_core::ops::cache_write::CacheWrite;
use onetrip_core::ops::conv::Conv;
use onetrip_core::ops::delta_net::{DeltaNet, Front};
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::embed::Embed;
use onetrip_core::ops::gather_rows::GatherRows;
use onetrip_core::ops::l2_norm::L2Norm;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rms_norm::{RmsNorm, WHOLE_ROW};
use onetrip_core::ops::rope::Rope;
use onetrip_core::ops::sample::Sample;
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::Tree;

pub use onetrip_ir::tree::Unary;

use crate::config::{Config, Recurrent};
use crate::files::FileError;
use crate::weights::Weights;
use onetrip_core::ops::rope::frequencies::RopeConfig;

/// Why a graph could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A weight is missing or cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The shapes of weights contradict the configuration.
    #[error("{file}: {error}; the weights do not fit the configuration: fetch or convert the model again")]
    Shape {
        /// Name of the model's file.
        file: String,
        /// The op at which shapes do not fit, and the reason.
        error: ShapeError,
    },
}

/// The output of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// The sampled next token of each sequence, with its most probable tokens.
    Sample {
        /// Largest number of most probable tokens reported for each sequence.
        top: usize,
    },
    /// Logits of the last row of each sequence.
    LastLogits,
    /// Logits of every row of the batch.
    AllLogits,
}

type Made = Result<ValueId, BuildError>;

/// A graph while it is being built.
pub struct GraphBuilder<'a> {
    /// Architecture and hyperparameters of the model.
    pub config: &'a Config,
    graph: Graph,
    weights: &'a mut Weights,
    cache_type: DType,
    want: Want,
    /// Prefix of the names of nodes and weights: `blk.3.` within layer 3, empty outside of layers.
    prefix: String,
    states: Vec<Sig>,
}

impl<'a> GraphBuilder<'a> {
    /// Begins an empty graph with the output `want`; `cache_type` is the element type of KV caches.
    pub fn new(config: &'a Config, weights: &'a mut Weights, cache_type: DType, want: Want) -> GraphBuilder<'a> {
        let (graph, prefix, states) = Default::default();
        GraphBuilder { config, graph, weights, cache_type, want, prefix, states }
    }

    /// Adds the op `sample` if tokens are wanted; returns the graph and the signatures of its states, by state index.
    pub fn finish(mut self, logits: ValueId) -> Result<(Graph, Vec<Sig>), BuildError> {
        let out = match self.want {
            Want::Sample { top } => self.push("sample", Sample { top }, &[logits])?,
            _ => logits,
        };
        self.graph.outputs = vec![out];
        Ok((self.graph, self.states))
    }

    /// Begins a layer: until the next call, names of nodes and weights get the prefix of this layer.
    pub fn layer(&mut self, layer: usize) {
        self.prefix = format!("blk.{layer}.");
    }

    /// Ends the last layer: names of nodes and weights get no prefix from here on.
    pub fn end_of_layers(&mut self) {
        self.prefix.clear();
    }

    fn push(&mut self, name: &str, op: impl Into<onetrip_core::ops::Op>, ins: &[ValueId]) -> Made {
        Ok(self.push_all(name, op, ins)?[0])
    }

    fn push_all(
        &mut self,
        name: &str,
        op: impl Into<onetrip_core::ops::Op>,
        ins: &[ValueId],
    ) -> Result<Vec<ValueId>, BuildError> {
        let file = self.weights.file().name().to_string();
        let made = self.graph.push(format!("{}{name}", self.prefix), op, ins);
        made.map_err(|error| BuildError::Shape { file, error })
    }

    fn source(&mut self, name: &str, index: usize, sig: Sig) -> ValueId {
        let found = self.graph.values.iter().position(|v| v.source == Source::Weight(index));
        found.unwrap_or_else(|| self.graph.source(name, sig, Source::Weight(index)))
    }

    fn weight(&mut self, name: &str) -> Made {
        let name = format!("{}{name}", self.prefix);
        let (index, sig) = self.weights.get(&name)?;
        Ok(self.source(&name, index, sig))
    }

    fn weight_if_there(&mut self, name: &str) -> Result<Option<ValueId>, BuildError> {
        let name = format!("{}{name}", self.prefix);
        Ok(self.weights.find(&name)?.map(|(index, sig)| self.source(&name, index, sig)))
    }

    /// The row of the embedding table for every token of the batch.
    pub fn embed(&mut self) -> Made {
        let table = self.weight("token_embd.weight")?;
        self.push("token_embd", Embed { scale: 1.0 }, &[table])
    }

    /// `x · factor`.
    pub fn scale(&mut self, name: &str, x: ValueId, factor: f32) -> Made {
        self.push(name, Elementwise::scale(factor), &[x])
    }

    /// RMS norm of every row, times the weight `name.weight`.
    pub fn norm(&mut self, x: ValueId, name: &str) -> Made {
        self.norm_of(x, name, WHOLE_ROW)
    }

    /// RMS norm of every head, times the weight `name.weight`.
    pub fn head_norm(&mut self, x: ValueId, name: &str) -> Made {
        self.norm_of(x, name, self.config.head_dim)
    }

    /// RMS norm of every group of `dim` elements, times the weight `name.weight`.
    pub fn norm_of(&mut self, x: ValueId, name: &str, dim: usize) -> Made {
        let weight = self.weight(&format!("{name}.weight"))?;
        let normed = self.push(name, RmsNorm::plain(self.config.eps, dim), &[x])?;
        self.push(name, Elementwise::mul(), &[normed, weight])
    }

    /// `x · Wᵀ` with the weight `name.weight`, plus `name.bias` where the file has it.
    pub fn linear(&mut self, x: ValueId, name: &str) -> Made {
        let weight = self.weight(&format!("{name}.weight"))?;
        let y = self.push(name, Matmul::plain(), &[x, weight])?;
        match self.weight_if_there(&format!("{name}.bias"))? {
            Some(bias) => self.push(&format!("{name}_bias"), Elementwise::add(), &[y, bias]),
            None => Ok(y),
        }
    }

    /// `activation(gate) · up`.
    pub fn glu(&mut self, activation: Unary, gate: ValueId, up: ValueId) -> Made {
        self.push("ffn_act", Elementwise::glu(activation), &[gate, up])
    }

    /// `a + b`.
    pub fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> Made {
        self.push(name, Elementwise { tree: Tree::sum(Tree::In(0), Tree::In(1)) }, &[a, b])
    }

    /// `a · b`.
    pub fn mul(&mut self, name: &str, a: ValueId, b: ValueId) -> Made {
        self.push(name, Elementwise::mul(), &[a, b])
    }

    /// `x` plus the weight `name`, a single row that is added to every row.
    pub fn add_row(&mut self, x: ValueId, name: &str) -> Made {
        let row = self.weight(name)?;
        self.push(&name.replace('.', "_"), Elementwise::add(), &[x, row])
    }

    /// `x` times the weight `name`, a single row that multiplies every row.
    pub fn mul_row(&mut self, x: ValueId, name: &str) -> Made {
        let row = self.weight(name)?;
        self.push(name, Elementwise::mul(), &[x, row])
    }

    /// `f(x)`.
    pub fn unary(&mut self, f: Unary, x: ValueId, name: &str) -> Made {
        self.push(name, Elementwise::unary(f), &[x])
    }

    /// A slice of every row: `len` elements from `start` on in each group of `group` elements.
    pub fn slice(&mut self, x: ValueId, name: &str, group: usize, start: usize, len: usize) -> Made {
        self.push(name, Slice { group, start, len }, &[x])
    }

    /// L2 norm: every group of `dim` elements divided by its Euclidean length.
    pub fn l2_norm(&mut self, x: ValueId, name: &str, dim: usize) -> Made {
        self.push(name, L2Norm { eps: self.config.eps, dim, view: None }, &[x])
    }

    /// The shape of the recurrent layers; an error if the configuration does not describe any.
    pub fn recurrent(&self) -> Result<Recurrent, BuildError> {
        let missing = || {
            let why = "the configuration says nothing of recurrent layers (keys `ssm.*`)".to_string();
            BuildError::Shape { file: self.weights.file().name().into(), error: ShapeError { op: DeltaNet::NAME, why } }
        };
        self.config.recurrent.ok_or_else(missing)
    }

    /// Adds a state (KV cache or recurrent state) to the graph, named for the layer; the engine allocates it.
    fn state(&mut self, name: &str, sig: Sig) -> ValueId {
        let index = Source::State(self.states.len());
        self.states.push(sig.clone());
        self.graph.source(format!("{}{name}", self.prefix), sig, index)
    }

    /// Causal convolution of every channel with its filter of `taps` taps in `name.weight`. The last `taps - 1` inputs of each
    /// channel stay in a recurrent state.
    pub fn conv(&mut self, x: ValueId, name: &str, taps: usize) -> Made {
        let filter = self.weight(&format!("{name}.weight"))?;
        let width = self.graph.values[x].sig.width;
        let state = self.state("conv_state", Sig::recurrent((taps - 1) * width));
        self.push(name, Conv { taps, heads: None }, &[x, filter, state])
    }

    /// The gated delta rule on `ins`: q, k, v, the logarithm of the decay, and beta. Each sequence keeps its own recurrent
    /// state.
    pub fn delta_net(&mut self, ins: [ValueId; 5], r: Recurrent) -> Made {
        let (k_heads, v_heads, k_dim, v_dim) = (r.k_heads, r.v_heads, r.state, r.state);
        let scale = 1.0 / (k_dim as f32).sqrt();
        let delta = DeltaNet { k_heads, v_heads, k_dim, v_dim, scale, front: Front::Separate, norm: None };
        let state = self.state("delta_state", Sig::recurrent(delta.state_width()));
        let [q, k, v, g, beta] = ins;
        self.push("delta_net", delta, &[q, k, v, g, beta, state])
    }

    /// Adds a table of rotary frequencies, divided by the factors in `rope_freqs.weight` where the file has them; returns the
    /// index of the table.
    pub fn rope_table(&mut self, rope: &RopeConfig) -> Result<usize, BuildError> {
        let divisors = self.weights.find("rope_freqs.weight")?.map(|(i, _)| self.weights.row(i));
        Ok(self.graph.rope_table(rope.spec(divisors.as_deref())))
    }

    /// Rotates each of `heads` heads of `x` by the rotary table with index `table`.
    pub fn rope(&mut self, x: ValueId, name: &str, heads: usize, table: usize) -> Made {
        let (dim, neox) = (self.config.head_dim, self.config.neox);
        let pairs = self.graph.ropes[table].inv_freq.len();
        self.push(name, Rope { heads, dim, pairs, neox, table, norm: None, view: None }, &[x])
    }

    /// Writes k and v to the KV cache of the layer, then adds attention of q over the cache.
    pub fn attention(&mut self, q: ValueId, k: ValueId, v: ValueId, window: Option<u32>) -> Made {
        let c = self.config;
        let cache = Cache { heads: c.kv_heads, dim: c.head_dim };
        let mut written = [0; 2];
        for ((x, name), out) in [(k, "cache_k"), (v, "cache_v")].into_iter().zip(&mut written) {
            let state = self.state(name, Sig::state(cache, self.cache_type));
            *out = self.push(name, CacheWrite { pair: false, rope: None }, &[x, state])?;
        }
        let scale = c.attention_scale.unwrap_or(1.0 / (c.head_dim as f32).sqrt());
        let attention = Attention { window, ..Attention::plain(c.heads, c.kv_heads, c.head_dim, scale) };
        self.push("attention", attention, &[q, written[0], written[1]])
    }

    /// The rows whose logits are wanted: all rows, or the last row of each sequence.
    pub fn logit_rows(&mut self, x: ValueId) -> Made {
        if self.want == Want::AllLogits {
            return Ok(x);
        }
        self.push("logit_rows", GatherRows, &[x])
    }

    /// Logits: `x` times the output matrix, or times the embedding table where the model ties the two.
    pub fn head(&mut self, x: ValueId) -> Made {
        let weight = match self.weight_if_there("output.weight")? {
            Some(weight) => weight,
            None => self.weight("token_embd.weight")?,
        };
        self.push("output", Matmul::plain(), &[x, weight])
    }
}
