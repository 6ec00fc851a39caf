//! The gated delta rule: a linear attention whose state is one matrix per value head, and which every token corrects.
//!
//! For each value head with its state `S [k_dim, v_dim]`, token by token:
//! `S ← exp(g) S`, `d = beta (v - Sᵀk)`, `S ← S + k dᵀ`, `o = scale · Sᵀq`. Value head h reads query and key head
//! `h mod k_heads` (the order of value heads in GGUF files; Hugging Face groups them, and converters reorder).
//!
//! Inputs in order: q and k `[T, k_heads·k_dim]`; v `[T, v_heads·v_dim]`; g (the logarithm of the decay) and beta
//! `[T, v_heads]`; with a gated norm, its weight `[1, v_dim]` and the gate z (shape of v), by whose SiLU the normalized
//! output is multiplied; the state. Outputs: o (shape of v) and the state. The state is kept in place, or is a value
//! `[S, v_heads·k_dim·v_dim]`, of which the op makes a new one.
//! v may be the last columns of a packed projection `[q, k, v]`: then the third input is the packed projection, and v is
//! not copied out of it. With a convolution, the first two inputs are the packed projection before the convolution and the
//! filter, in place of q, k and v; the state of the convolution comes before the other state, and both are outputs.
//! Source: Gated Delta Networks (Yang et al., 2024), eq. 10; in chunks: section 3.3.

use super::*;
use crate::ops::conv::{Conv, Heads};
use crate::ops::rms_norm::{RmsNorm, With};
use crate::reference::{Part, Parts, RefValue};
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Role;
use onetrip_ir::tensor::Slice;

mod cpu;
mod cuda;
mod wgsl;

/// The candidates of its GPU kernels.
pub(super) fn candidates() -> Vec<Described> {
    cuda::select::described()
}

/// Where q, k and v come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Front {
    /// q, k and v are three inputs.
    Separate,
    /// q and k are inputs; v is the last columns of a third input, a packed projection `[q, k, v]`.
    Packed,
    /// The op starts from the packed projection and applies a causal convolution, SiLU, and the L2 norm of every query and key
    /// head itself.
    Conv {
        /// Inputs that the convolution sees.
        taps: usize,
        /// Epsilon of the L2 norms.
        eps: f32,
    },
}

/// The gated delta rule.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaNet {
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads, each with a state of its own.
    pub v_heads: usize,
    /// Elements in a query or key head.
    pub k_dim: usize,
    /// Elements in a value head.
    pub v_dim: usize,
    /// Factor on queries.
    pub scale: f32,
    /// Where q, k and v come from.
    pub front: Front,
    /// Norms each head of the output with this epsilon and a weight, and multiplies it by the SiLU of a gate.
    pub norm: Option<f32>,
}

/// The index of each input: `g` (beta follows it), `norm` (the norm's weight; the gate follows it), the states, and the count
/// of all inputs.
pub(crate) struct Operands {
    pub g: usize,
    pub norm: usize,
    pub conv_state: usize,
    pub state: usize,
    pub count: usize,
}

impl DeltaNet {
    pub(crate) fn operands(&self) -> Operands {
        let has_conv = matches!(self.front, Front::Conv { .. });
        let g = if has_conv { 2 } else { 3 };
        let norm = g + 2;
        let conv_state = norm + if self.norm.is_some() { 2 } else { 0 };
        let state = conv_state + has_conv as usize;
        Operands { g, norm, conv_state, state, count: state + 1 }
    }

    /// Elements in a row of queries or keys.
    pub fn k_width(&self) -> usize {
        self.k_heads * self.k_dim
    }

    /// Elements in a row of values.
    pub fn v_width(&self) -> usize {
        self.v_heads * self.v_dim
    }

    /// Elements in a sequence's state.
    pub fn state_width(&self) -> usize {
        self.v_width() * self.k_dim
    }

