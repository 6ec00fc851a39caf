//! A copy of a value, in the same or in another type. Input: `[rows, width]`. Output: the same shape and elements.

use super::*;
use crate::reference::encode_row;
use onetrip_ir::formats::DType;

/// A copy of a value, in the same or in another type.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// The type of the output's elements.
    pub dtype: DType,
}

impl OpDef for Copy {
    const NAME: &'static str = "copy";

    fn ggml(&self) -> &'static str {
        "CPY"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        if self.dtype.row_bytes(ins[0].width).is_none() {
            let why = format!("no rows of {} numbers as {}", ins[0].width, self.dtype.name());
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![Sig { dtype: self.dtype, ..Sig::slot(ins[0].rows.clone(), ins[0].width) }])
    }

    fn meaning(&self) -> Meaning {
        let dtype = self.dtype;
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            let mut stored = vec![0; dtype.row_bytes(x.width).unwrap_or(0)];
            for (out, row) in c.output(0).chunks_exact_mut(x.width).zip(x.data.chunks_exact(x.width)) {
                encode_row(dtype, row, &mut stored);
                dtype.def().dequantize(&stored, out);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        site.streams(Expr::Const(0))
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        if site.ins[0].dtype != DType::F32 || self.dtype != DType::F32 {
            return Lowering::Gap("on the CPU values of a step are f32: a cast has no kernel");
        }
        let width = site.outs[0].width;
        Lowering::one(site, "copy/rows", site.outs[0].rows.clone(), 1, self.cost(site), move |c, _| {
            while let Some(range) = c.items.take() {
                let at = range.start * width..range.end * width;
                c.write(1, at.clone()).copy_from_slice(&c.f32s(0)[at]);
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
        let op = Copy { dtype: DType::F32 };
        vec![Case::new("rows", op, vec![Sig::slot(Expr::T, 33)], (5, 1, 5)).costs(660, 660, 0).within(0.0)]
    }
}
