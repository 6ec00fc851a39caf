//! Random small graphs: model definitions of random shape, and random mixes of elementwise ops and of projections, in which
//! values are read twice, never, or are outputs of the graph.

use std::sync::Arc;

use onetrip_core::cases::{Rng, random_batch, random_weight};
use onetrip_core::graph::{Graph, Source, ValueId};
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
use onetrip_core::ops::{Op, USUAL_SIZE};
use onetrip_core::reference::{RefState, RefTensor};
use onetrip_ir::batch::{RopeSpec, StepBatch};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::device::WeightData;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::DType;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::{Tree, Unary};

pub mod listed;

/// Tokens in the vocabulary of every random graph.
const VOCABULARY: usize = 13;

/// A graph with its weights, states and batch.
pub struct Case {
    /// The graph as a model definition writes it, before any rule.
    pub graph: Graph,
    /// The weights as the reference takes them.
    pub numbers: Vec<RefTensor>,
    /// The same weights as a device takes them.
    pub weights: Vec<WeightData>,
    /// KV caches and recurrent states with random contents.
    pub states: Vec<RefState>,
    /// The batch of the step.
    pub batch: StepBatch,
}

impl Case {
    /// The case that a seed determines.
    pub fn new(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let bind = random_bind(&mut rng);
        let cache = if rng.below(2) == 0 { DType::F32 } else { DType::F16 };
        let mut w = Writer::new(&mut rng, cache, true);
        let table = w.weight(VOCABULARY, 0);
        let x = w.push(Embed { scale: 1.0 }, &[table]);
        let end = match w.rng.below(4) {
            0 => w.elementwise_soup(x),
            1 => w.projection_soup(x),
            _ => w.page(x),
        };
        w.finish(end);
        let Writer { g: graph, weights: sigs, states, .. } = w;
        let (mut weights, mut numbers): (Vec<WeightData>, Vec<RefTensor>) = Default::default();
        for sig in &sigs {
            let (bytes, data) = random_weight(&mut rng, sig, sig.rows.eval(bind) as usize, USUAL_SIZE);
            weights.push(Arc::new(bytes));
            numbers.push(data);
        }
        let (batch, pages) = random_batch(&mut rng, bind, VOCABULARY as u64, &graph.ropes);
        let states = states.iter().map(|s| filled(&mut rng, s, &batch, pages)).collect();
        Case { graph, numbers, weights, states, batch }
    }

    /// The lowering context of this case's batch for a target.
    pub fn ctx(&self, target: Target) -> LoweringContext {
        let bind = self.batch.bind();
        LoweringContext {
            tokens: RowBucket::of(bind.t as usize),
            seqs: RowBucket::of(bind.s as usize),
            one_each: bind.t == bind.s,
            compute: Compute::F32,
            target,
        }
    }
}

/// The sizes of a batch: one token, one token of each sequence, or a ragged batch, with contexts of one or several pages.
fn random_bind(rng: &mut Rng) -> Bind {
    let s = 1 + rng.below(3);
    let t = match rng.below(4) {
        0 => return Bind { t: 1, s: 1, l: 1 + rng.below(50) },
        1 => s,
        2 => s + rng.below(6),
        _ => s + rng.below(20),
    };
    Bind { t, s, l: t.div_ceil(s) + rng.below(40) }
}

/// A state for a batch, with random contents.
pub(crate) fn filled(rng: &mut Rng, sig: &Sig, batch: &StepBatch, pages: usize) -> RefState {
    // A recurrent state is represented as a cache with a page of one position for each slot.
    let (mut state, pages) = match sig.cache() {
        Some(cache) => (RefState::new(cache, sig.dtype, batch.page_len as usize, pages), pages),
        None => (RefState::recurrent(sig.width, batch.seqs.len() + 1), batch.seqs.len() + 1),
    };
    for page in 0..pages {
        let (heads, page_len) = (state.cache.heads, state.page_len);
        for (head, offset) in (0..heads).flat_map(|h| (0..page_len).map(move |o| (h, o))) {
            state.set(page, head, offset, &rng.normals(state.cache.dim));
        }
    }
    state
}

struct Writer<'r> {
    g: Graph,
    rng: &'r mut Rng,
    weights: Vec<Sig>,
    states: Vec<Sig>,
    cache: DType,
    /// If set, some parts are randomly left out or replaced by others, and values get additional readers.
    surprises: bool,
    /// True if the rows whose logits are wanted have been gathered.
    gathered: bool,
}

