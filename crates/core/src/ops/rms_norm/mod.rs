//! `y = x / sqrt(mean(x²) + eps)` over groups of `dim` numbers, then optionally `· w` and `+ residual`. Sums in f32.
//!
//! Inputs: `x [rows, groups·dim]`, then the weight `[1, dim]` if `weight`, then the residual (like x) if `residual`.

use super::*;
use crate::formats::DType;
use crate::ops::elementwise::Elementwise;
use crate::reference::{Part, Parts};
use crate::wgsl::{Wgsl, caps};

pub(crate) mod cuda;

/// The op.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f32,
    /// Numbers normalized together: a head's size, or [`WHOLE_ROW`].
    pub dim: usize,
    /// Multiply by a weight.
    pub weight: bool,
    /// Add another value afterwards.
    pub residual: bool,
}

/// A group size that stands for the whole row, whatever its width.
pub const WHOLE_ROW: usize = usize::MAX;

impl RmsNorm {
    /// Numbers normalized together in rows of `width`.
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
        want_inputs(Self::NAME, ins, 1 + self.weight as usize + self.residual as usize)?;
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        let dim = self.group(ins[0].width);
        if dim == 0 || !ins[0].width.is_multiple_of(dim) {
            return fail(format!("{} is no multiple of the group size {dim}", ins[0].width));
        }
        if self.weight && ins[1].width != dim {
            return fail(format!("the weight has {} numbers, a group {dim}", ins[1].width));
        }
        if self.residual && ins[ins.len() - 1].width != ins[0].width {
            return fail("the residual has another width".into());
        }
        Ok(vec![Sig::slot(ins[0].rows.clone(), ins[0].width)])
    }

    fn meaning(&self) -> Meaning {
        let RmsNorm { eps, dim, .. } = *self;
        if self.weight || self.residual {
            let mut p = Parts::default();
            let mut y = p.op(RmsNorm { eps, dim, weight: false, residual: false }, &[Part::In(0)]);
            if self.weight {
                y = p.op(Elementwise::mul(), &[y, Part::In(1)]);
            }
            if self.residual {
                y = p.op(Elementwise::add(), &[y, Part::In(1 + self.weight as usize)]);
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

    fn cost(&self, site: &Site) -> Cost {
        let per = 3 + self.weight as usize + self.residual as usize;
        Cost::streams(site, site.outs[0].rows.clone() * site.outs[0].width * per)
    }

    fn cpu(&self, site: &Site) -> Lowering {
        if site.ins.iter().any(|s| s.dtype != DType::F32) {
            return Lowering::Gap("norm weights that are not f32 have no CPU kernel");
        }
        let (op, width) = (self.clone(), site.outs[0].width);
        let dim = self.group(width);
        let kernel = match (self.weight, self.residual) {
            (_, true) => "rms_norm/residual",
            (true, _) => "rms_norm/weight",
            _ => "rms_norm/plain",
        };
        Lowering::one(site, kernel, site.outs[0].rows.clone(), 1, self.cost(site), move |c, _| {
            let x = c.f32s(0);
            let weight = op.weight.then(|| c.f32s(1));
            let residual = op.residual.then(|| c.f32s(1 + op.weight as usize));
            let out_arg = c.args.len() - 1;
            while let Some(range) = c.items.take() {
                for r in range {
                    let at = r * width..(r + 1) * width;
                    let out = c.write(out_arg, at.clone());
                    for (o, x) in out.chunks_exact_mut(dim).zip(x[at.clone()].chunks_exact(dim)) {
                        (c.simd.rms_norm)(x, weight, op.eps, o);
                    }
                    if let Some(residual) = residual {
                        out.iter_mut().zip(&residual[at]).for_each(|(o, r)| *o += *r);
                    }
                }
            }
        })
    }

    fn cuda(&self, site: &Site) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &Site) -> Lowering {
        if site.ins.iter().any(|s| !s.dtype.is_float()) {
            return Lowering::Gap("a quantized norm weight has no kernel");
        }
        let (width, rows) = (site.outs[0].width, &site.outs[0].rows);
        let dim = self.group(width);
        let kernel = match (self.weight, self.residual) {
            (_, true) => "rms_norm/residual",
            (true, _) => "rms_norm/weight",
            _ => "rms_norm/plain",
        };
        let mut w = Wgsl::new(kernel, if dim > 512 { 256 } else { 64 });
        w.number("DIM", dim);
        w.number("GROUPS", width / dim);
        w.float("EPS", self.eps);
        w.size("rows", rows);
        w.read("x", Arg::In(0), site.ins[0].dtype);
        let other = |is: bool, i: usize| is.then(|| (Arg::In(i), site.ins[i].dtype));
        w.read_or("weight", other(self.weight, 1), 1.0);
        w.read_or("residual", other(self.residual, 1 + self.weight as usize), 0.0);
        w.write("y", Arg::Out(0));
        let w = w.reductions(&caps(site.target)).text(include_str!("kernel.wgsl"));
        w.lowering(rows.clone() * (width / dim), self.cost(site))
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let w = |w| Sig::weight(1, w, DType::F32);
        let op = |dim, weight, residual| RmsNorm { eps: 1e-5, dim, weight, residual };
        let b = (5, 1, 5);
        vec![
            Case::new("plain", op(WHOLE_ROW, false, false), vec![x(4096)], (1, 1, 1)).costs(16384, 16384, 3 * 4096),
            Case::new("odd width", op(33, false, false), vec![x(33)], b),
            Case::new("weight", op(576, true, false), vec![x(576), w(576)], b).costs(6 * 2304, 5 * 2304, 4 * 5 * 576),
            Case::new("per head", op(64, true, false), vec![x(576), w(64)], b),
            Case::new("weight and residual", op(640, true, true), vec![x(640), w(640), x(640)], b),
            Case::new("residual alone", op(40, false, true), vec![x(40), x(40)], b),
        ]
    }
}
