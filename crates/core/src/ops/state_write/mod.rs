//! Writes a row of a recurrent state for every sequence of the batch; the state keeps it until the next step.
//!
//! Inputs: the rows `[S, width]`, then the state `[slot][width]`. With `window`, the first input is a convolution's window
//! `[T + S·window, width / window]`, of which the last `window` rows of every sequence are written. The first input has no
//! rows where a recorded listing also moves the states of sequences that stay unchanged, because there are no such
//! sequences. Output: the state.

use super::*;
use crate::ops::window::Window;
use onetrip_ir::tensor::Role;

/// Writes a row of a recurrent state for every sequence of the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrite {
    /// Rows written of each sequence's window; `None` where the input has the shape of the state's rows.
    pub window: Option<usize>,
}

impl OpDef for StateWrite {
    const NAME: &'static str = "state_write";

    fn ggml(&self) -> &'static str {
        "CPY"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 2)?;
        let (x, state) = (&ins[0], &ins[1]);
        let fits = match self.window {
            Some(rows) => x.rows == Window { rows }.all_rows() && x.width * rows == state.width,
            None => x.width == state.width && (x.rows == Expr::S || x.rows.constant() == Some(0)),
        };
        if state.role != Role::Recurrent || !fits {
            let why = format!("{}x{} numbers for a recurrent state of {}", x.rows, x.width, state.width);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![state.clone()])
    }

    fn meaning(&self) -> Meaning {
        let window = self.window;
        Meaning::Direct(Box::new(move |c| {
            let (x, state) = (c.input(0).clone(), c.state(1));
            // An input without rows writes nothing.
            for (i, span) in c.batch.seqs.clone().iter().enumerate().take(x.rows()) {
                let from = match window {
                    Some(rows) => (span.start + span.count) as usize + i * rows,
                    None => i,
                };
                let rows = window.unwrap_or(1);
                c.states[state].set(span.slot as usize, 0, 0, &x.data[from * x.width..(from + rows) * x.width]);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let rows = if self.window.is_some() { Expr::S } else { site.ins[0].rows.clone() };
        let bytes = rows * site.ins[1].row_bytes();
        Cost::of(bytes.clone(), bytes, Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (window, width, from) = (self.window, site.ins[1].width, site.ins[0].width);
        let grid = if window.is_some() { Expr::S } else { site.ins[0].rows.clone() };
        Lowering::one(site, "state_write/copy", grid, 1, self.cost(site), move |c, _| {
            while let Some(range) = c.items.take() {
                for i in range {
                    let span = &c.batch.seqs[i];
                    let row = window.map_or(i, |rows| (span.start + span.count) as usize + i * rows);
                    let at = span.slot as usize * width;
                    c.write(1, at..at + width).copy_from_slice(&c.f32s(0)[row * from..row * from + width]);
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
        let (state, b) = (Sig::recurrent(60), (7, 3, 9));
        let case = |name, window, rows, width| {
            Case::new(name, StateWrite { window }, vec![Sig::slot(rows, width), state.clone()], b).within(0.0)
        };
        vec![
            case("as it is", None, Expr::S, 60).costs(3 * 240, 3 * 240, 0),
            case("the end of a window", Some(3), Window { rows: 3 }.all_rows(), 20).costs(3 * 240, 3 * 240, 0),
            case("nothing", None, Expr::Const(0), 60).costs(0, 0, 0),
        ]
    }
}
