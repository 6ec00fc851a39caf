//! Reads a row of a recurrent state for every sequence of the batch, in their order; a sequence in its first chunk gets
//! zeros. Rules let the op that uses the rows read the state in place instead.
//!
//! Input: a recurrent state `[slot][width]`. Output: `[S, width]`. It has no rows where a recorded listing also moves the
//! states of sequences that stay unchanged, because there are no such sequences.

use super::*;
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::tensor::Role;

/// Reads the rows of a recurrent state.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRead {
    /// Rows read: `S` or 0.
    pub rows: Expr,
}

impl OpDef for StateRead {
    const NAME: &'static str = "state_read";

    fn ggml(&self) -> &'static str {
        "GET_ROWS"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        if ins[0].role != Role::Recurrent || !(self.rows == Expr::S || self.rows.constant() == Some(0)) {
            let why = format!("{} rows, of what should be a recurrent state; it reads S rows or none", self.rows);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![Sig::slot(self.rows.clone(), ins[0].width)])
    }

    fn meaning(&self) -> Meaning {
        Meaning::Direct(Box::new(|c| {
            let (state, seqs) = (c.state(0), c.batch.seqs.clone());
            let rows = seqs.iter().map(|s| (s.is_first_chunk(), c.states[state].get(s.slot as usize, 0, 0)));
            let rows: Vec<f32> =
                rows.flat_map(|(first_chunk, row)| if first_chunk { vec![0.0; row.len()] } else { row }).collect();
            let out = c.output(0);
            out.copy_from_slice(&rows[..out.len()]);
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        Cost::of(site.outs[0].bytes(), site.outs[0].bytes(), Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let width = site.outs[0].width;
        Lowering::one(site, "state_read/copy", self.rows.clone(), 1, self.cost(site), move |c, _| {
            while let Some(range) = c.items.take() {
                for i in range {
                    let (out, span) = (c.write(1, i * width..(i + 1) * width), &c.batch.seqs[i]);
                    match span.is_first_chunk() {
                        true => out.fill(0.0),
                        false => out.copy_from_slice(state_row(c, 0, span.slot as usize, width)),
                    }
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
        let state = || vec![Sig::recurrent(33)];
        let (own, none) = (StateRead { rows: Expr::S }, StateRead { rows: Expr::Const(0) });
        vec![
            Case::new("of each sequence", own.clone(), state(), (5, 3, 9)).costs(3 * 132, 3 * 132, 0).within(0.0),
            Case::new("some begin", own, state(), (6, 3, 2)).within(0.0),
            Case::new("none", none, state(), (5, 3, 9)).costs(0, 0, 0).within(0.0),
        ]
    }
}

/// The elements of one slot of a recurrent state; nothing may write this slot during the dispatch.
pub(crate) fn state_row<'c>(c: &'c CpuCall, arg: usize, slot: usize, width: usize) -> &'c [f32] {
    bytemuck::cast_slice(c.bytes_at(arg, slot * width * 4..(slot + 1) * width * 4))
}
