//! The rows whose logits are wanted. Inputs: `[T, width]`. Output: `[S, width]` (the last row of each sequence).

use super::*;
use crate::wgsl::Wgsl;

mod cuda;

/// The op.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherRows;

impl OpDef for GatherRows {
    const NAME: &'static str = "gather_rows";

    fn ggml(&self) -> &'static str {
        "GET_ROWS"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        Ok(vec![Sig::slot(Expr::S, ins[0].width)])
    }

    fn meaning(&self) -> Meaning {
        Meaning::Direct(Box::new(|c| {
            let x = c.input(0).clone();
            let rows: Vec<f32> = c.batch.logit_rows.iter().flat_map(|&r| x.row(r as usize).to_vec()).collect();
            c.output(0).copy_from_slice(&rows);
        }))
    }

    fn cost(&self, site: &Site) -> Cost {
        Cost::of(site.outs[0].bytes(), site.outs[0].bytes(), Expr::Const(0))
    }

    fn cpu(&self, site: &Site) -> Lowering {
        let width = site.outs[0].width;
        Lowering::one(site, "gather_rows/copy", Expr::S, 1, self.cost(site), move |c, _| {
            let x = c.f32s(0);
            while let Some(range) = c.items.take() {
                for i in range {
                    let r = c.batch.logit_rows[i] as usize;
                    c.write(1, i * width..(i + 1) * width).copy_from_slice(&x[r * width..(r + 1) * width]);
                }
            }
        })
    }

    fn cuda(&self, site: &Site) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &Site) -> Lowering {
        let mut w = Wgsl::new("gather_rows/copy", 128);
        w.read("x", Arg::In(0), site.ins[0].dtype);
        w.function("value(r: u32, c: u32) -> f32", "x_at(batch_logit_row(r) * WIDTH + c)");
        w.each(site, self.cost(site))
    }

    fn cases() -> Vec<Case> {
        let b = (6, 3, 2);
        vec![Case::new("last rows", GatherRows, vec![Sig::slot(Expr::T, 33)], b).costs(3 * 132, 3 * 132, 0).within(0.0)]
    }
}
