//! Layers as the listing of another engine has them: states are read as rows and written back, the window of the convolution
//! is concatenated, norms read strided views of a packed projection, and there are ops on values without rows in between.

use onetrip_core::cases::Rng;
use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::conv::Conv;
use onetrip_core::ops::copy::Copy;
use onetrip_core::ops::delta_net::{DeltaNet, Front};
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::l2_norm::L2Norm;
use onetrip_core::ops::state_read::StateRead;
use onetrip_core::ops::state_write::StateWrite;
use onetrip_core::ops::window::Window;
use onetrip_ir::expr::Expr;
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Sig;
use onetrip_ir::tree::Unary;

use super::{Shape, Writer};

/// One step of a model with a delta net and an attention in the form of a listing: 39 nodes in the first layer, 26 in the
/// other, and 7 before and after them.
pub fn two_layers() -> Graph {
    let mut rng = Rng::new(1);
    let mut w = Writer::new(&mut rng, DType::F16, false);
    let table = w.weight(29, 64);
    let x = w.push(onetrip_core::ops::embed::Embed { scale: 1.0 }, &[table]);
    let shape = Shape { listed: true, gated: true, head_norm: true, ..Shape::plain(2) };
    let x = w.layers(x, &shape, &[true, false]);
    w.finish(x);
    w.g
}

impl Writer<'_> {
    /// The nodes of a listing for sequences whose state moves unchanged: three ops, here on no rows. Returns the next version
    /// of the state.
    fn nothing_of(&mut self, state: ValueId) -> ValueId {
        let width = self.width(state);
        self.weights.push(Sig::slot(Expr::Const(0), width));
        let none = self.g.source("no rows", Sig::slot(Expr::Const(0), width), Source::Weight(self.weights.len() - 1));
        self.push(Elementwise::scale(0.0), &[none]);
        let none = self.push(StateRead { rows: Expr::Const(0) }, &[state]);
        self.push(StateWrite { window: None }, &[none, state])
    }

    /// The mask that all attentions share, with its cast.
    pub(super) fn mask(&mut self) -> ValueId {
        let mask = Sig::slot(Expr::T, 8);
        self.weights.push(mask.clone());
        let mask = self.g.source("mask", mask, Source::Weight(self.weights.len() - 1));
        self.push(Copy { dtype: DType::F32 }, &[mask])
    }

    /// A delta net, from the normed rows to the input of the output projection.
    pub(super) fn listed_delta_net(&mut self, h: ValueId, delta: DeltaNet, taps: usize) -> ValueId {
        let packed = 2 * delta.k_width() + delta.v_width();
        let (conv_state, state) =
            (self.state(Sig::recurrent((taps - 1) * packed)), self.state(Sig::recurrent(delta.state_width())));
        let own = StateRead { rows: Expr::S };
        let old = self.push(own.clone(), &[conv_state]);
        let (conv_state, state) = match self.one_in(2) {
            true => (conv_state, state),
            false => (self.nothing_of(conv_state), self.nothing_of(state)),
        };
        let qkv = self.linear(h, packed, false);
        let window = self.push(Window { rows: taps - 1 }, &[old, qkv]);
        self.push(StateWrite { window: Some(taps - 1) }, &[window, conv_state]);
        let old = self.push(own, &[state]);
        let filter = self.weight(packed, taps);
        let y = self.push(Conv { taps, heads: None }, &[window, filter]);
        let f = if self.one_in(8) { Unary::Tanh } else { Unary::Silu };
        let y = self.push(Elementwise::unary(f), &[y]);
        let [q, k, _] = delta.slices();
        let [q, k] = [q, k].map(|part| self.push(L2Norm { eps: 1e-6, dim: delta.k_dim, view: Some(part) }, &[y]));
        let (g, beta) = self.delta_gates(h, delta.v_heads);
        let (width, v_dim) = (delta.v_width(), delta.v_dim);
        let outs = self.push_all(DeltaNet { front: Front::Packed, ..delta }, &[q, k, y, g, beta, old]);
        self.push(StateWrite { window: None }, &[outs[1], state]);
        let o = self.norm(outs[0], v_dim);
        self.gated_by_z(o, h, width)
    }
}
