//! `y = x / sqrt(Σx² + eps)` over groups of `dim` elements. Input and output: `[rows, groups·dim]`. Sums in f32.
//!
//! With a `view`, the input is a wider row, of which only these columns are read in place.

use super::*;
use crate::reference::{Part, Parts};
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::tensor::Slice;

mod cuda;
mod wgsl;

/// `y = x / sqrt(Σx² + eps)` over groups of `dim` elements.
#[derive(Clone, Debug, PartialEq)]
pub struct L2Norm {
    /// Added to the sum of squares.
    pub eps: f32,
    /// Elements normalized together: a head's size.
    pub dim: usize,
    /// Strided view: the columns of the input that the op reads in place.
    pub view: Option<Slice>,
}

impl L2Norm {
    /// Normalizes one group `x` to `out`. The root-mean-square norm with `eps / dim` is this norm times `sqrt(dim)`.
    pub(crate) fn group(&self, c: &CpuCall, x: &[f32], out: &mut [f32]) {
        let dim = self.dim as f32;
        (c.simd.rms_norm)(x, None, self.eps / dim, out);
        let factor = 1.0 / dim.sqrt();
        out.iter_mut().for_each(|x| *x *= factor);
    }
}

impl OpDef for L2Norm {
    const NAME: &'static str = "l2_norm";

    fn ggml(&self) -> &'static str {
        "L2_NORM"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        let x = Slice::seen(&self.view, &ins[0], self.dim)?;
        if self.dim == 0 || !x.width.is_multiple_of(self.dim) {
            let why = format!("{} is no multiple of the group size {}", x.width, self.dim);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![Sig::slot(x.rows, x.width)])
    }

    fn meaning(&self) -> Meaning {
        if let Some(view) = &self.view {
            let mut p = Parts::default();
            let x = p.op(view.clone(), &[Part::In(0)]);
            let y = p.op(L2Norm { view: None, ..self.clone() }, &[x]);
            return p.finish(&[y]);
        }
        let L2Norm { eps, dim, .. } = *self;
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            for (out, x) in c.output(0).chunks_exact_mut(dim).zip(x.data.chunks_exact(dim)) {
                let sum: f64 = x.iter().map(|v| *v as f64 * *v as f64).sum();
                let scale = 1.0 / (sum + eps as f64).sqrt();
                out.iter_mut().zip(x).for_each(|(o, x)| *o = (*x as f64 * scale) as f32);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let bytes = site.outs[0].bytes();
        Cost::of(bytes.clone(), bytes, site.outs[0].rows.clone() * (3 * site.outs[0].width))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (op, width, stride) = (self.clone(), site.outs[0].width, site.ins[0].width);
        Lowering::one(site, "l2_norm/rows", site.outs[0].rows.clone(), 1, self.cost(site), move |c, _| {
            let x = c.f32s(0);
            while let Some(range) = c.items.take() {
                for r in range {
                    let out = c.write(1, r * width..(r + 1) * width);
                    for (g, out) in out.chunks_exact_mut(op.dim).enumerate() {
                        let at = r * stride + Slice::place(&op.view, g * op.dim);
                        op.group(c, &x[at..at + op.dim], out);
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
        let op = |dim| L2Norm { eps: 1e-6, dim, view: None };
        let keys = Slice { group: 320, start: 64, len: 128 };
        let b = (5, 2, 5);
        vec![
            // 5 rows of 16 heads of 128.
            Case::new("heads", op(128), vec![x(2048)], b).costs(5 * 8192, 5 * 8192, 5 * 3 * 2048),
            // Only the keys of rows of 320.
            Case::new("columns", L2Norm { view: Some(keys), ..op(32) }, vec![x(320)], b).costs(2560, 2560, 5 * 3 * 128),
            Case::new("odd groups", op(33), vec![x(99)], b),
            Case::new("nearly zero", op(32), vec![x(64)], b).between(0, -1e-3, 1e-3),
        ]
    }
}
