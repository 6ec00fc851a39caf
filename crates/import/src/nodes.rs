//! Turns the lines of a listing into a graph of onetrip's ops. One node of the listing becomes one node of the graph. A view
//! becomes no node: an op that reads a view reads those columns of the viewed value in place. The shape of every result is
//! compared with the shape in the listing.

use std::collections::HashMap;

use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::Op;
use onetrip_core::ops::attention::{Attention, Gate};
use onetrip_core::ops::cache_write::CacheWrite;
use onetrip_core::ops::conv::Conv;
use onetrip_core::ops::copy::Copy;
use onetrip_core::ops::delta_net::{DeltaNet, Front};
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::embed::Embed;
use onetrip_core::ops::gather_rows::GatherRows;
use onetrip_core::ops::l2_norm::L2Norm;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rms_norm::RmsNorm;
use onetrip_core::ops::rope::Rope;
use onetrip_core::ops::state_read::StateRead;
use onetrip_core::ops::state_write::StateWrite;
use onetrip_core::ops::window::Window;
use onetrip_ir::expr::{Bind, Expr};
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::Unary;

use onetrip_ir::text::shown;

use crate::parse::{Head, Item, Kind, Type};
use onetrip_core::ops::rope::frequencies::{RopeConfig, Scaling};

/// Number of a line, and its error.
type Fault = (usize, String);

/// The form that a value of the listing has in the graph.
#[derive(Clone, Debug)]
enum Held {
    /// Ids, positions or the mask: they are in the batch, and ops do not read them as values of the graph.
    Batch,
    /// One value of the graph.
    One(ValueId),
    /// Several values of the graph, one behind the other, each with the byte at which it begins in the value of the listing.
    Pieces(Vec<(u64, ValueId)>),
    /// A state, by index; its newest version is meant.
    State(usize),
}

/// Makes the graph of a listing.
pub fn graph(head: &Head, items: &[Item]) -> Result<Graph, Fault> {
    let bind = Bind { t: head.tokens, s: head.sequences, l: head.context };
    let caches = caches(items)?;
    let mut i = Importer { items, bind, graph: Graph::default(), held: vec![], versions: vec![], caches, weights: 0 };
    for item in items {
        let held = i.item(item).map_err(|what| (item.line, what))?;
        i.held.push(held);
    }
    let last = items.iter().rposition(|item| matches!(item.kind, Kind::Node(_))).unwrap_or(0);
    match (&items[last].kind, &i.held[last]) {
        (Kind::Node("MUL_MAT"), Held::One(logits)) => i.graph.outputs = vec![*logits],
        _ => return Err((items[last].line, "the last node is no MUL_MAT: a listing ends with the logits".into())),
    }
    i.graph.check_order().map_err(|what| (items[last].line, what))?;
    Ok(i.graph)
}

/// Index of the value behind a view, or behind a view of a view.
fn root(items: &[Item], mut i: usize) -> usize {
    while let Kind::View { .. } = items[i].kind {
        i = items[i].ins[0];
    }
    i
}

/// Shapes of the states that attention reads (KV caches), by index of the item; all other states are recurrent.
fn caches(items: &[Item]) -> Result<HashMap<usize, Cache>, Fault> {
    let mut caches = HashMap::new();
    for item in items.iter().filter(|item| item.kind == Kind::Node("FLASH_ATTN_EXT")) {
        for &i in &item.ins[1..3] {
            let (state, dim) = (root(items, i), items[i].dims[0]);
            let width = items[state].dims[0];
            if items[state].kind != Kind::State || dim == 0 || !width.is_multiple_of(dim) {
                let what = format!(
                    "{} {} is no view of a cache: keys and values are read from a `state`",
                    items[i].name,
                    items[i].shape()
                );
                return Err((item.line, what));
            }
            caches.insert(state, Cache { heads: (width / dim) as usize, dim: dim as usize });
        }
    }
    Ok(caches)
}

struct Importer<'a> {
    items: &'a [Item],
    bind: Bind,
    graph: Graph,
    /// The form in the graph of each item that was imported so far.
    held: Vec<Held>,
    /// The value of the newest version of each state.
    versions: Vec<ValueId>,
    caches: HashMap<usize, Cache>,
    weights: usize,
}