    /// How a convolution of the packed projection splits its rows into q, k and v for this op.
    pub fn heads(&self, eps: f32) -> Heads {
        Heads { keys: self.k_width(), values: self.v_width(), dim: self.k_dim, eps }
    }

    /// The columns of q, k and v in a packed projection.
    pub fn slices(&self) -> [Slice; 3] {
        self.heads(0.0).slices()
    }
}

impl OpDef for DeltaNet {
    const NAME: &'static str = "delta_net";

    fn ggml(&self) -> &'static str {
        "GATED_DELTA_NET"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let o = self.operands();
        want_inputs(Self::NAME, ins, o.count)?;
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        let (k, v) = (self.k_width(), self.v_width());
        if self.k_heads == 0 || !self.v_heads.is_multiple_of(self.k_heads) || self.k_dim == 0 || self.v_dim == 0 {
            let what = format!("{} value heads do not divide among {} key heads", self.v_heads, self.k_heads);
            return fail(format!("{what} (of {} and {} numbers)", self.v_dim, self.k_dim));
        }
        let mut wanted = match &self.front {
            Front::Conv { taps, .. } => {
                Conv { taps: *taps, heads: None }.check(&ins[0], &ins[1], Some(&ins[o.conv_state]))?;
                vec![(0, 2 * k + v, "query, key and value")]
            }
            Front::Packed => vec![(0, k, "query"), (1, k, "key"), (2, 2 * k + v, "query, key and value")],
            Front::Separate => vec![(0, k, "query"), (1, k, "key"), (2, v, "value")],
        };
        wanted.extend([(o.g, self.v_heads, "decay"), (o.g + 1, self.v_heads, "beta")]);
        if self.norm.is_some() {
            wanted.push((o.norm + 1, v, "gate"));
            if ins[o.norm].width != self.v_dim || ins[o.norm].rows.constant() != Some(1) {
                return fail(format!("a norm weight of {} for heads of {}", ins[o.norm].width, self.v_dim));
            }
        }
        for (i, width, what) in wanted {
            if ins[i].width != width || ins[i].rows != ins[0].rows {
                return fail(format!("{what} rows of {} numbers, should be {width}", ins[i].width));
            }
        }
        let is_state = ins[o.state].role == Role::Recurrent || ins[o.state].rows == Expr::S;
        if !is_state || ins[o.state].width != self.state_width() {
            return fail(format!("a state of {} numbers, should be {}", ins[o.state].width, self.state_width()));
        }
        let mut outs = vec![Sig::slot(ins[0].rows.clone(), v)];
        outs.extend_from_slice(&ins[o.conv_state..]);
        Ok(outs)
    }

    fn meaning(&self) -> Meaning {
        let o = self.operands();
        if self.front == Front::Separate && self.norm.is_none() {
            let op = self.clone();
            return Meaning::Direct(Box::new(move |c| naive(&op, c)));
        }
        let mut p = Parts::default();
        let mut ins: Vec<Part> = (0..3).map(Part::In).collect();
        let mut states = vec![];
        match &self.front {
            Front::Separate => {}
            Front::Packed => ins[2] = p.op(self.slices()[2].clone(), &[Part::In(2)]),
            Front::Conv { taps, eps } => {
                let conv = Conv { taps: *taps, heads: Some(self.heads(*eps)) };
                let q = p.op(conv, &[Part::In(0), Part::In(1), Part::In(o.conv_state)]);
                ins = (0..3).map(|i| q.sibling(i)).collect();
                states.push(q.sibling(3));
            }
        }
        ins.extend([o.g, o.g + 1, o.state].map(Part::In));
        let mut y = p.op(DeltaNet { front: Front::Separate, norm: None, ..self.clone() }, &ins);
        states.push(y.sibling(1));
        if let Some(eps) = self.norm {
            let norm = RmsNorm { with: With::Gate, ..RmsNorm::weighted(eps, self.v_dim) };
            y = p.op(norm, &[y, Part::In(o.norm), Part::In(o.norm + 1)]);
        }
        let outs: Vec<Part> = [y].into_iter().chain(states).collect();
        p.finish(&outs)
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let o = self.operands();
        let states = site.ins[o.conv_state..].iter().fold(Expr::Const(0), |a, s| a + Expr::S * s.row_bytes());
        let ins = site.ins[..o.conv_state].iter().enumerate().map(|(i, s)| match self.front {
            Front::Packed if i == 2 => Expr::T * (4 * self.v_width()),
            _ => s.bytes(),
        });
        let read = ins.fold(states.clone(), |a, bytes| a + bytes);
        // Per element of the state: 1 for the decay, 2 each for the products with k and q, and 2 for the rank-1 update.
        let mut flops = 7 * self.state_width();
        if let Front::Conv { taps, .. } = &self.front {
            flops += (2 * taps + 8) * (2 * self.k_width() + self.v_width()) + 3 * 2 * self.k_width();
        }
        if self.norm.is_some() {
            flops += 13 * self.v_width();
        }
        Cost::of(read, site.outs[0].bytes() + states, Expr::T * flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        cpu::lower(self, site)
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let mut cases = vec![];
        let batches = [
            ("one", (1, 1, 9)),
            ("start", (1, 1, 1)),
            ("few", (7, 3, 9)),
            ("ragged", (41, 3, 20)),
            ("a chunk and a rest", (70, 1, 90)),
            ("many", (300, 2, 160)),
            ("whole chunks", (128, 1, 140)),
            ("ragged chunks", (195, 3, 70)),
        ];
        for (class, b) in batches {
            let mut sizes = vec![(2, 4, 32, 32), (1, 1, 16, 24), (3, 6, 20, 9)];
            // A size that real models have.
            if ["one", "few", "ragged chunks"].contains(&class) {
                sizes.push((1, 2, 128, 128));
            }
            for (k_heads, v_heads, k_dim, v_dim) in sizes {
                let heads = format!("{k_heads} and {v_heads} heads of {k_dim} and {v_dim}, {class}");
                let scale = 1.0 / (k_dim as f32).sqrt();
                let plain = DeltaNet { k_heads, v_heads, k_dim, v_dim, scale, front: Front::Separate, norm: None };
                let (k, v) = (plain.k_width(), plain.v_width());
                let state = Sig::recurrent(plain.state_width());
                let ins = vec![x(k), x(k), x(v), x(v_heads), x(v_heads), state.clone()];
                // Keys of about length 1, decays below 1 and beta of at most 1; otherwise the states would grow without bound.
                let unit = (3.0 / k_dim as f32).sqrt();
                let mut case = Case::new(format!("plain, {heads}"), plain.clone(), ins, b).within(3e-5);
                case = case.between(1, -unit, unit).between(3, -2.0, 0.0).between(4, 0.0, 1.0);
                if (class, k_heads) == ("few", 2) {
                    // Rows of 64 + 64 + 128 + 4 + 4 elements and three states of 4 x 32 x 32.
                    case = case.costs(7 * 264 * 4 + 3 * 16384, 7 * 512 + 3 * 16384, 7 * 7 * 4096);
                }
                cases.push(case);
                let front = Front::Conv { taps: 4, eps: 1e-6 };
                let fused = DeltaNet { front, norm: Some(1e-6), ..plain.clone() };
                let filter = Sig::weight(2 * k + v, 4, DType::F32);
                let row = Sig::weight(1, v_dim, DType::F32);
                let conv_state = Sig::recurrent(3 * (2 * k + v));
                let ins =
                    vec![x(2 * k + v), filter, x(v_heads), x(v_heads), row.clone(), x(v), conv_state, state.clone()];
                let mut case = Case::new(format!("front and gated norm, {heads}"), fused, ins, b).within(1e-4);
                case = case.between(2, -2.0, 0.0).between(3, 0.0, 1.0);
                if (class, k_heads) == ("few", 2) {
                    // In addition: 256 channels with 4 taps and 3 earlier rows, a norm weight of 32, a gate of 128.
                    let states = 3 * (16384 + 3 * 1024);
                    let read = 7 * (256 + 4 + 4 + 128) * 4 + 4096 + 128 + states;
                    let per_token = 7 * 4096 + 16 * 256 + 6 * 64 + 13 * 128;
                    case = case.costs(read, 7 * 512 + states, 7 * per_token);
                }
                cases.push(case);
                let by_value = vec![x(k), x(k), x(2 * k + v), x(v_heads), x(v_heads), Sig::slot(Expr::S, state.width)];
                let packed = DeltaNet { front: Front::Packed, ..plain.clone() };
                let mut case =
                    Case::new(format!("packed projection, state by value, {heads}"), packed, by_value, b).within(3e-5);
                case = case.between(1, -unit, unit).between(3, -2.0, 0.0).between(4, 0.0, 1.0);
                if (class, k_heads) == ("few", 2) {
                    // Only the values of the packed projection are read.
                    case = case.costs(7 * 264 * 4 + 3 * 16384, 7 * 512 + 3 * 16384, 7 * 7 * 4096);
                }
                cases.push(case);
                let normed = DeltaNet { norm: Some(1e-6), ..plain };
                let ins = vec![x(k), x(k), x(v), x(v_heads), x(v_heads), row, x(v), state];
                let case = Case::new(format!("gated norm, {heads}"), normed, ins, b).within(1e-4);
                cases.push(case.between(1, -unit, unit).between(3, -2.0, 0.0).between(4, 0.0, 1.0));
            }
        }
        cases
    }
}

