//! Gathers the rows whose logits are wanted out of one value or several; the row indices are the same for all of them.
//! Inputs: `[T, width]` each. Outputs: `[S, width]` for each input (the last row of each sequence).

use super::*;

mod cuda;
mod wgsl;

/// Gathers the rows whose logits are wanted out of one value or several.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherRows;

impl OpDef for GatherRows {
    const NAME: &'static str = "gather_rows";

    fn ggml(&self) -> &'static str {
        "GET_ROWS"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        if ins.is_empty() {
            want_inputs(Self::NAME, ins, 1)?;
        }
        Ok(ins.iter().map(|x| Sig::slot(Expr::S, x.width)).collect())
    }

    fn meaning(&self) -> Meaning {
        Meaning::Direct(Box::new(|c| {
            for i in 0..c.ins.len() {
                let x = c.input(i).clone();
                let rows: Vec<f32> = c.batch.logit_rows.iter().flat_map(|&r| x.row(r as usize).to_vec()).collect();
                c.output(i).copy_from_slice(&rows);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let bytes = site.outs.iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        Cost::of(bytes.clone(), bytes, Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let widths: Vec<usize> = site.outs.iter().map(|s| s.width).collect();
        Lowering::one(site, "gather_rows/copy", Expr::S, 1, self.cost(site), move |c, _| {
            while let Some(range) = c.items.take() {
                for (i, (n, &width)) in range.flat_map(|i| widths.iter().enumerate().map(move |w| (i, w))) {
                    let r = c.batch.logit_rows[i] as usize;
                    let row = &c.f32s(n)[r * width..(r + 1) * width];
                    c.write(widths.len() + n, i * width..(i + 1) * width).copy_from_slice(row);
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
        let b = (6, 3, 2);
        let x = |w| Sig::slot(Expr::T, w);
        vec![
            Case::new("last rows", GatherRows, vec![x(33)], b).costs(3 * 132, 3 * 132, 0).within(0.0),
            Case::new("of two values", GatherRows, vec![x(33), x(8)], b).costs(3 * 164, 3 * 164, 0).within(0.0),
        ]
    }
}
