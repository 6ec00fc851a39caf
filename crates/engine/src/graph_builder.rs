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
use crate::files::{FileError, KeyError};
use crate::weights::{Dims, Weights};
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
    /// Number of positions that a sequence may have.
    context: usize,
    want: Want,
    /// Prefix of the names of nodes and weights: `blk.3.` within layer 3, empty outside of layers.
    prefix: String,
    states: Vec<Sig>,
}

impl<'a> GraphBuilder<'a> {
    /// Begins an empty graph with the output `want`; `cache_type` is the element type of KV caches, and `context` the number of
    /// positions that a sequence may have.
    pub fn new(
        config: &'a Config,
        weights: &'a mut Weights,
        cache_type: DType,
        context: usize,
        want: Want,
    ) -> GraphBuilder<'a> {
        let (graph, prefix, states) = Default::default();
        GraphBuilder { config, graph, weights, cache_type, context, want, prefix, states }
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

    fn weight(&mut self, name: &str, dims: Dims) -> Made {
        let name = format!("{}{name}", self.prefix);
        let (index, sig) = self.weights.get(&name, dims)?;
        Ok(self.source(&name, index, sig))
    }

    fn weight_if_there(&mut self, name: &str, dims: Dims) -> Result<Option<ValueId>, BuildError> {
        let name = format!("{}{name}", self.prefix);
        Ok(self.weights.find(&name, dims)?.map(|(index, sig)| self.source(&name, index, sig)))
    }

    fn width(&self, x: ValueId) -> usize {
        self.graph.values[x].sig.width
    }

    /// The row of the embedding table for every token of the batch.
    pub fn embed(&mut self) -> Made {
        let table = self.weight("token_embd.weight", Dims::embedding(self.config))?;
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
        let elements = if dim == WHOLE_ROW { self.width(x) } else { dim };
        let weight = self.weight(&format!("{name}.weight"), Dims::Row(elements))?;
        let normed = self.push(name, RmsNorm::plain(self.config.eps, dim), &[x])?;
        self.push(name, Elementwise::mul(), &[normed, weight])
    }

    /// `x · Wᵀ` with the weight `name.weight` of `rows` rows (`None`: as many as the file has), plus `name.bias` where the file
    /// has it.
    pub fn linear(&mut self, x: ValueId, name: &str, rows: impl Into<Option<usize>>) -> Made {
        let y = self.product(x, name, rows.into())?;
        let elements = self.width(y);
        match self.weight_if_there(&format!("{name}.bias"), Dims::Row(elements))? {
            Some(bias) => self.push(&format!("{name}_bias"), Elementwise::add(), &[y, bias]),
            None => Ok(y),
        }
    }

    /// Like [`GraphBuilder::linear`], and the bias has to be there.
    pub fn linear_biased(&mut self, x: ValueId, name: &str, rows: usize) -> Made {
        let y = self.product(x, name, Some(rows))?;
        let bias = self.weight(&format!("{name}.bias"), Dims::Row(rows))?;
        self.push(&format!("{name}_bias"), Elementwise::add(), &[y, bias])
    }

    fn product(&mut self, x: ValueId, name: &str, rows: Option<usize>) -> Made {
        let weight = self.weight(&format!("{name}.weight"), Dims::Matrix { rows, width: self.width(x) })?;
        self.push(name, Matmul::plain(), &[x, weight])
    }

    /// Queries, keys and values of `h`: its products with `attn_q`, `attn_k` and `attn_v`.
    pub fn qkv(&mut self, h: ValueId) -> Result<[ValueId; 3], BuildError> {
        let (q, kv) = self.head_rows();
        Ok([self.linear(h, "attn_q", q)?, self.linear(h, "attn_k", kv)?, self.linear(h, "attn_v", kv)?])
    }

    /// Like [`GraphBuilder::qkv`], with biases.
    pub fn qkv_biased(&mut self, h: ValueId) -> Result<[ValueId; 3], BuildError> {
        let (q, kv) = self.head_rows();
        let q = self.linear_biased(h, "attn_q", q)?;
        Ok([q, self.linear_biased(h, "attn_k", kv)?, self.linear_biased(h, "attn_v", kv)?])
    }