impl Importer<'_> {
    fn item(&mut self, item: &Item) -> Result<Held, String> {
        let rows_width = |dims: &[u64]| (dims[1..].iter().product::<u64>() as usize, dims[0] as usize);
        match (&item.kind, item.dtype) {
            (Kind::Input, Type::Whole) => Ok(Held::Batch),
            (Kind::Input, Type::Real(dtype)) => {
                if !item.numbers().is_multiple_of(self.bind.t) {
                    return Err(format!("{} has not as many numbers for each of {} tokens", item.shape(), self.bind.t));
                }
                let sig = Sig { dtype, ..Sig::slot(Expr::T, (item.numbers() / self.bind.t) as usize) };
                Ok(Held::One(self.graph.source(&item.name, sig, Source::Batch)))
            }
            (Kind::Weight, Type::Real(dtype)) => {
                let (rows, width) = rows_width(&item.dims);
                if item.numbers() == 0 || item.dims.len() > 2 {
                    return Err(format!("a weight {}: it has one or two dimensions, and numbers", item.shape()));
                }
                self.weights += 1;
                let source = Source::Weight(self.weights - 1);
                Ok(Held::One(self.graph.source(&item.name, Sig::weight(rows, width, dtype), source)))
            }
            (Kind::State, Type::Real(dtype)) => {
                let at = self.held.len();
                let sig = match self.caches.get(&at) {
                    Some(cache) => Sig::state(*cache, dtype),
                    None if dtype == DType::F32 => Sig::recurrent(item.dims[0] as usize),
                    None => return Err(format!("a recurrent state {}: it is kept in f32", item.shape())),
                };
                let state = self.versions.len();
                self.versions.push(self.graph.source(&item.name, sig, Source::State(state)));
                Ok(Held::State(state))
            }
            // A view has no value of its own; the op that reads it resolves it (see `seen`).
            (Kind::View { .. }, _) => Ok(Held::Batch),
            (Kind::Node(op), _) => self.node(item, op),
            (_, Type::Whole) => Err("weights and states are not of whole numbers".into()),
        }
    }

    /// Resolves item `i` as an input: the value of the graph behind it, and the slice of each row if it is not the whole value.
    fn seen(&self, i: usize) -> Result<(ValueId, Option<Slice>), String> {
        let (item, root) = (&self.items[i], root(self.items, i));
        let (mut start, mut at) = (0u64, i);
        while let Kind::View { offset, .. } = &self.items[at].kind {
            start += offset;
            at = self.items[at].ins[0];
        }
        let (name, of) = (&item.name, &self.items[root].name);
        let (id, start) = match &self.held[root] {
            Held::One(id) => (*id, start),
            Held::State(state) => (self.versions[*state], start),
            Held::Batch => {
                return Err(format!("`{of}` is of the batch: no op but a gather, a rotation or attention reads it"));
            }
            Held::Pieces(pieces) => {
                let piece = pieces.iter().rev().find(|(from, _)| *from <= start);
                piece.map(|(from, id)| (*id, start - from)).ok_or_else(|| format!("`{name}` is no part of `{of}`"))?
            }
        };
        let sig = &self.graph.values[id].sig;
        if sig.is_state() || i == root {
            return Ok((id, None));
        }
        let (rows, width) = (sig.rows.eval(self.bind), sig.width as u64);
        if start == 0 && item.numbers() == rows * width {
            return Ok((id, None));
        }
        let slice = slice_of(item, start / 4, rows, width).filter(|_| sig.dtype == DType::F32 && start % 4 == 0);
        let slice = slice.ok_or_else(|| {
            format!("`{name}` {} is neither the whole of `{of}` nor the same columns of each of its rows", item.shape())
        })?;
        Ok((id, Some(slice)))
    }

    /// The value of an input that the op can only read as a whole.
    fn whole(&self, item: &Item, input: usize) -> Result<ValueId, String> {
        let i = item.ins[input];
        match self.seen(i)? {
            (id, None) => Ok(id),
            (_, Some(_)) => {
                let (name, of) = (&self.items[i].name, &self.items[root(self.items, i)].name);
                Err(format!("`{name}` is a part of `{of}`: this op reads whole values only; make it a CONT first"))
            }
        }
    }

    /// Index of the state that an input is, or is a view of.
    fn state(&self, item: &Item, input: usize) -> Option<usize> {
        match self.held[root(self.items, *item.ins.get(input)?)] {
            Held::State(state) => Some(state),
            _ => None,
        }
    }

    fn node(&mut self, item: &Item, op: &'static str) -> Result<Held, String> {
        let number = |key: &str| -> Result<f32, String> {
            let text = item.param(key).unwrap_or("");
            let found = text.parse::<f32>().ok().filter(|x| x.is_finite());
            found.ok_or_else(|| format!("{key}={} is no number", shown(text)))
        };
        let dim = item.dims[0] as usize;
        let rows = item.dims[1..].iter().product::<u64>();
        let (op, ins): (Op, Vec<ValueId>) = match op {
            "ADD" => (Elementwise::add().into(), vec![self.whole(item, 0)?, self.whole(item, 1)?]),
            "MUL" => (Elementwise::mul().into(), vec![self.whole(item, 0)?, self.whole(item, 1)?]),
            "SCALE" => match self.state(item, 0) {
                // This node clears the states of sequences that begin; in this step there are none.
                Some(state) if item.numbers() == 0 => {
                    let none = Sig::slot(Expr::Const(0), self.graph.values[self.versions[state]].sig.width);
                    let none = self.graph.source(&self.items[item.ins[0]].name, none, Source::Batch);
                    (Elementwise::scale(number("by")?).into(), vec![none])
                }
                Some(_) => {
                    return Err(
                        "a state is scaled in place: such a step cannot be read; record one where none begins".into()
                    );
                }
                None => (Elementwise::scale(number("by")?).into(), vec![self.whole(item, 0)?]),
            },
            "UNARY" => {
                let f = unary(item, &["silu", "sigmoid", "softplus", "tanh", "gelu"])?;
                (Elementwise::unary(f).into(), vec![self.whole(item, 0)?])
            }
            "GLU" => {
                let f = unary(item, &["swiglu", "geglu"])?;
                (Elementwise::glu(f).into(), vec![self.whole(item, 0)?, self.whole(item, 1)?])
            }
            "MUL_MAT" => {
                let (weight, x) = (self.whole(item, 0)?, self.whole(item, 1)?);
                if !self.graph.values[weight].sig.is_weight() {
                    let name = &self.items[item.ins[0]].name;
                    let what = "products of two activations are not known: record with flash attention on";
                    return Err(format!("`{name}` is no weight; {what}"));
                }
                (Matmul::plain().into(), vec![x, weight])
            }
            "RMS_NORM" => {
                let (x, view) = self.seen(item.ins[0])?;
                (RmsNorm { view, ..RmsNorm::plain(number("eps")?, dim) }.into(), vec![x])
            }
            "L2_NORM" => {
                let (x, view) = self.seen(item.ins[0])?;
                (L2Norm { eps: number("eps")?, dim, view }.into(), vec![x])
            }
            "ROPE" => self.rope(item, number("base")?, item.param("scale").map(|_| number("scale")).transpose()?)?,
            "CONT" => match self.seen(item.ins[0])? {
                (x, Some(slice)) => (slice.into(), vec![x]),
                (x, None) => (Copy { dtype: DType::F32 }.into(), vec![x]),
            },
            "GET_ROWS" => match (self.state(item, 0), item.numbers()) {
                (Some(state), 0) => (StateRead { rows: Expr::Const(0) }.into(), vec![self.versions[state]]),
                (Some(state), _) => (StateRead { rows: Expr::S }.into(), vec![self.versions[state]]),
                (None, _) => {
                    let x = self.whole(item, 0)?;
                    let is_table = self.graph.values[x].sig.is_weight();
                    (if is_table { Embed { scale: 1.0 }.into() } else { GatherRows.into() }, vec![x])
                }
            },
            "CPY" => match self.state(item, 1) {
                Some(state) => return self.state_write(item, state),
                None => self.copy(item)?,
            },
            "CONCAT" => {
                if item.param("dim") != Some("0") {
                    return Err("values are joined along dim=0 only: the window of a convolution".into());
                }
                let rows = self.items[item.ins[0]].dims[0] as usize;
                (Window { rows }.into(), vec![self.whole(item, 0)?, self.whole(item, 1)?])
            }
            "SSM_CONV" => {
                let (x, w) = (self.whole(item, 0)?, self.whole(item, 1)?);
                (Conv { taps: self.graph.values[w].sig.width, heads: None }.into(), vec![x, w])
            }
            "GATED_DELTA_NET" => return self.delta_net(item),
            "SET_ROWS" => {
                let Some(state) = self.state(item, 2) else {
                    return Err(format!("`{}` is no state: SET_ROWS writes to one", self.items[item.ins[2]].name));
                };
                let x = self.whole(item, 0)?;
                let made = self.push(item, CacheWrite { pair: false, rope: None }, &[x, self.versions[state]])?;
                self.versions[state] = made[0];
                return Ok(Held::State(state));
            }
            _ => self.attention(item, number("scale")?)?,
        };
        let made = self.push(item, op, &ins)?;
        let sig = &self.graph.values[made[0]].sig;
        let (have, want) = (sig.rows.eval(self.bind).saturating_mul(sig.width as u64), item.numbers());
        let is_row =
            rows == 0 || sig.width.is_multiple_of(dim.max(1)) || dim == 0 || dim.is_multiple_of(sig.width.max(1));
        if have != want || !is_row {
            let rows = sig.rows.eval(self.bind);
            return Err(format!(
                "shapes disagree: its inputs make {rows} rows of {}, the line says {}",
                sig.width,
                item.shape()
            ));
        }
        Ok(Held::One(made[0]))
    }

    fn push(&mut self, item: &Item, op: impl Into<Op>, ins: &[ValueId]) -> Result<Vec<ValueId>, String> {
        self.graph.push(&item.name, op, ins).map_err(|e| format!("shapes disagree: {e}"))
    }

    fn rope(&mut self, item: &Item, base: f32, scale: Option<f32>) -> Result<(Op, Vec<ValueId>), String> {
        let (x, view) = self.seen(item.ins[0])?;
        let neox = match item.param("mode") {
            Some("neox") => true,
            Some("normal") => false,
            other => {
                return Err(format!("mode={}: it is `neox` or `normal`", shown(other.unwrap_or(""))));
            }
        };
        let (dim, rows) = (item.dims[0] as usize, item.dims[1..].iter().product::<u64>());
        let rotated =
            item.param("dims").and_then(|d| d.parse::<usize>().ok()).filter(|d| *d > 0 && *d <= dim && d % 2 == 0);
        let Some(rotated) = rotated else { return Err(format!("dims is an even number up to {dim}")) };
        if base <= 0.0 || scale.is_some_and(|s| s <= 0.0) || rows % self.bind.t != 0 {
            return Err(format!("a base or scale that is not positive, or {rows} heads of {} tokens", self.bind.t));
        }
        let scaling = scale.filter(|s| *s != 1.0).map_or(Scaling::None, |s| Scaling::Linear { factor: 1.0 / s });
        let table = self.graph.rope_table(RopeConfig { base, dim: rotated, scaling, attention: 1.0 }.spec(None));
        let heads = (rows / self.bind.t) as usize;
        Ok((Rope { heads, dim, pairs: rotated / 2, neox, table, norm: None, view }.into(), vec![x]))
    }

    /// A copy or a cast whose result is not written to a state.
    fn copy(&mut self, item: &Item) -> Result<(Op, Vec<ValueId>), String> {
        let Type::Real(dtype) = item.dtype else { return Err("ids are not copied".into()) };
        Ok((Copy { dtype }.into(), vec![self.whole(item, 0)?]))
    }

    fn state_write(&mut self, item: &Item, state: usize) -> Result<Held, String> {
        let (i, version) = (item.ins[0], self.versions[state]);
        let value = match &self.held[root(self.items, i)] {
            Held::One(id) => *id,
            _ => self.whole(item, 0)?,
        };
        let (of, to) = (&self.graph.values[value].sig, &self.graph.values[version].sig);
        // The newest rows of the window of a convolution, transposed, are written back to its state.
        let made_by = self.graph.producer(value).map(|n| &self.graph.nodes[n].op);
        let window = match made_by {
            Some(Op::Window(w)) if of.rows != Expr::S => Some(w.rows),
            _ => None,
        };
        let want = if item.numbers() == 0 { 0 } else { to.width as u64 * self.bind.s };
        if item.numbers() != want || self.items[item.ins[1]].numbers() != want || self.items[i].numbers() != want {
            let (value, state) = (self.items[i].shape(), self.items[item.ins[1]].shape());
            return Err(format!("shapes disagree: {value} into {state}, the line says {}", item.shape()));
        }
        if window.is_none() {
            self.whole(item, 0)?;
        }
        let made = self.push(item, StateWrite { window }, &[value, version])?;
        self.versions[state] = made[0];
        Ok(Held::State(state))
    }

    fn delta_net(&mut self, item: &Item) -> Result<Held, String> {
        let shape = |input: usize| {
            let dims = &self.items[item.ins[input]].dims;
            (dims[0] as usize, dims.get(1).copied().unwrap_or(1) as usize)
        };
        let ((k_dim, k_heads), (v_dim, v_heads)) = (shape(0), shape(2));
        let scale = 1.0 / (k_dim.max(1) as f32).sqrt();
        let mut op = DeltaNet { k_heads, v_heads, k_dim, v_dim, scale, front: Front::Separate, norm: None };
        let (v, view) = self.seen(item.ins[2])?;
        match view {
            Some(view) if view == op.slices()[2] => op.front = Front::Packed,
            Some(_) => {
                return Err("values are read whole, or from behind the queries and keys of a packed projection".into());
            }
            None => {}
        }
        let ins = [self.whole(item, 0)?, self.whole(item, 1)?, v];
        let rest = (3..6).map(|i| self.whole(item, i)).collect::<Result<Vec<ValueId>, String>>()?;
        let made = self.push(item, op, &[&ins[..], &rest].concat())?;
        // The result in ggml holds the output, followed by the new states.
        let numbers = |v: ValueId| {
            let sig = &self.graph.values[v].sig;
            sig.rows.eval(self.bind).saturating_mul(sig.width as u64)
        };
        let (o, state) = (numbers(made[0]), numbers(made[1]));
        if o.saturating_add(state) != item.numbers() {
            return Err(format!(
                "shapes disagree: its inputs make {o} numbers and {state} of states, the line says {}",
                item.shape()
            ));
        }
        Ok(Held::Pieces(vec![(0, made[0]), (4 * o, made[1])]))
    }

    fn attention(&mut self, item: &Item, scale: f32) -> Result<(Op, Vec<ValueId>), String> {
        let q = self.whole(item, 0)?;
        let (k, v) = match (self.state(item, 1), self.state(item, 2)) {
            (Some(k), Some(v)) => (k, v),
            _ => return Err("keys and values are read from a `state`".into()),
        };
        let cache = self.graph.values[self.versions[k]].sig.cache();
        let Some(Cache { heads: kv_heads, dim }) = cache else { return Err("keys are read from a cache".into()) };
        let heads = self.graph.values[q].sig.width / dim.max(1);
        let number = |key: &str| {
            let text = item.param(key);
            text.map(|t| t.parse::<f32>().map_err(|_| format!("{key}={} is no number", shown(t)))).transpose()
        };
        let (window, softcap) = (number("window")?.map(|w| w as u32), number("softcap")?);
        let mask = (item.ins.len() > 3).then(|| self.whole(item, 3)).transpose()?;
        let op = Attention {
            heads,
            kv_heads,
            dim,
            scale,
            window,
            softcap,
            gate: Gate::None,
            q_rope: None,
            write: None,
            mask: mask.is_some(),
        };
        Ok((op.into(), [q].into_iter().chain(mask).chain([self.versions[k], self.versions[v]]).collect()))
    }
}

