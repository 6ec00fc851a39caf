//! Rotary position embedding of heads, optionally after a per-head norm.
//!
//! A pair `(a, b)` of a head becomes `(a cos - b sin, a sin + b cos)` with the angle of its position and pair.
//! Pairs are `(2i, 2i+1)`, or `(i, i + pairs)` ("neox" order). Elements of a head from `2·pairs` are copied unchanged.
//! Inputs: `x [T, heads·dim]` (with a `view`, a strided view: a wider row, of which only these columns are read in place),
//! then the norm's weight `[1, dim]` if there is a norm. Output: `[T, heads·dim]`. Source: RoFormer, eq. 34.

use super::*;
use crate::ops::rms_norm::RmsNorm;
use crate::reference::{Part, Parts};
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Slice;

pub(crate) mod cuda;
pub mod frequencies;
pub(crate) mod wgsl;

/// See the module for inputs, shapes and the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Heads in a row.
    pub heads: usize,
    /// Elements per head.
    pub dim: usize,
    /// Rotated pairs per head.
    pub pairs: usize,
    /// Pairs are `(i, i + pairs)` instead of `(2i, 2i + 1)`.
    pub neox: bool,
    /// Index of a rotary table of the step batch.
    pub table: usize,
    /// Norm each head first, with this epsilon and a weight.
    pub norm: Option<f32>,
    /// Strided view: the columns of the input that the op reads in place.
    pub view: Option<Slice>,
}

impl Rope {
    /// Rotates one head of row `row` of the batch, after its norm if there is one.
    pub fn head(&self, c: &CpuCall, row: usize, norm_weight: Option<&[f32]>, x: &[f32], out: &mut [f32]) {
        match (self.norm, norm_weight) {
            (Some(eps), Some(w)) => (c.simd.rms_norm)(x, Some(w), eps, out),
            _ => out.copy_from_slice(x),
        }
        self.rotate(&c.batch.rope[self.table], row, out);
    }

    /// Rotates one head in place.
    pub fn rotate(&self, table: &[f32], row: usize, x: &mut [f32]) {
        let n = self.pairs;
        let (cos, sin) = table[row * 2 * n..(row + 1) * 2 * n].split_at(n);
        if self.neox {
            let (a, b) = x[..2 * n].split_at_mut(n);
            for i in 0..n {
                (a[i], b[i]) = (a[i] * cos[i] - b[i] * sin[i], a[i] * sin[i] + b[i] * cos[i]);
            }
        } else {
            for (i, p) in x[..2 * n].chunks_exact_mut(2).enumerate() {
                (p[0], p[1]) = (p[0] * cos[i] - p[1] * sin[i], p[0] * sin[i] + p[1] * cos[i]);
            }
        }
    }
}

impl OpDef for Rope {
    const NAME: &'static str = "rope";

    fn ggml(&self) -> &'static str {
        "ROPE"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1 + self.norm.is_some() as usize)?;
        let x = Slice::seen(&self.view, &ins[0], self.dim)?;
        if x.width != self.heads * self.dim || 2 * self.pairs > self.dim {
            let why = format!("{} heads of {} do not make a width of {}", self.heads, self.dim, x.width);
            return Err(ShapeError { op: Self::NAME, why });
        }
        if self.norm.is_some() && ins[1].width != self.dim {
            return Err(ShapeError { op: Self::NAME, why: format!("norm weight of {}", ins[1].width) });
        }
        Ok(vec![Sig::slot(x.rows, x.width)])
    }

    fn meaning(&self) -> Meaning {
        if self.norm.is_some() || self.view.is_some() {
            let (mut p, mut x) = (Parts::default(), Part::In(0));
            if let Some(view) = &self.view {
                x = p.op(view.clone(), &[x]);
            }
            if let Some(eps) = self.norm {
                x = p.op(RmsNorm::weighted(eps, self.dim), &[x, Part::In(1)]);
            }
            let y = p.op(Rope { norm: None, view: None, ..self.clone() }, &[x]);
            return p.finish(&[y]);
        }
        let op = self.clone();
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            let table = c.batch.rope[op.table].clone();
            let width = op.heads * op.dim;
            for (r, row) in c.output(0).chunks_exact_mut(width).enumerate() {
                row.copy_from_slice(x.row(r));
                row.chunks_exact_mut(op.dim).for_each(|head| op.rotate(&table, r, head));
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let norm = if self.norm.is_some() { 4 * self.dim } else { 0 };
        let weight = site.ins[1..].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        let x = site.outs[0].bytes();
        let flops = Expr::T * (self.heads * (6 * self.pairs + norm));
        Cost::of(x.clone() + weight + Expr::T * (self.pairs * 8), x, flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (op, width, stride) = (self.clone(), self.heads * self.dim, site.ins[0].width);
        let kernel = if self.norm.is_some() { "rope/norm" } else { "rope/plain" };
        Lowering::one(site, kernel, Expr::T, 1, self.cost(site), move |c, _| {
            let x = c.f32s(0);
            let weight = op.norm.map(|_| c.f32s(1));
            while let Some(range) = c.items.take() {
                for r in range {
                    let out = c.write(c.args.len() - 1, r * width..(r + 1) * width);
                    for (h, out) in out.chunks_exact_mut(op.dim).enumerate() {
                        let at = r * stride + Slice::place(&op.view, h * op.dim);
                        op.head(c, r, weight, &x[at..at + op.dim], out);
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
        let op = |heads, dim, pairs, neox, norm| Rope { heads, dim, pairs, neox, table: 0, norm, view: None };
        let queries = Slice { group: 128, start: 0, len: 64 };
        let half = |norm| Rope { view: Some(queries.clone()), ..op(4, 64, 32, true, norm) };
        let b = (5, 1, 9);
        vec![
            Case::new("interleaved pairs", op(9, 64, 32, false, None), vec![x(576)], b).costs(
                5 * (2304 + 256),
                5 * 2304,
                5 * 9 * 192,
            ),
            Case::new("neox pairs", op(2, 64, 32, true, None), vec![x(128)], b),
            Case::new("part of a head", op(2, 64, 32 / 2, true, None), vec![x(128)], b),
            // 4 of every 8 heads of 64.
            Case::new("columns", half(None), vec![x(512)], b).costs(5 * (1024 + 256), 5 * 1024, 5 * 4 * 192),
            Case::new("columns, normed", half(Some(1e-6)), vec![x(512), Sig::weight(1, 64, DType::F32)], b),
            Case::new("after a norm", op(4, 64, 32, true, Some(1e-6)), vec![x(256), Sig::weight(1, 64, DType::F32)], b),
        ]
    }
}
