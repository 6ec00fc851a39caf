//! Some columns of every row: of each group of `group` numbers the `len` that begin at `start`, one after the other.
//!
//! Splits a joint projection: q, k and v out of one row, or every head's query out of `[query, gate]` pairs.
//! Input `[rows, groups·group]`, output `[rows, groups·len]`.

use super::*;
use crate::wgsl::Wgsl;

mod cuda;

/// The op.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Numbers in a group.
    pub group: usize,
    /// First number taken of each group.
    pub start: usize,
    /// Numbers taken of each group.
    pub len: usize,
}

impl Columns {
    /// Where number `i` of a row of these columns stands in the whole row.
    pub(crate) fn at(&self, i: usize) -> usize {
        i / self.len * self.group + self.start + i % self.len
    }

    /// What an op sees of `x` that reads these columns in place, without a copy of them, or else the whole row. Runs of
    /// `dim` numbers must stay adjacent.
    pub(crate) fn seen(part: &Option<Columns>, x: &Sig, dim: usize) -> Result<Sig, ShapeError> {
        let Some(part) = part else { return Ok(x.clone()) };
        if dim == 0 || !part.len.is_multiple_of(dim) {
            let why = format!("groups of {dim} do not lie whole in columns of {}", part.len);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(part.shape(std::slice::from_ref(x))?.swap_remove(0))
    }

    /// Place of number `i` in the row that an op reads in whole or in part.
    pub(crate) fn place(part: &Option<Columns>, i: usize) -> usize {
        part.as_ref().map_or(i, |part| part.at(i))
    }
}

impl OpDef for Columns {
    const NAME: &'static str = "columns";

    fn ggml(&self) -> &'static str {
        "CONT"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        let inside = self.start.checked_add(self.len).is_some_and(|end| end <= self.group);
        if self.len == 0 || !inside || !ins[0].width.is_multiple_of(self.group) {
            let Columns { group, start, len } = self;
            let why = format!("{len} columns from {start} of each {group} of a width of {}", ins[0].width);
            return Err(ShapeError { op: Self::NAME, why });
        }
        Ok(vec![Sig::slot(ins[0].rows.clone(), ins[0].width / self.group * self.len)])
    }

    fn meaning(&self) -> Meaning {
        let Columns { group, start, len } = *self;
        Meaning::Direct(Box::new(move |c| {
            let x = c.input(0).clone();
            for (out, x) in c.output(0).chunks_exact_mut(len).zip(x.data.chunks_exact(group)) {
                out.copy_from_slice(&x[start..start + len]);
            }
        }))
    }

    fn cost(&self, site: &Site) -> Cost {
        Cost::of(site.outs[0].bytes(), site.outs[0].bytes(), Expr::Const(0))
    }

    fn cpu(&self, site: &Site) -> Lowering {
        let Columns { group, start, len } = *self;
        let (width, out_width) = (site.ins[0].width, site.outs[0].width);
        Lowering::one(site, "columns/copy", site.outs[0].rows.clone(), 1, self.cost(site), move |c, _| {
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

    fn cuda(&self, site: &Site) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &Site) -> Lowering {
        let Columns { group, start, len } = *self;
        let mut w = Wgsl::new("columns/copy", 128);
        w.read("x", Arg::In(0), site.ins[0].dtype);
        let at = format!("x_at(r * {}u + c / {len}u * {group}u + {start}u + c % {len}u)", site.ins[0].width);
        w.function("value(r: u32, c: u32) -> f32", &at);
        w.each(site, self.cost(site))
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let b = (5, 2, 5);
        let op = |group, start, len| Columns { group, start, len };
        vec![
            // 5 rows, 16 numbers of each of 3 heads of 32.
            Case::new("second half of heads", op(32, 16, 16), vec![x(96)], b).costs(5 * 192, 5 * 192, 0).within(0.0),
            Case::new("a range of the row", op(100, 13, 50), vec![x(100)], b).costs(5 * 200, 5 * 200, 0).within(0.0),
        ]
    }
}
