//! `y = x / sqrt(mean(x²) + eps)` over groups of `dim` elements, then optionally `· w`; [`With`] fuses a residual, a gate or a
//! sum with a second value. Sums in f32.
//!
//! Inputs: `x [rows, groups·dim]` (with a `view`, a wider row, of which only these columns are read in place), then the
//! weight `[1, dim]` if `weight`, then the second value (shaped like y). Outputs: y; with a sum, the sum and then y.

use super::*;
use crate::ops::elementwise::Elementwise;
use crate::reference::{Part, Parts};
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Slice;
use onetrip_ir::tree::Unary;

pub(crate) mod cuda;
mod wgsl;

/// See the module for inputs, shapes and the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f32,
    /// Elements normalized together: a head's size, or [`WHOLE_ROW`].
    pub dim: usize,
    /// Multiply by a weight.
    pub weight: bool,
    /// How a second value is fused.
    pub with: With,
    /// Strided view: the columns of the input that the op reads in place.
    pub view: Option<Slice>,
}

/// How a second value is fused into a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// There is no second value.
    Nothing,
    /// Adds it to the normed rows.
    Residual,
    /// Multiplies the normed rows by its SiLU.
    Gate,
    /// Adds it before the norm; the sum is an output too.
    Sum,
}

/// A group size that stands for the whole row, whatever its width.
pub const WHOLE_ROW: usize = usize::MAX;

impl RmsNorm {
    /// The norm without weight, second value or view.
    pub fn plain(eps: f32, dim: usize) -> RmsNorm {
        RmsNorm { eps, dim, weight: false, with: With::Nothing, view: None }
    }

    /// The norm, times a weight.
    pub fn weighted(eps: f32, dim: usize) -> RmsNorm {
        RmsNorm { weight: true, ..RmsNorm::plain(eps, dim) }
    }

    /// True for a norm with a weight and without a second value, with or without a view.
    pub fn is_weighted(&self) -> bool {
        self.weight && self.with == With::Nothing
    }

    /// Elements normalized together in rows of `width`.
    pub fn group(&self, width: usize) -> usize {
        if self.dim == WHOLE_ROW { width } else { self.dim }
    }
}

impl OpDef for RmsNorm {
    const NAME: &'static str = "rms_norm";

