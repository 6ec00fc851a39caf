//! What a model page writes with: named parts, in the order of the paper.

use onetrip_core::formats::DType;
use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::ShapeError;
use onetrip_core::ops::attention::Attention;
use onetrip_core::ops::cache_write::CacheWrite;
use onetrip_core::ops::elementwise::{Elementwise, Tree};
use onetrip_core::ops::embed::Embed;
use onetrip_core::ops::gather_rows::GatherRows;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rms_norm::{RmsNorm, WHOLE_ROW};
use onetrip_core::ops::rope::Rope;
use onetrip_core::ops::sample::Sample;
use onetrip_core::tensor::{Cache, Sig};

pub use onetrip_core::ops::elementwise::Unary;

use crate::config::Config;
use crate::files::FileError;
use crate::rope::RopeConfig;
use crate::weights::Weights;

/// Why a graph could not be built.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A weight is missing or cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Weights of shapes that do not fit the configuration.
    #[error("{file}: {error}; the weights do not fit the configuration: fetch or convert the model again")]
    Shape {
        /// The file.
        file: String,
        /// What does not fit.
        error: ShapeError,
    },
}

/// What is made of the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// The next token of each sequence, with room for so many best tokens.
    Sample {
        /// Best tokens reported.
        top: usize,
    },
    /// Logits of the last row of each sequence.
    LastLogits,
    /// Logits of every row.
    AllLogits,
}

type Made = Result<ValueId, PageError>;

/// A graph in the making.
pub struct Page<'a> {
    /// The model's shape.
    pub config: &'a Config,
    graph: Graph,
    weights: &'a mut Weights,
    cache_type: DType,
    want: Want,
    /// `blk.3.` within layer 3, empty outside.
    prefix: String,
    states: Vec<Sig>,
}

impl<'a> Page<'a> {
    /// An empty page.
    pub fn new(config: &'a Config, weights: &'a mut Weights, cache_type: DType, want: Want) -> Page<'a> {
        let (graph, prefix, states) = Default::default();
        Page { config, graph, weights, cache_type, want, prefix, states }
    }

    /// Adds what follows the logits and gives the graph and the states it needs.
    pub fn finish(mut self, logits: ValueId) -> Result<(Graph, Vec<Sig>), PageError> {
        let out = match self.want {
            Want::Sample { top } => self.push("sample", Sample { top }, &[logits])?,
            _ => logits,
        };
        self.graph.outputs = vec![out];
        Ok((self.graph, self.states))
    }

    /// Begins a layer: names of parts and weights are its own until the next one.
    pub fn layer(&mut self, layer: usize) {
        self.prefix = format!("blk.{layer}.");
    }

    /// Ends the layers.
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
    ) -> Result<Vec<ValueId>, PageError> {
        let file = self.weights.file().name().to_string();
        let made = self.graph.push(format!("{}{name}", self.prefix), op, ins);
        made.map_err(|error| PageError::Shape { file, error })
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

    fn weight_if_there(&mut self, name: &str) -> Result<Option<ValueId>, PageError> {
        let name = format!("{}{name}", self.prefix);
        Ok(self.weights.find(&name)?.map(|(index, sig)| self.source(&name, index, sig)))
    }

    /// Rows of the embedding table for the batch's tokens.
    pub fn embed(&mut self) -> Made {
        let table = self.weight("token_embd.weight")?;
        self.push("token_embd", Embed { scale: 1.0 }, &[table])
    }

    /// `x · factor`.
    pub fn scale(&mut self, name: &str, x: ValueId, factor: f32) -> Made {
        self.push(name, Elementwise::scale(factor), &[x])
    }

    /// RMS norm of rows, times the weight of that name.
    pub fn norm(&mut self, x: ValueId, name: &str) -> Made {
        self.norm_of(x, name, WHOLE_ROW)
    }

    /// RMS norm of every head, times the weight of that name.
    pub fn head_norm(&mut self, x: ValueId, name: &str) -> Made {
        self.norm_of(x, name, self.config.head_dim)
    }

    fn norm_of(&mut self, x: ValueId, name: &str, dim: usize) -> Made {
        let weight = self.weight(&format!("{name}.weight"))?;
        let norm = RmsNorm { eps: self.config.eps, dim, weight: false, residual: false };
        let normed = self.push(name, norm, &[x])?;
        self.push(name, Elementwise::mul(), &[normed, weight])
    }

    /// `x · Wᵀ`, plus the bias where the file has one.
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

    /// A rotary embedding, with the divisors that the file may bring (`rope_freqs.weight`).
    pub fn rope_table(&mut self, rope: &RopeConfig) -> Result<usize, PageError> {
        let divisors = self.weights.find("rope_freqs.weight")?.map(|(i, _)| self.weights.row(i));
        Ok(self.graph.rope_table(rope.spec(divisors.as_deref())))
    }

    /// Rotates `heads` heads by a rotary table.
    pub fn rope(&mut self, x: ValueId, name: &str, heads: usize, table: usize) -> Made {
        let (dim, neox) = (self.config.head_dim, self.config.neox);
        let pairs = self.graph.ropes[table].inv_freq.len();
        self.push(name, Rope { heads, dim, pairs, neox, table, norm: None }, &[x])
    }

    /// Writes k and v to the layer's cache, then attention over it.
    pub fn attention(&mut self, q: ValueId, k: ValueId, v: ValueId, window: Option<u32>) -> Made {
        let c = self.config;
        let cache = Cache { heads: c.kv_heads, dim: c.head_dim };
        let mut written = [0; 2];
        for ((x, name), out) in [(k, "cache_k"), (v, "cache_v")].into_iter().zip(&mut written) {
            let sig = Sig::state(cache, self.cache_type);
            let index = Source::State(self.states.len());
            let state = self.graph.source(format!("{}{name}", self.prefix), sig.clone(), index);
            self.states.push(sig);
            *out = self.push(name, CacheWrite { pair: false, rope: None }, &[x, state])?;
        }
        let attention = Attention {
            heads: c.heads,
            kv_heads: c.kv_heads,
            dim: c.head_dim,
            scale: c.attention_scale.unwrap_or(1.0 / (c.head_dim as f32).sqrt()),
            window,
            softcap: None,
            q_rope: None,
            write: None,
        };
        self.push("attention", attention, &[q, written[0], written[1]])
    }

    /// The rows whose logits are wanted.
    pub fn logit_rows(&mut self, x: ValueId) -> Made {
        if self.want == Want::AllLogits {
            return Ok(x);
        }
        self.push("logit_rows", GatherRows, &[x])
    }

    /// Logits: times the head, or the embedding table where there is no head of its own.
    pub fn head(&mut self, x: ValueId) -> Made {
        let weight = match self.weight_if_there("output.weight")? {
            Some(weight) => weight,
            None => self.weight("token_embd.weight")?,
        };
        self.push("output", Matmul::plain(), &[x, weight])
    }
}
