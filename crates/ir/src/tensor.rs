//! Signatures of tensors: rows, width, element type, and the role that decides where a tensor's memory lies.

use crate::expr::Expr;
use crate::formats::DType;
use crate::formats::planes::Planes;
use crate::formats::tile::TileLayout;

/// Signature of a value: `rows × width` elements of one type, row-major. A weight is `rows × k`, with k innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct Sig {
    /// Rows; symbolic for activations.
    pub rows: Expr,
    /// Elements in a row.
    pub width: usize,
    /// Type or quantization format of the elements.
    pub dtype: DType,
    /// Weight, state or activation.
    pub role: Role,
}

/// The role of a value, which decides who owns its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read-only, from the model file.
    Weight(Layout),
    /// A paged KV cache, which the engine keeps from step to step.
    State(Cache),
    /// A recurrent state, which the engine keeps from step to step: `[recurrent slot][width]` in f32, one slot for each
    /// sequence. In its first chunk a sequence reads it as zeros.
    Recurrent,
    /// An activation, made and read within a step: its memory is a slot.
    Slot,
    /// An activation in a slot, in 16 bits (f16 or bf16) and in the MMA fragment layout of the one matmul that reads it.
    /// Each block of eight rows × 128 columns is 2 KB of 16-byte vectors
    /// `[4 groups of eight columns][8 rows][4 blocks of 32 columns]`; the eight elements of a vector are ordered as the pairs
    /// (0, 4), (1, 5), (2, 6), (3, 7). Rows are padded to a multiple of eight, with undefined contents, and columns to a
    /// multiple of 128.
    MmaFragment,
}

/// Memory layout of a weight. A weight has one layout on a device, which all plans share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The layout of the model file.
    Stored,
    /// Tiles of 16 interleaved rows (`formats::tile`).
    Tile16,
    /// Quants, scales and mins in separate planes (`formats::planes`).
    Planes,
}

/// Shape of a paged KV cache: `[page][head][position][dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Key/value heads.
    pub heads: usize,
    /// Elements per head.
    pub dim: usize,
}

/// Rows and columns to whose multiples an activation in MMA fragment layout is padded.
const FRAGMENT: (u64, usize) = (8, 128);

/// Every shard of a weight but the last has a multiple of this many rows.
pub const SHARD_ROWS: u64 = 16;

impl Sig {
    /// An f32 activation.
    pub fn slot(rows: Expr, width: usize) -> Sig {
        Sig { rows, width, dtype: DType::F32, role: Role::Slot }
    }

    /// This activation with elements of the 16-bit type `dtype`, in MMA fragment layout ([`Role::MmaFragment`]).
    pub fn as_mma_fragment(&self, dtype: DType) -> Sig {
        Sig { dtype, role: Role::MmaFragment, ..self.clone() }
    }

    /// A weight in its stored layout.
    pub fn weight(rows: usize, width: usize, dtype: DType) -> Sig {
        Sig { rows: rows.into(), width, dtype, role: Role::Weight(Layout::Stored) }
    }

    /// A KV cache. `rows` is 0: the engine chooses the number of pages.
    pub fn state(cache: Cache, dtype: DType) -> Sig {
        Sig { rows: Expr::Const(0), width: cache.heads * cache.dim, dtype, role: Role::State(cache) }
    }

    /// A recurrent state of `width` elements for each sequence. `rows` is 0: the engine chooses the number of recurrent slots.
    pub fn recurrent(width: usize) -> Sig {
        Sig { rows: Expr::Const(0), width, dtype: DType::F32, role: Role::Recurrent }
    }

    /// Bytes of one row in the stored layout.
    pub fn row_bytes(&self) -> usize {
        self.dtype.row_bytes(self.width).unwrap_or(self.width * 4)
    }

    /// Bytes of the whole tensor in its layout, padding included.
    pub fn bytes(&self) -> Expr {
        match (self.role, self.rows.constant()) {
            (Role::Weight(Layout::Tile16), Some(rows)) => match tile_layout(self.dtype, self.width) {
                Some(tile) => Expr::from(rows.div_ceil(16) * tile.tile_bytes() as u64),
                None => self.rows.clone() * self.row_bytes(),
            },
            (Role::Weight(Layout::Planes), Some(rows)) => match Planes::new(self.dtype, rows as usize, self.width) {
                Some(planes) => Expr::from(planes.bytes()),
                None => self.rows.clone() * self.row_bytes(),
            },
            (Role::MmaFragment, _) => {
                let (rows, columns) = FRAGMENT;
                Expr::CeilDiv(Box::new(self.rows.clone()), rows)
                    * (rows as usize * 2 * self.width.next_multiple_of(columns))
            }
            _ => self.rows.clone() * self.row_bytes(),
        }
    }

    /// Cuts a weight into shards of at most `limit` bytes: ranges of rows, of equal length except the last, each with a layout
    /// of its own. Returns the whole weight where it fits, or where not even [`SHARD_ROWS`] rows fit.
    pub fn shards(&self, limit: u64) -> Vec<Sig> {
        let part = |rows: u64| Sig { rows: rows.into(), ..self.clone() };
        let fits = |rows: u64| part(rows).bytes().constant().is_none_or(|bytes| bytes <= limit);
        let Some(rows) = self.rows.constant().filter(|&rows| self.is_weight() && !fits(rows)) else {
            return vec![self.clone()];
        };
        let whole = self.bytes().constant().unwrap_or(0);
        let each = (whole.div_ceil(limit.max(1))..=rows).map(|n| rows.div_ceil(n).next_multiple_of(SHARD_ROWS));
        match each.take_while(|&each| each > SHARD_ROWS).chain([SHARD_ROWS]).find(|&each| fits(each)) {
            Some(each) => (0..rows.div_ceil(each)).map(|i| part(each.min(rows - i * each))).collect(),
            None => vec![self.clone()],
        }
    }