/// The definition, token by token in f64.
fn naive(op: &DeltaNet, c: &mut RefCall) {
    let [q, k, v, g, beta] = [0, 1, 2, 3, 4].map(|i| c.input(i).clone());
    let (kd, vd) = (op.k_dim, op.v_dim);
    let mut out = vec![0f32; v.data.len()];
    for (i, span) in c.batch.seqs.clone().iter().enumerate() {
        let slot = span.slot as usize;
        let old = match &c.ins[5] {
            RefValue::State(_) if span.is_first_chunk() => vec![0.0; op.state_width()],
            RefValue::State(state) => c.states[*state].get(slot, 0, 0),
            RefValue::Tensor(states) => states.row(i).to_vec(),
        };
        let mut all: Vec<f64> = old.iter().map(|&x| x as f64).collect();
        for t in span.start as usize..(span.start + span.count) as usize {
            for (h, s) in all.chunks_exact_mut(kd * vd).enumerate() {
                let kh = h % op.k_heads;
                let (q, k) = (&q.row(t)[kh * kd..(kh + 1) * kd], &k.row(t)[kh * kd..(kh + 1) * kd]);
                let v = &v.row(t)[h * vd..(h + 1) * vd];
                let decay = (g.row(t)[h] as f64).exp();
                s.iter_mut().for_each(|s| *s *= decay);
                for j in 0..vd {
                    let predicted: f64 = (0..kd).map(|i| s[i * vd + j] * k[i] as f64).sum();
                    let d = beta.row(t)[h] as f64 * (v[j] as f64 - predicted);
                    (0..kd).for_each(|i| s[i * vd + j] += k[i] as f64 * d);
                    let o: f64 = (0..kd).map(|i| s[i * vd + j] * q[i] as f64).sum();
                    out[t * op.v_width() + h * vd + j] = (o * op.scale as f64) as f32;
                }
            }
        }
        let all: Vec<f32> = all.into_iter().map(|x| x as f32).collect();
        match c.ins[5] {
            RefValue::State(state) => c.states[state].set(slot, 0, 0, &all),
            RefValue::Tensor(_) => c.output(1)[i * all.len()..(i + 1) * all.len()].copy_from_slice(&all),
        }
    }
    c.output(0).copy_from_slice(&out);
}