    /// Products of `h` with several matrices whose rows lie one after the other in the weight `of.weight`: the name of each
    /// product, and its rows.
    pub fn packed<const N: usize>(
        &mut self,
        h: ValueId,
        of: &str,
        parts: [(&str, usize); N],
    ) -> Result<[ValueId; N], BuildError> {
        let tensor = format!("{}{of}.weight", self.prefix);
        let all = parts.iter().map(|(_, rows)| rows).sum();
        let dims = Dims::Matrix { rows: Some(all), width: self.width(h) };
        let (mut made, mut start) = ([0; N], 0);
        for (y, (name, rows)) in made.iter_mut().zip(parts) {
            let (index, sig) = self.weights.part(&tensor, dims, start..start + rows)?;
            let weight = self.source(&format!("{}{name}.weight", self.prefix), index, sig);
            *y = self.push(name, Matmul::plain(), &[h, weight])?;
            start += rows;
        }
        Ok(made)
    }

    /// Inner width of the feed-forward network; an error if the file does not say it.
    pub fn ffn_width(&self) -> Result<usize, BuildError> {
        let missing = || KeyError::Missing { key: format!("{}.feed_forward_length", self.config.arch) };
        Ok(self.weights.file().key(self.config.ffn.ok_or_else(missing))?)
    }

    /// Elements of all queries of a row, and of all its keys.
    fn head_rows(&self) -> (usize, usize) {
        (self.config.heads * self.config.head_dim, self.config.kv_heads * self.config.head_dim)
    }

    /// The gated feed-forward network: `(activation(h · Gᵀ) · (h · Uᵀ)) · Dᵀ` with `ffn_gate`, `ffn_up` and `ffn_down`.
    pub fn gated_ffn(&mut self, h: ValueId, activation: Unary) -> Made {
        let gate = self.linear(h, "ffn_gate", self.config.ffn)?;
        let up = self.linear(h, "ffn_up", self.width(gate))?;
        let f = self.glu(activation, gate, up)?;
        self.linear(f, "ffn_down", self.config.width)
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
        let row = self.weight(name, Dims::Row(self.width(x)))?;
        self.push(&name.replace('.', "_"), Elementwise::add(), &[x, row])
    }

    /// `x` times the weight `name`, a single row that multiplies every row.
    pub fn mul_row(&mut self, x: ValueId, name: &str) -> Made {
        let row = self.weight(name, Dims::Row(self.width(x)))?;
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
        let width = self.width(x);
        let filter = self.weight(&format!("{name}.weight"), Dims::Filter { channels: width, taps })?;
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

    /// Adds a table of rotary frequencies, divided by the factors that the file has for each pair: in `rope_freqs.weight`, or
    /// one list for contexts up to the original one and another for longer contexts. Returns the index of the table.
    pub fn rope_table(&mut self, rope: &RopeConfig) -> Result<usize, BuildError> {
        let is_long = self.context > self.config.original;
        let listed = self.config.long_factors.as_ref().map(|lists| lists[usize::from(is_long)].clone());
        let by_context = if is_long { "rope_factors_long.weight" } else { "rope_factors_short.weight" };
        let mut divisors = listed;
        for name in ["rope_freqs.weight", by_context] {
            if divisors.is_none() {
                let found = self.weights.find(name, Dims::Row(rope.dim / 2))?;
                divisors = found.map(|(i, _)| self.weights.row(i));
            }
        }
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

    /// Ends the last layer and adds logits of `x`: of all rows, or of the last row of each sequence.
    pub fn logits(&mut self, x: ValueId) -> Made {
        self.prefix.clear();
        let x = if self.want == Want::AllLogits { x } else { self.push("logit_rows", GatherRows, &[x])? };
        let x = self.norm(x, "output_norm")?;
        let weight = self.weights.output(self.config)?;
        let weight = self.source(weight.name, weight.index, weight.sig);
        let y = self.push("output", Matmul::plain(), &[x, weight])?;
        let Some(cap) = self.config.logit_cap else { return Ok(y) };
        let y = self.scale("logit_cap_in", y, 1.0 / cap)?;
        let y = self.unary(Unary::Tanh, y, "logit_cap_tanh")?;
        self.scale("logit_cap_out", y, cap)
    }
}