    /// True for a weight.
    pub fn is_weight(&self) -> bool {
        matches!(self.role, Role::Weight(_))
    }

    /// The layout of a weight; [`Layout::Stored`] for other values.
    pub fn layout(&self) -> Layout {
        match self.role {
            Role::Weight(l) => l,
            _ => Layout::Stored,
        }
    }

    /// True for an activation in MMA fragment layout.
    pub fn is_mma_fragment(&self) -> bool {
        self.role == Role::MmaFragment
    }

    /// True for a KV cache or a recurrent state. The engine owns its memory; in a graph, a write makes a new version of it.
    pub fn is_state(&self) -> bool {
        matches!(self.role, Role::State(_) | Role::Recurrent)
    }

    /// The shape of a KV cache; none for other values.
    pub fn cache(&self) -> Option<Cache> {
        match self.role {
            Role::State(c) => Some(c),
            _ => None,
        }
    }
}

/// The row-interleaved layout of a weight with rows of `k` elements; none where the format has no such layout.
pub fn tile_layout(dtype: DType, k: usize) -> Option<TileLayout> {
    TileLayout::new(dtype.spec()?, k)
}

/// Why an op cannot take its inputs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op}: {why}")]
pub struct ShapeError {
    /// Name of the op.
    pub op: &'static str,
    /// Which dimensions or types do not fit.
    pub why: String,
}

/// A strided view of every row: `len` elements from `start` on of every group of `group` elements, concatenated.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Elements in a group.
    pub group: usize,
    /// First element taken of each group.
    pub start: usize,
    /// Elements taken of each group.
    pub len: usize,
}

impl Slice {
    /// Name of the op that copies such a view, for errors.
    pub const OP: &'static str = "slice";

    /// The signature of this view of `x` if it is copied: `[rows, width / group · len]`.
    pub fn of(&self, x: &Sig) -> Result<Sig, ShapeError> {
        let Slice { group, start, len } = *self;
        let inside = start.checked_add(len).is_some_and(|end| end <= group);
        if len == 0 || !inside || !x.width.is_multiple_of(group) {
            let why = format!("{len} columns from {start} of each {group} of a width of {}", x.width);
            return Err(ShapeError { op: Self::OP, why });
        }
        Ok(Sig::slot(x.rows.clone(), x.width / group * len))
    }

    /// The column of the whole row at which element `i` of the view lies.
    pub fn at(&self, i: usize) -> usize {
        i / self.len * self.group + self.start + i % self.len
    }

    /// The signature that an op sees if it reads `x` through `view` in place, or the whole of `x` where there is no view. The
    /// op needs runs of `dim` adjacent elements, so `len` must be a multiple of `dim`.
    pub fn seen(view: &Option<Slice>, x: &Sig, dim: usize) -> Result<Sig, ShapeError> {
        let Some(view) = view else { return Ok(x.clone()) };
        if dim == 0 || !view.len.is_multiple_of(dim) {
            let why = format!("groups of {dim} do not lie whole in columns of {}", view.len);
            return Err(ShapeError { op: Self::OP, why });
        }
        view.of(x)
    }

    /// The column at which element `i` lies, for an op that reads the row through `view` or, without one, whole.
    pub fn place(view: &Option<Slice>, i: usize) -> usize {
        view.as_ref().map_or(i, |view| view.at(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Bind;

    #[test]
    fn fragments_have_whole_groups_of_eight_rows_and_128_columns() {
        let bytes =
            |t, width| Sig::slot(Expr::T, width).as_mma_fragment(DType::F16).bytes().eval(Bind { t, s: 1, l: t });
        assert_eq!([bytes(8, 128), bytes(9, 128), bytes(33, 256)], [2048, 4096, 5 * 2 * 2048]);
        assert_eq!(bytes(16, 129), 2 * 2 * 2048);
    }

    #[test]
    fn shards_hold_all_rows_and_none_is_larger_than_the_limit() {
        for (dtype, layout) in
            [(DType::F16, Layout::Stored), (DType::Q4_1, Layout::Planes), (DType::Q8_0, Layout::Planes)]
        {
            let sig = Sig { role: Role::Weight(layout), ..Sig::weight(1000, 512, dtype) };
            let whole = sig.bytes().constant().unwrap_or(0);
            assert_eq!(sig.shards(whole), vec![sig.clone()]);
            for limit in [whole - 1, whole / 2, whole / 7, 40_000] {
                let shards = sig.shards(limit);
                let sizes: Vec<u64> = shards.iter().filter_map(|s| s.bytes().constant()).collect();
                let rows: Vec<u64> = shards.iter().filter_map(|s| s.rows.constant()).collect();
                assert!(shards.len() as u64 >= whole.div_ceil(limit) && sizes.iter().all(|&b| b <= limit), "{sizes:?}");
                assert_eq!(rows.iter().sum::<u64>(), 1000);
                assert!(rows.windows(2).all(|w| w[0] % SHARD_ROWS == 0 && w[0] >= w[1]), "{rows:?}");
            }
            // Not even 16 rows fit: the weight stays whole, and the device refuses it with an error.
            assert_eq!(sig.shards(1000), vec![sig]);
        }
    }
}