    fn ggml(&self) -> &'static str {
        "RMS_NORM"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let has_other = self.with != With::Nothing;
        want_inputs(Self::NAME, ins, 1 + self.weight as usize + has_other as usize)?;
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        let width = self.view.as_ref().map_or(ins[0].width, |p| ins[0].width / p.group.max(1) * p.len);
        let dim = self.group(width);
        let x = Slice::seen(&self.view, &ins[0], dim)?;
        if dim == 0 || !x.width.is_multiple_of(dim) {
            return fail(format!("{} is no multiple of the group size {dim}", x.width));
        }
        if self.weight && ins[1].width != dim {
            return fail(format!("the weight has {} numbers, a group {dim}", ins[1].width));
        }
        if has_other && (ins[ins.len() - 1].width != x.width || ins[ins.len() - 1].rows != x.rows) {
            return fail("the other value has another shape".into());
        }
        let out = Sig::slot(x.rows, x.width);
        Ok(vec![out; if self.with == With::Sum { 2 } else { 1 }])
    }

    fn meaning(&self) -> Meaning {
        let RmsNorm { eps, dim, .. } = *self;
        if *self != RmsNorm::plain(eps, dim) {
            let mut p = Parts::default();
            let (mut x, other) = (Part::In(0), Part::In(1 + self.weight as usize));
            if let Some(view) = &self.view {
                x = p.op(view.clone(), &[x]);
            }
            if self.with == With::Sum {
                x = p.op(Elementwise::add(), &[x, other]);
            }
            let mut y = p.op(RmsNorm::plain(eps, dim), &[x]);
            if self.weight {
                y = p.op(Elementwise::mul(), &[y, Part::In(1)]);
            }
            match self.with {
                With::Nothing => {}
                With::Residual => y = p.op(Elementwise::add(), &[y, other]),
                With::Gate => {
                    let gate = p.op(Elementwise::unary(Unary::Silu), &[other]);
                    y = p.op(Elementwise::mul(), &[y, gate]);
                }
                With::Sum => return p.finish(&[x, y]),
            }
            return p.finish(&[y]);
        }
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            let dim = if dim == WHOLE_ROW { x.width } else { dim };
            for (out, x) in c.output(0).chunks_exact_mut(dim).zip(x.data.chunks_exact(dim)) {
                let mean = x.iter().map(|v| *v as f64 * *v as f64).sum::<f64>() / dim as f64;
                let scale = 1.0 / (mean + eps as f64).sqrt();
                out.iter_mut().zip(x).for_each(|(o, x)| *o = (*x as f64 * scale) as f32);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let other = match self.with {
            With::Nothing => 0,
            With::Residual | With::Sum => 1,
            With::Gate => 9,
        };
        let mut cost =
            site.streams(site.outs[0].rows.clone() * site.outs[0].width * (3 + self.weight as usize + other));
        if self.view.is_some() {
            cost.read = site.ins[1..].iter().fold(site.outs[0].bytes(), |a, s| a + s.bytes());
        }
        cost
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        if site.ins.iter().any(|s| s.dtype != DType::F32) {
            return Lowering::Gap("norm weights that are not f32 have no CPU kernel");
        }
        let (op, width, stride) = (self.clone(), site.outs[0].width, site.ins[0].width);
        let dim = self.group(width);
        let kernel = match (self.weight, self.with) {
            (_, With::Residual) => "rms_norm/residual",
            (_, With::Gate) => "rms_norm/gate",
            (_, With::Sum) => "rms_norm/sum",
            (true, With::Nothing) => "rms_norm/weight",
            (false, With::Nothing) => "rms_norm/plain",
        };
        Lowering::one(site, kernel, site.outs[0].rows.clone(), 1, self.cost(site), move |c, scratch| {
            let x = c.f32s(0);
            let weight = op.weight.then(|| c.f32s(1));
            let other = if op.with == With::Nothing { &[] } else { c.f32s(1 + op.weight as usize) };
            let out_arg = c.args.len() - 1;
            while let Some(range) = c.items.take() {
                for r in range {
                    let at = r * width..(r + 1) * width;
                    let out = c.write(out_arg, at.clone());
                    let (mut row, view) = (&x[r * stride..(r + 1) * stride], &op.view);
                    if op.with == With::Sum {
                        let sum = c.write(out_arg - 1, at.clone());
                        let pairs = row.iter().zip(&other[at.clone()]);
                        sum.iter_mut().zip(pairs).for_each(|(s, (a, b))| *s = a + b);
                        row = sum;
                    }
                    for (g, out) in out.chunks_exact_mut(dim).enumerate() {
                        let from = Slice::place(view, g * dim);
                        (c.simd.rms_norm)(&row[from..from + dim], weight, op.eps, out);
                    }
                    match op.with {
                        With::Nothing | With::Sum => {}
                        With::Residual => out.iter_mut().zip(&other[at]).for_each(|(o, r)| *o += *r),
                        With::Gate => {
                            let [gate] = scratch.split_f32([width]);
                            gate.copy_from_slice(&other[at]);
                            (c.simd.silu)(gate);
                            out.iter_mut().zip(gate).for_each(|(o, g)| *o *= *g);
                        }
                    }
                }
            }
        })
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let w = |w| Sig::weight(1, w, DType::F32);
        let op = |dim, weight, residual: bool| {
            let with = if residual { With::Residual } else { With::Nothing };
            RmsNorm { weight, with, ..RmsNorm::plain(1e-5, dim) }
        };
        let with = |dim, with| RmsNorm { with, ..op(dim, true, false) };
        let queries = RmsNorm { view: Some(Slice { group: 128, start: 0, len: 64 }), ..op(64, true, false) };
        let b = (5, 1, 5);
        vec![
            Case::new("plain", op(WHOLE_ROW, false, false), vec![x(4096)], (1, 1, 1)).costs(16384, 16384, 3 * 4096),
            Case::new("odd width", op(33, false, false), vec![x(33)], b),
            Case::new("weight", op(576, true, false), vec![x(576), w(576)], b).costs(6 * 2304, 5 * 2304, 4 * 5 * 576),
            Case::new("per head", op(64, true, false), vec![x(576), w(64)], b),
            // 4 of every 8 heads of 64.
            Case::new("columns", queries, vec![x(512), w(64)], b).costs(5 * 1024 + 256, 5 * 1024, 4 * 5 * 256),
            // A gate for 4 heads of 64 that share one weight: it adds a SiLU and a product.
            Case::new("gate", with(64, With::Gate), vec![x(256), w(64), x(256)], b).costs(
                10 * 1024 + 256,
                5 * 1024,
                13 * 5 * 256,
            ),
            // Both values are read; their sum and its norm are written.
            Case::new("sum", with(WHOLE_ROW, With::Sum), vec![x(640), w(640), x(640)], b).costs(
                11 * 2560,
                10 * 2560,
                5 * 5 * 640,
            ),
            Case::new(
                "sum, odd width, no weight",
                RmsNorm { with: With::Sum, ..op(33, false, false) },
                vec![x(33), x(33)],
                b,
            ),
            Case::new("gate alone", RmsNorm { with: With::Gate, ..op(40, false, false) }, vec![x(40), x(40)], b),
            Case::new("weight and residual", op(640, true, true), vec![x(640), w(640), x(640)], b),
            Case::new("residual alone", op(40, false, true), vec![x(40), x(40)], b),
        ]
    }
}
