//! A slice of every row: `len` elements from `start` of every `group` elements, packed side by side.
//!
//! It splits a packed projection: q, k or v out of a row, or every head's query out of `[query, gate]` pairs.
//! Input `[rows, groups·group]`, output `[rows, groups·len]`.

use onetrip_ir::tensor::Slice;

use super::*;

mod cuda;
mod wgsl;

impl OpDef for Slice {
    const NAME: &'static str = Slice::OP;

    fn ggml(&self) -> &'static str {
        "CONT"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        Ok(vec![self.of(&ins[0])?])
    }

    fn meaning(&self) -> Meaning {
        let Slice { group, start, len } = *self;
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            for (out, x) in c.output(0).chunks_exact_mut(len).zip(x.data.chunks_exact(group)) {
                out.copy_from_slice(&x[start..start + len]);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        Cost::of(site.outs[0].bytes(), site.outs[0].bytes(), Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let Slice { group, start, len } = *self;
        let (width, out_width) = (site.ins[0].width, site.outs[0].width);
        Lowering::one(site, "slice/copy", site.outs[0].rows.clone(), 1, self.cost(site), move |c, _| {
            let x = c.f32s(0);
            while let Some(range) = c.items.take() {
                for r in range {
                    let row = &x[r * width..(r + 1) * width];
                    let out = c.write(1, r * out_width..(r + 1) * out_width);
                    for (o, x) in out.chunks_exact_mut(len).zip(row.chunks_exact(group)) {
                        o.copy_from_slice(&x[start..start + len]);
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
        let b = (5, 2, 5);
        let op = |group, start, len| Slice { group, start, len };
        vec![
            // 5 rows; 16 elements of each of 3 heads of 32.
            Case::new("second half of heads", op(32, 16, 16), vec![x(96)], b).costs(5 * 192, 5 * 192, 0).within(0.0),
            Case::new("a range of the row", op(100, 13, 50), vec![x(100)], b).costs(5 * 200, 5 * 200, 0).within(0.0),
        ]
    }
}