/// The optional parts of a model definition's layers.
struct Shape {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    pairs: usize,
    neox: bool,
    bias: bool,
    head_norm: bool,
    sandwich: bool,
    gated: bool,
    window: Option<u32>,
    /// The layers are written as the listing of another engine has them.
    listed: bool,
}

impl Shape {
    fn plain(kv_heads: usize) -> Shape {
        let (bias, head_norm, sandwich, gated, listed) = (false, false, false, false, false);
        let (heads, dim, pairs, neox, window) = (2 * kv_heads, 16, 8, true, None);
        Shape { heads, kv_heads, dim, pairs, neox, bias, head_norm, sandwich, gated, window, listed }
    }
}

impl<'r> Writer<'r> {
    fn new(rng: &'r mut Rng, cache: DType, surprises: bool) -> Writer<'r> {
        let (g, weights, states) = Default::default();
        Writer { g, rng, weights, states, cache, surprises, gathered: false }
    }

    /// Draws whether something unusual is done here.
    fn one_in(&mut self, n: u64) -> bool {
        self.surprises && self.rng.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    /// A weight of random elements; a width of 0 stands for a random width.
    fn weight(&mut self, rows: usize, width: usize) -> ValueId {
        let width = if width == 0 { self.pick(&[16, 32, 48, 64]) } else { width };
        let sig = Sig::weight(rows, width, DType::F32);
        self.weights.push(sig.clone());
        let n = self.weights.len() - 1;
        self.g.source(format!("weight {n}"), sig, Source::Weight(n))
    }

    fn width(&self, v: ValueId) -> usize {
        self.g.values[v].sig.width
    }

    fn push_all(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> Vec<ValueId> {
        let op = op.into();
        let name = format!("{}.{}", op.name(), self.g.nodes.len());
        match self.g.push(name, op, ins) {
            Ok(outs) => outs,
            Err(e) => panic!("the generator made a graph that cannot be: {e}"),
        }
    }

    fn push(&mut self, op: impl Into<Op>, ins: &[ValueId]) -> ValueId {
        let out = self.push_all(op, ins)[0];
        // Now and then a value gets another reader or becomes an output, or a node is added that has no reader.
        if self.surprises && !self.g.values[out].sig.is_state() {
            match self.rng.below(40) {
                0 => self.g.outputs.push(out),
                1 => {
                    let twice = self.g.push("second reader", Elementwise::scale(0.25), &[out]);
                    self.g.outputs.extend(twice.unwrap_or_default());
                }
                2 => {
                    let _ = self.g.push("unread", Elementwise::scale(-1.0), &[out]);
                }
                _ => {}
            }
        }
        out
    }

    /// A norm as model definitions write it: a norm without a weight, then a product with a weight row. Sometimes it is of a
    /// kind that rules must not match.
    fn norm(&mut self, x: ValueId, dim: usize) -> ValueId {
        self.norm_of(x, RmsNorm::plain(1e-5, dim))
    }

    fn norm_of(&mut self, x: ValueId, norm: RmsNorm) -> ValueId {
        let y = self.push(norm.clone(), &[x]);
        let group = norm.group(self.width(y));
        match if self.surprises { self.rng.below(12) } else { 4 } {
            0 => y,
            // The factor is another value instead of a weight row.
            1 if norm.view.is_none() => self.push(Elementwise::mul(), &[y, x]),
            2 => self.push(Elementwise::mul(), &[y, y]),
            // A row as wide as all heads together is not the weight of a norm over each head.
            3 => {
                let w = self.weight(1, self.width(y));
                self.push(Elementwise::mul(), &[w, y])
            }
            n => {
                let w = self.weight(1, group);
                self.push(Elementwise::mul(), &if n % 2 == 0 { [y, w] } else { [w, y] })
            }
        }
    }

    fn linear(&mut self, x: ValueId, rows: usize, bias: bool) -> ValueId {
        let w = self.weight(rows, self.width(x));
        let y = self.push(Matmul::plain(), &[x, w]);
        // Without scaling, elements would grow from layer to layer.
        if !bias {
            return y;
        }
        // A shorter row is repeated within the output, so it is not a bias that an epilogue can add.
        let short = self.one_in(8) && rows.is_multiple_of(2);
        let b = self.weight(1, if short { rows / 2 } else { rows });
        self.push(Elementwise::add(), &[y, b])
    }

    fn unary(&mut self) -> Unary {
        self.pick(&[Unary::Silu, Unary::GeluTanh, Unary::Sigmoid, Unary::Tanh, Unary::Softplus])
    }

    /// A model definition like those of the engine, with every optional part drawn at random.
    fn page(&mut self, x: ValueId) -> ValueId {
        let width = self.width(x);
        let (dim, kv_heads) = (self.pick(&[8, 16, 32]), self.pick(&[1, 2, 3]));
        let shape = Shape {
            heads: kv_heads * self.pick(&[1, 2, 4]),
            kv_heads,
            dim,
            pairs: if self.one_in(3) { dim / 4 } else { dim / 2 },
            neox: self.one_in(2),
            bias: self.one_in(2),
            head_norm: self.one_in(2),
            sandwich: self.one_in(2),
            gated: self.one_in(3),
            window: self.one_in(3).then_some(5),
            listed: self.one_in(2),
        };
        let mut x = x;
        if self.one_in(2) {
            x = self.push(Elementwise::scale((width as f32).sqrt()), &[x]);
        }
        let layers = if self.one_in(2) { 2 } else { 1 };
        let recurrent: Vec<bool> = (0..layers).map(|_| self.one_in(2)).collect();
        self.layers(x, &shape, &recurrent)
    }

    /// Layers, each with a delta net or an attention.
    fn layers(&mut self, mut x: ValueId, shape: &Shape, recurrent: &[bool]) -> ValueId {
        let (width, pairs) = (self.width(x), shape.pairs);
        let inv_freq = (0..pairs).map(|i| 100f32.powf(-(i as f32) / pairs as f32)).collect();
        let table = self.g.rope_table(RopeSpec { inv_freq, factor: 1.0 });
        let mask = shape.listed.then(|| self.mask());
        for (layer, is_recurrent) in recurrent.iter().enumerate() {
            let h = self.norm(x, WHOLE_ROW);
            let o = match is_recurrent {
                true => self.delta_net(h, shape.listed),
                false => self.attention(h, shape, table, mask),
            };
            let mut o = self.linear(o, width, false);
            if shape.listed && layer + 1 == recurrent.len() {
                // The ops that follow work on the gathered rows only.
                (o, x) = (self.push(GatherRows, &[o]), self.push(GatherRows, &[x]));
                self.gathered = true;
            }
            if shape.sandwich {
                o = self.norm(o, WHOLE_ROW);
            }
            let operands = if self.one_in(2) { [o, x] } else { [x, o] };
            x = self.push(Elementwise::add(), &operands);
            let h = self.norm(x, WHOLE_ROW);
            let f = self.feed_forward(h, width);
            let f = if shape.sandwich { self.norm(f, WHOLE_ROW) } else { f };
            x = self.push(Elementwise::add(), &[f, x]);
        }
        x
    }

    /// Attention, from the normed rows to the input of the output projection.
    fn attention(&mut self, h: ValueId, shape: &Shape, table: usize, mask: Option<ValueId>) -> ValueId {
        let Shape { heads, kv_heads, dim, pairs, neox, bias, head_norm, gated, window, listed, .. } = *shape;
        let packed = self.linear(h, heads * dim * if gated { 2 } else { 1 }, bias);
        let softcap = self.one_in(4).then_some(20.0);
        let plain = Attention::plain(heads, kv_heads, dim, 1.0 / (dim as f32).sqrt());
        let attention = Attention { window, softcap, mask: mask.is_some(), ..plain };
        // In a listing the norm reads the queries through a strided view; a model definition copies them first.
        let viewed = gated && listed && head_norm;
        let mut q = if gated && !viewed { self.push(attention.half(0), &[packed]) } else { packed };
        if head_norm {
            let view = viewed.then(|| attention.half(0));
            q = self.norm_of(q, RmsNorm { view, ..RmsNorm::plain(1e-5, dim) });
        }
        let mut k = self.linear(h, kv_heads * dim, bias);
        let v = self.linear(h, kv_heads * dim, bias);
        if head_norm {
            k = self.norm(k, dim);
        }
        // Now and then the gate has another function, or the two halves are swapped.
        let start = if self.one_in(8) { 0 } else { dim };
        let gate = gated.then(|| self.push(attention.half(start), &[packed]));
        let rope = |heads| Rope { heads, dim, pairs, neox, table, norm: None, view: None };
        if !self.one_in(6) {
            q = self.push(rope(heads), &[q]);
        }
        if !self.one_in(6) {
            k = self.push(rope(kv_heads), &[k]);
        }
        let states = [0, 1].map(|_| self.state(Sig::state(Cache { heads: kv_heads, dim }, self.cache)));
        let write = CacheWrite { pair: false, rope: None };
        let ks = self.push(write.clone(), &[k, states[0]]);
        let vs = self.push(write, &[v, states[1]]);
        let operands = |q| [q].into_iter().chain(mask).chain([ks, vs]).collect::<Vec<_>>();
        let a = self.push(attention.clone(), &operands(q));
        if self.one_in(8) {
            // A second attention over the cache versions that the first one's writes made.
            let b = self.push(attention, &operands(a));
            self.g.outputs.push(b);
        }
        let Some(gate) = gate else { return a };
        let f = if self.one_in(8) { Unary::Tanh } else { Unary::Sigmoid };
        let gate = self.push(Elementwise::unary(f), &[gate]);
        let operands = if self.one_in(2) { [a, gate] } else { [gate, a] };
        self.push(Elementwise::mul(), &operands)
    }

    fn state(&mut self, sig: Sig) -> ValueId {
        self.states.push(sig.clone());
        let n = self.states.len() - 1;
        self.g.source(format!("state {n}"), sig, Source::State(n))
    }

    /// A gated delta net as its model definition writes it; now and then parts are left out or replaced.
    fn delta_net(&mut self, h: ValueId, listed: bool) -> ValueId {
        let (k_heads, k_dim, v_dim) = (self.pick(&[1, 2]), self.pick(&[8, 16]), self.pick(&[8, 12]));
        let v_heads = k_heads * self.pick(&[1, 2]);
        let scale = 1.0 / (k_dim as f32).sqrt();
        let delta = DeltaNet { k_heads, v_heads, k_dim, v_dim, scale, front: Front::Separate, norm: None };
        let taps = self.pick(&[2, 4]);
        if listed {
            return self.listed_delta_net(h, delta, taps);
        }
        let packed = 2 * delta.k_width() + delta.v_width();
        let mut qkv = self.linear(h, packed, false);
        let filter = self.weight(packed, taps);
        let state = self.state(Sig::recurrent((taps - 1) * packed));
        qkv = self.push(Conv { taps, heads: None }, &[qkv, filter, state]);
        if !self.one_in(8) {
            let f = if self.one_in(8) { Unary::Tanh } else { Unary::Silu };
            qkv = self.push(Elementwise::unary(f), &[qkv]);
        }
        let mut parts = delta.slices().map(|slice| self.push(slice, &[qkv]));
        for part in &mut parts[..2] {
            let eps = if self.one_in(8) { 1e-3 } else { 1e-6 };
            *part = self.push(L2Norm { eps, dim: k_dim, view: None }, &[*part]);
        }
        let (g, beta) = self.delta_gates(h, v_heads);
        let state = self.state(Sig::recurrent(delta.state_width()));
        let width = delta.v_width();
        let o = self.push(delta, &[parts[0], parts[1], parts[2], g, beta, state]);
        let o = self.norm(o, v_dim);
        self.gated_by_z(o, h, width)
    }

    /// The logarithm of the decay, and beta.
    fn delta_gates(&mut self, h: ValueId, v_heads: usize) -> (ValueId, ValueId) {
        let mut g = self.linear(h, v_heads, true);
        g = self.push(Elementwise::unary(Unary::Softplus), &[g]);
        if self.surprises {
            // Decays are small, so that the state does not grow without bound.
            g = self.push(Elementwise::scale(-0.5), &[g]);
            if self.one_in(2) {
                let row = self.weight(1, v_heads);
                let tree = Tree::product(Tree::In(0), Tree::unary(Unary::Sigmoid, Tree::In(1)));
                g = self.push(Elementwise { tree }, &[g, row]);
            }
        } else {
            let row = self.weight(1, v_heads);
            g = self.push(Elementwise::mul(), &[g, row]);
        }
        let beta = self.linear(h, v_heads, false);
        (g, self.push(Elementwise::unary(Unary::Sigmoid), &[beta]))
    }

    /// A value times the SiLU of a projection; now and then with another function.
    fn gated_by_z(&mut self, o: ValueId, h: ValueId, width: usize) -> ValueId {
        let z = self.linear(h, width, false);
        let f = if self.one_in(8) { Unary::Sigmoid } else { Unary::Silu };
        let z = self.push(Elementwise::unary(f), &[z]);
        let operands = if self.one_in(2) { [o, z] } else { [z, o] };
        self.push(Elementwise::mul(), &operands)
    }

    fn feed_forward(&mut self, h: ValueId, width: usize) -> ValueId {
        let wide = self.pick(&[24, 40, 96]);
        let gate = self.linear(h, wide, false);
        let up = self.linear(h, wide, false);
        let f = if self.surprises { self.unary() } else { Unary::Silu };
        let act = self.push(Elementwise::glu(f), &[gate, up]);
        // The gate has another reader, so that no rule may fuse it away.
        if self.one_in(8) {
            self.g.outputs.push(gate);
        }
        self.linear(act, width, false)
    }

    /// Matmuls with shared and separate inputs, biases, gates and residuals in random order.
    fn projection_soup(&mut self, x: ValueId) -> ValueId {
        let mut pool = vec![x];
        for _ in 0..3 + self.rng.below(6) {
            let x = self.pick(&pool);
            let made = match self.rng.below(6) {
                0 => self.norm(x, WHOLE_ROW),
                1 => {
                    let wide = self.width(x);
                    let y = self.linear(x, wide, false);
                    // y + y, or y + x: a residual that is the product itself or the input.
                    let other = if self.one_in(3) { y } else { x };
                    self.push(Elementwise::add(), &[y, other])
                }
                2 => {
                    let width = self.width(x);
                    let h = self.norm(x, WHOLE_ROW);
                    self.feed_forward(h, width)
                }
                3 => {
                    let (rows, bias) = (self.pick(&[16, 32, 48]), self.one_in(2));
                    self.linear(x, rows, bias)
                }
                _ => {
                    let (rows, tree) = (self.pick(&[16, 32]), self.random_tree(2));
                    let (a, b) = (self.linear(x, rows, false), self.linear(x, rows, false));
                    self.push(Elementwise { tree }, &[a, b])
                }
            };
            pool.push(self.calmed(made));
        }
        pool[pool.len() - 1]
    }

    /// A value whose elements are of moderate magnitude: products of products would grow without bound.
    fn calmed(&mut self, x: ValueId) -> ValueId {
        if self.one_in(2) { x } else { self.push(Elementwise::unary(Unary::Tanh), &[x]) }
    }

    fn random_tree(&mut self, operands: u64) -> Tree {
        let (a, b) = (Tree::In(0), Tree::In(operands as usize - 1));
        let f = self.unary();
        match self.rng.below(6) {
            0 => Tree::sum(a, b),
            1 => Tree::product(a, b),
            2 => Tree::product(Tree::unary(f, a), b),
            3 => Tree::sum(Tree::product(a, Tree::Const(0.5)), Tree::unary(f, b)),
            4 => Tree::product(a, Tree::product(b, Tree::Const(-0.75))),
            _ => Tree::unary(f, Tree::sum(a, b)),
        }
    }

    /// Elementwise ops on each other's results, on weight rows, and on narrower rows that are repeated.
    fn elementwise_soup(&mut self, x: ValueId) -> ValueId {
        let mut pool = vec![x];
        let narrow = self.width(x) / 2;
        let half = self.linear(x, narrow, false);
        pool.push(half);
        for _ in 0..3 + self.rng.below(8) {
            let a = self.pick(&pool);
            let made = match self.rng.below(5) {
                0 => {
                    let f = self.unary();
                    self.push(Elementwise::unary(f), &[a])
                }
                1 => {
                    let w = self.weight(1, self.width(a));
                    let op = if self.one_in(2) { Elementwise::mul() } else { Elementwise::add() };
                    self.push(op, &[a, w])
                }
                2 => self.push(Elementwise::scale(0.5), &[a]),
                _ => {
                    let (b, tree) = (self.pick(&pool), self.random_tree(2));
                    self.push(Elementwise { tree }, &[a, b])
                }
            };
            pool.push(self.calmed(made));
        }
        pool[pool.len() - 1]
    }

    /// Ends the graph with a gather of the sequences' rows, a norm and a head, or with the value itself.
    fn finish(&mut self, x: ValueId) {
        let mut x = x;
        if !self.one_in(4) {
            if !self.gathered {
                x = self.push(GatherRows, &[x]);
            }
            x = self.norm(x, WHOLE_ROW);
            x = self.linear(x, 29, false);
        }
        if !self.g.outputs.contains(&x) {
            self.g.outputs.push(x);
        }
    }
}
