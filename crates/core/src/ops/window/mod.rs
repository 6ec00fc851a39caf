//! The input window of a causal convolution: for every sequence its last `rows` inputs of earlier steps, then its inputs
//! of this step.
//!
//! Inputs: the earlier rows, as a value `[S, rows·channels]` (oldest first) or, in place, the recurrent state that holds
//! them; `x [T, channels]`. Output: `[T + S·rows, channels]`, sequence after sequence.

use super::*;
use crate::ops::state_read::state_row;
use crate::reference::RefValue;
use onetrip_ir::tensor::Role;

/// The input window of a causal convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Earlier rows of each sequence.
    pub rows: usize,
}

impl Window {
    /// Rows of all sequences' windows together: `T + S·rows`.
    pub fn all_rows(&self) -> Expr {
        Expr::T + Expr::S * self.rows
    }
}

impl OpDef for Window {
    const NAME: &'static str = "window";

    fn ggml(&self) -> &'static str {
        "CONCAT"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 2)?;
        let (old, x) = (&ins[0], &ins[1]);
        let is_old = old.role == Role::Recurrent || old.rows == Expr::S;
        if self.rows == 0 || !is_old || old.width != self.rows * x.width || x.rows != Expr::T {
            let why = format!("{} earlier rows of {} numbers out of {}x{}", self.rows, x.width, old.rows, old.width);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![Sig::slot(self.all_rows(), x.width)])
    }

    fn meaning(&self) -> Meaning {
        let rows = self.rows;
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(1).clone();
            let mut out = vec![];
            for (i, span) in c.batch.seqs.iter().enumerate() {
                match &c.ins[0] {
                    RefValue::State(_) if span.is_first_chunk() => out.extend(vec![0.0; rows * x.width]),
                    RefValue::State(s) => out.extend(c.states[*s].get(span.slot as usize, 0, 0)),
                    RefValue::Tensor(old) => out.extend_from_slice(old.row(i)),
                }
                let (start, count) = (span.start as usize, span.count as usize);
                out.extend_from_slice(&x.data[start * x.width..(start + count) * x.width]);
            }
            c.output(0).copy_from_slice(&out);
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        Cost::of(site.outs[0].bytes(), site.outs[0].bytes(), Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (rows, width, in_place) = (self.rows, site.ins[1].width, site.ins[0].is_state());
        Lowering::one(site, "window/copy", Expr::S, 1, self.cost(site), move |c, _| {
            while let Some(range) = c.items.take() {
                for i in range {
                    let span = &c.batch.seqs[i];
                    let (start, count, old) = (span.start as usize, span.count as usize, rows * width);
                    let at = (start + i * rows) * width;
                    let (first, rest) = c.write(2, at..at + old + count * width).split_at_mut(old);
                    match in_place {
                        true if span.is_first_chunk() => first.fill(0.0),
                        true => first.copy_from_slice(state_row(c, 0, span.slot as usize, old)),
                        false => first.copy_from_slice(&c.f32s(0)[i * old..(i + 1) * old]),
                    }
                    rest.copy_from_slice(&c.f32s(1)[start * width..(start + count) * width]);
                }
            }
        })
    }

    fn cuda(&self, _: &OpSite) -> Lowering {
        Lowering::Gap(LISTED_ONLY)
    }

    fn wgsl(&self, _: &OpSite) -> Lowering {
        Lowering::Gap(LISTED_ONLY)
    }

    fn cases() -> Vec<Case> {
        let (x, op) = (Sig::slot(Expr::T, 20), Window { rows: 3 });
        let mut cases = vec![];
        for (class, b) in [("one", (1, 1, 9)), ("some begin", (7, 3, 3)), ("ragged", (41, 3, 60))] {
            // 3 earlier rows of 80 bytes per sequence and the rows of the step, each read and written once.
            let bytes = (b.0 + 3 * b.1) * 80;
            for (how, old) in [("value", Sig::slot(Expr::S, 60)), ("in place", Sig::recurrent(60))] {
                let case = Case::new(format!("{how}, {class}"), op.clone(), vec![old, x.clone()], b);
                cases.push(case.costs(bytes, bytes, 0).within(0.0));
            }
        }
        cases
    }
}
