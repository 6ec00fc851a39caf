//! Rows of the embedding table, one for each token id, times a factor.
//!
//! Input: table `[vocabulary, width]`. Output: `[T, width]`.

use super::*;
use onetrip_ir::tensor::{Layout, tile_layout};

mod cuda;
mod wgsl;

/// See the module for inputs and shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// Factor on the rows (Gemma: the square root of the width).
    pub scale: f32,
}

impl OpDef for Embed {
    const NAME: &'static str = "embed";

    fn ggml(&self) -> &'static str {
        "GET_ROWS"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        Ok(vec![Sig::slot(Expr::T, ins[0].width)])
    }

    fn meaning(&self) -> Meaning {
        let scale = self.scale;
        Meaning::Direct(Box::new(move |c| {
            let table = c.input(0).clone();
            let rows: Vec<f32> = c.batch.ids.iter().flat_map(|&id| table.row(id as usize).to_vec()).collect();
            c.output(0).iter_mut().zip(rows).for_each(|(o, x)| *o = x * scale);
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let table = &site.ins[0];
        let scaled = if self.scale == 1.0 { 0 } else { table.width };
        Cost::of(Expr::T * table.row_bytes(), site.outs[0].bytes(), Expr::T * scaled)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (table, scale) = (&site.ins[0], self.scale);
        let (dtype, width, row_bytes) = (table.dtype, table.width, table.row_bytes());
        let tile = match table.layout() {
            Layout::Stored => None,
            Layout::Planes => return Lowering::Gap("weights in planes are for GPUs"),
            Layout::Tile16 => match tile_layout(dtype, width) {
                Some(tile) => Some(tile),
                None => return Lowering::Gap("the table's row-interleaved layout does not exist for this width"),
            },
        };
        let kernel = if tile.is_some() { "embed/tile16" } else { "embed/stored" };
        Lowering::one(site, kernel, Expr::T, 1, self.cost(site), move |c, _| {
            let bytes = c.bytes(0);
            while let Some(range) = c.items.take() {
                for r in range {
                    let id = c.batch.ids[r] as usize;
                    let out = c.write(1, r * width..(r + 1) * width);
                    match &tile {
                        None => dtype.def().dequantize(&bytes[id * row_bytes..(id + 1) * row_bytes], out),
                        Some(tile) => {
                            let at = id / 16 * tile.tile_bytes();
                            tile.row(&bytes[at..at + tile.tile_bytes()], id % 16, out);
                        }
                    }
                    if scale != 1.0 {
                        out.iter_mut().for_each(|x| *x *= scale);
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
        use onetrip_ir::formats::{DType, block::ScaleKind};
        let mut cases = vec![];
        for dtype in DType::ALL.iter().copied() {
            let w = Sig::weight(50, 256, dtype);
            let bytes = 5 * w.row_bytes() as u64;
            cases.push(
                Case::new(dtype.name(), Embed { scale: 1.0 }, vec![w], (5, 1, 5)).costs(bytes, 5 * 1024, 0).within(0.0),
            );
        }
        // Scales that f16 does not have, upwards and downwards.
        for dtype in DType::ALL.iter().copied().filter(|d| d.spec().is_some_and(|s| s.scale == ScaleKind::E8M0)) {
            for power in [120, -110] {
                let scale = 2f32.powi(-power.min(0));
                let (name, table) = (format!("{dtype} of size 2^{power}"), Sig::weight(50, 256, dtype));
                let case = Case::new(name, Embed { scale }, vec![table], (5, 1, 5));
                cases.push(case.sized(2f32.powi(power)).within(0.0));
            }
        }
        let mut tiled = Sig::weight(50, 64, DType::Q8_0);
        tiled.role = onetrip_ir::tensor::Role::Weight(Layout::Tile16);
        cases.push(Case::new("q8_0 in tiles, scaled", Embed { scale: 8.0 }, vec![tiled], (5, 1, 5)).within(0.0));
        cases
    }
}