/// The function that the parameter `op` names; it must be one of `names`.
fn unary(item: &Item, names: &[&str]) -> Result<Unary, String> {
    let asked = item.param("op").unwrap_or("");
    match names.iter().find(|name| **name == asked).copied() {
        Some("silu" | "swiglu") => Ok(Unary::Silu),
        Some("gelu" | "geglu") => Ok(Unary::GeluTanh),
        Some("sigmoid") => Ok(Unary::Sigmoid),
        Some("softplus") => Ok(Unary::Softplus),
        Some("tanh") => Ok(Unary::Tanh),
        _ => Err(format!("op={} is not known: it is one of {}", shown(asked), names.join(", "))),
    }
}

/// The slice that a view is of each row of a value with `rows` rows of `width` f32 elements, where the view begins at element
/// `start`; `None` if the view is not the same columns of every row.
fn slice_of(view: &Item, start: u64, rows: u64, width: u64) -> Option<Slice> {
    let Kind::View { strides, .. } = &view.kind else { return None };
    let plain: Vec<u64> = (0..view.dims.len()).map(|i| 4 * view.dims[..i].iter().product::<u64>()).collect();
    let strides = strides.as_ref().unwrap_or(&plain);
    // `run`: adjacent elements; `group`: the distance from one run to the next.
    let (mut run, mut group, mut all) = (1, None, 1);
    for (&n, &stride) in view.dims.iter().zip(strides).filter(|(n, _)| **n != 1) {
        if stride % 4 != 0 {
            return None;
        }
        match group {
            None if stride / 4 == run => run *= n,
            None => (group, all) = (Some(stride / 4), n),
            Some(group) if stride / 4 == group * all => all *= n,
            Some(_) => return None,
        }
    }
    let group = group.unwrap_or(width);
    let fits = group > 0 && width.is_multiple_of(group) && start + run <= group && all * group == rows * width;
    fits.then_some(Slice { group: group as usize, start: start as usize, len: run as usize })
}
