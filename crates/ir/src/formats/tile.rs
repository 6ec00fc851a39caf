//! The row-interleaved layout of quantized weights for the CPU: 16 rows side by side, one 32-bit lane of a 512-bit vector for
//! each row.
//!
//! A *tile* is [`TILE_ROWS`] consecutive rows × `k` columns. It is a sequence of *panels*, one for each block of columns of
//! the format (32 or 256 columns), so that a kernel reads a tile sequentially. A panel of `block` columns is:
//!
//! | field | bytes | present |
//! |---|---|---|
//! | `d`, 16 bits a row of the format's [`ScaleKind`](super::block::ScaleKind) | 32 | always |
//! | `m`, f16 a row | 32 | unless [`GroupMin::None`] |
//! | `sc`, i8 a row, group after group | 16 × groups | with `sub_scales` |
//! | `mc`, u8 a row, group after group | 16 × groups | with [`GroupMin::Scaled`] |
//! | quants, *unit* after unit | 64 × `bits` × units | always |
//!
//! A *unit* is 32 columns. Its 32 × 16 quants form eight vectors `V0..V7` of 64 bytes, in which `Vj[row * 4 + i]` is the quant
//! of column `4j + i`: one dot-product instruction with a broadcast dword of activations computes 4 columns of 16 rows. The
//! eight vectors are stored without unused bits in planes of 64 bytes; a quant's bits stay in the byte lane of its vector:
//!
//! | bits | planes |
//! |---|---|
//! | 8 | `V0..V7` |
//! | 4 | 4 nibble planes: `Pj = Vj \| Vj+4 << 4` |
//! | 5 | nibble planes of the low 4 bits, then one plane whose bit `j` is bit 4 of `Vj` |
//! | 6 | nibble planes of the low 4 bits, then two pair planes of the high 2 |
//! | 2 | two pair planes: plane `h` holds `V4h+i` in bits `2i, 2i+1` |
//! | 3 | pair planes of the low 2 bits, then one plane of bit 2 as for 5 bits |
//!
//! Rows beyond the end of the matrix have `d = m = 0`, so that their results are zero.

use super::block::{BlockSpec, GroupMin, MAX_BLOCK, MAX_GROUPS, Unpacked};
use half::f16;

/// Rows in a tile.
pub const TILE_ROWS: usize = 16;
/// Columns in a unit, which kernels process at a time; also the columns that share a scale of the activations.
pub const UNIT: usize = 32;
/// Bytes of one vector: 16 rows × 4 columns of quants.
pub(crate) const VEC: usize = 64;

/// The eight vectors of a unit.
pub(crate) type Vectors = [[u8; VEC]; 8];

/// How the quants of a unit are packed into planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Two pair planes.
    Bits2,
    /// Two pair planes and a bit plane.
    Bits3,
    /// Four nibble planes.
    Bits4,
    /// Four nibble planes and a bit plane.
    Bits5,
    /// Four nibble planes and two pair planes.
    Bits6,
    /// Eight byte planes.
    Bits8,
    /// Like [`Packing::Bits4`]; the kernel looks the quant up in the codebook.
    Table,
}

/// The tiles of one format at one width: sizes and offsets, checked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileLayout {
    spec: BlockSpec,
    k: usize,
    packing: Packing,
    panels: usize,
    panel_bytes: usize,
    tile_bytes: usize,
    at_m: usize,
    at_sc: usize,
    at_mc: usize,
    at_quants: usize,
    unit_bytes: usize,
}

impl TileLayout {
    /// The layout of tiles `k` columns wide. `None` where the format or width has no tiles: `k` must be a multiple
    /// of the block, the block 32 to 256 in steps of 32, the group 16 or 32.
    pub fn new(spec: BlockSpec, k: usize) -> Option<TileLayout> {
        let packing = match (spec.bits, spec.table) {
            (2, None) => Packing::Bits2,
            (3, None) => Packing::Bits3,
            (4, None) => Packing::Bits4,
            (5, None) => Packing::Bits5,
            (6, None) => Packing::Bits6,
            (8, None) => Packing::Bits8,
            (4, Some(_)) => Packing::Table,
            _ => return None,
        };
        let fits = spec.block > 0
            && spec.block <= MAX_BLOCK
            && spec.block.is_multiple_of(UNIT)
            && (spec.group == 16 || spec.group == 32)
            && k > 0
            && k.is_multiple_of(spec.block)
            && (0..=128).contains(&spec.zero)
            && (spec.table.is_none() || spec.zero == 0)
            && spec.bytes > 0;
        if !fits {
            return None;
        }
        let groups = spec.block / spec.group;
        let lanes = TILE_ROWS;
        let at_m = 2 * lanes;
        let at_sc = at_m + if spec.min == GroupMin::None { 0 } else { 2 * lanes };
        let at_mc = at_sc + if spec.sub_scales { groups * lanes } else { 0 };
        let at_quants = at_mc + if spec.min == GroupMin::Scaled { groups * lanes } else { 0 };
        let unit_bytes = VEC * spec.bits as usize;
        let panel_bytes = at_quants + spec.block / UNIT * unit_bytes;
        let panels = k / spec.block;
        let tile_bytes = panels.checked_mul(panel_bytes)?.checked_next_multiple_of(VEC)?;
        Some(TileLayout {
            spec,
            k,
            packing,
            panels,
            panel_bytes,
            tile_bytes,
            at_m,
            at_sc,
            at_mc,
            at_quants,
            unit_bytes,
        })
    }

    /// The format of the weights.
    pub fn spec(&self) -> &BlockSpec {
        &self.spec
    }

    /// Columns of a tile.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Bytes of a tile, a multiple of 64. Tiles follow each other without a gap.
    pub fn tile_bytes(&self) -> usize {
        self.tile_bytes
    }

    /// Bytes of `rows` rows in tiles, or `None` where that overflows.
    pub fn matrix_bytes(&self, rows: usize) -> Option<usize> {
        rows.div_ceil(TILE_ROWS).checked_mul(self.tile_bytes)
    }

    /// Bytes of one row as the file stores it.
    pub fn stored_row_bytes(&self) -> usize {
        self.panels * self.spec.bytes
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }
    pub(crate) fn panels(&self) -> usize {
        self.panels
    }
    pub(crate) fn panel_bytes(&self) -> usize {
        self.panel_bytes
    }
    pub(crate) fn units(&self) -> usize {
        self.spec.block / UNIT
    }
    pub(crate) fn unit_bytes(&self) -> usize {
        self.unit_bytes
    }
    pub(crate) fn at_m(&self) -> usize {
        self.at_m
    }
    pub(crate) fn at_sc(&self) -> usize {
        self.at_sc
    }
    pub(crate) fn at_mc(&self) -> usize {
        self.at_mc
    }
    pub(crate) fn at_quants(&self) -> usize {
        self.at_quants
    }

    /// Fills one tile from up to 16 stored rows. `unpack` unpacks one stored block; bits of a quant above the format's width
    /// are dropped. Missing rows become zero.
    ///
    /// # Panics
    /// If there are more than 16 rows, a row is shorter than [`TileLayout::stored_row_bytes`], or `out` is not
    /// [`TileLayout::tile_bytes`] long.
    pub fn pack(&self, rows: &[&[u8]], unpack: &dyn Fn(&[u8], &mut Unpacked), out: &mut [u8]) {
        assert!(rows.len() <= TILE_ROWS, "a tile has {TILE_ROWS} rows, not {}", rows.len());
        assert_eq!(out.len(), self.tile_bytes, "the output is not one tile");
        assert!(rows.iter().all(|r| r.len() >= self.stored_row_bytes()), "a stored row is too short");
        let groups = self.spec.block / self.spec.group;
        let mut block = Unpacked::default();
        let mut stage = [[[0u8; VEC]; 8]; MAX_BLOCK / UNIT];
        let stage = &mut stage[..self.units()];
        let (panels, padding) = out.split_at_mut(self.panels * self.panel_bytes);
        padding.fill(0);
        for (p, panel) in panels.chunks_exact_mut(self.panel_bytes).enumerate() {
            let (head, quants) = panel.split_at_mut(self.at_quants);
            if rows.len() < TILE_ROWS {
                head.fill(0);
            }
            for (r, row) in rows.iter().enumerate() {
                unpack(&row[p * self.spec.bytes..][..self.spec.bytes], &mut block);
                head[2 * r..2 * r + 2].copy_from_slice(&self.spec.scale.to_bits(block.d).to_le_bytes());
                if self.spec.min != GroupMin::None {
                    head[self.at_m + 2 * r..][..2].copy_from_slice(&f16::from_f32(block.m).to_le_bytes());
                }
                if self.spec.sub_scales {
                    for (g, sc) in block.sc[..groups].iter().enumerate() {
                        head[self.at_sc + g * TILE_ROWS + r] = *sc as u8;
                    }
                }
                if self.spec.min == GroupMin::Scaled {
                    for (g, mc) in block.mc[..groups].iter().enumerate() {
                        head[self.at_mc + g * TILE_ROWS + r] = *mc;
                    }
                }
                for (four, vec) in block.quants[..self.spec.block].chunks_exact(4).zip(stage.as_flattened_mut()) {
                    vec[4 * r..4 * r + 4].copy_from_slice(four);
                }
            }
            for (unit, planes) in stage.iter().zip(quants.chunks_exact_mut(self.unit_bytes)) {
                self.pack_unit(unit, planes);
            }
        }
    }

    /// Packs eight vectors into planes; bits above the format's width are dropped.
    fn pack_unit(&self, v: &Vectors, planes: &mut [u8]) {
        match self.packing {
            Packing::Bits8 => planes.copy_from_slice(v.as_flattened()),
            Packing::Bits4 | Packing::Table => nibble_planes(v, planes),
            Packing::Bits5 => {
                let (low, high) = planes.split_at_mut(4 * VEC);
                nibble_planes(v, low);
                bit_plane(v, 4, high);
            }
            Packing::Bits6 => {
                let (low, high) = planes.split_at_mut(4 * VEC);
                nibble_planes(v, low);
                pair_planes(v, 4, high);
            }
            Packing::Bits2 => pair_planes(v, 0, planes),
            Packing::Bits3 => {
                let (low, high) = planes.split_at_mut(2 * VEC);
                pair_planes(v, 0, low);
                bit_plane(v, 2, high);
            }
        }
    }

    /// Unpacks planes to eight vectors of quants in plain loops: the definition that the kernels are tested against.
    #[inline(always)]
    pub(crate) fn unpack_unit(&self, planes: &[u8], v: &mut Vectors) {
        let planes = &planes[..self.unit_bytes];
        match self.packing {
            Packing::Bits8 => v.as_flattened_mut().copy_from_slice(planes),
            Packing::Bits4 | Packing::Table => from_nibbles(planes, v),
            Packing::Bits5 => {
                from_nibbles(planes, v);
                or_bits(&planes[4 * VEC..], 4, v);
            }
            Packing::Bits6 => {
                from_nibbles(planes, v);
                or_pairs(&planes[4 * VEC..], 4, v);
            }
            Packing::Bits2 => {
                *v = [[0; VEC]; 8];
                or_pairs(planes, 0, v);
            }
            Packing::Bits3 => {
                *v = [[0; VEC]; 8];
                or_pairs(planes, 0, v);
                or_bits(&planes[2 * VEC..], 2, v);
            }
        }
    }

    /// Dequantizes one row of a tile, `k` values, exactly as [`BlockSpec`] defines them.
    ///
    /// # Panics
    /// If `tile` is shorter than a tile, `row` is not below 16, or `out` is not `k` long.
    pub fn row(&self, tile: &[u8], row: usize, out: &mut [f32]) {
        assert!(row < TILE_ROWS && tile.len() >= self.tile_bytes && out.len() == self.k, "not a row of this tile");
        let bits_at = |p: &[u8], at: usize| u16::from_le_bytes([p[at + 2 * row], p[at + 2 * row + 1]]);
        let half_at = |p: &[u8], at: usize| f16::from_bits(bits_at(p, at)).to_f32();
        let groups = self.spec.block / self.spec.group;
        let mut v = [[0u8; VEC]; 8];
        for (panel, out) in tile.chunks_exact(self.panel_bytes).zip(out.chunks_exact_mut(self.spec.block)) {
            let d = self.spec.scale.from_bits(bits_at(panel, 0));
            let mut scale = [d; MAX_GROUPS];
            let mut min = [0.0f32; MAX_GROUPS];
            for g in 0..groups {
                if self.spec.sub_scales {
                    scale[g] = d * f32::from(panel[self.at_sc + g * TILE_ROWS + row] as i8);
                }
                min[g] = match self.spec.min {
                    GroupMin::None => 0.0,
                    GroupMin::Plain => half_at(panel, self.at_m),
                    GroupMin::Scaled => {
                        -(half_at(panel, self.at_m) * f32::from(panel[self.at_mc + g * TILE_ROWS + row]))
                    }
                };
            }
            for (u, out) in out.chunks_exact_mut(UNIT).enumerate() {
                self.unpack_unit(&panel[self.at_quants + u * self.unit_bytes..], &mut v);
                for (c, out) in out.iter_mut().enumerate() {
                    let quant = v[c / 4][row * 4 + c % 4];
                    let number = match self.spec.table {
                        Some(table) => i32::from(table[usize::from(quant & 15)]),
                        None => i32::from(quant) - self.spec.zero,
                    };
                    let g = (u * UNIT + c) / self.spec.group;
                    let value = scale[g] * number as f32;
                    // Without a min nothing is added, since adding 0 would turn -0 into 0.
                    *out = if self.spec.min == GroupMin::None { value } else { value + min[g] };
                }
            }
        }
    }
}

/// `Pj = Vj | Vj+4 << 4`, low four bits only.
fn nibble_planes(v: &Vectors, planes: &mut [u8]) {
    for (j, plane) in planes.chunks_exact_mut(VEC).enumerate() {
        for ((out, a), b) in plane.iter_mut().zip(&v[j]).zip(&v[j + 4]) {
            *out = (a & 15) | (b << 4);
        }
    }
}

#[inline(always)]
fn from_nibbles(planes: &[u8], v: &mut Vectors) {
    let (low, high) = v.split_at_mut(4);
    for ((plane, low), high) in planes.chunks_exact(VEC).zip(low).zip(high) {
        for ((p, a), b) in plane.iter().zip(low).zip(high) {
            (*a, *b) = (p & 15, p >> 4);
        }
    }
}

/// One plane with two bits, from bit `shift` on, of each of the first four vectors; a second plane for the other four.
fn pair_planes(v: &Vectors, shift: u32, planes: &mut [u8]) {
    for (h, plane) in planes.chunks_exact_mut(VEC).enumerate() {
        plane.fill(0);
        for (i, v) in v[4 * h..4 * h + 4].iter().enumerate() {
            for (out, x) in plane.iter_mut().zip(v) {
                *out |= ((x >> shift) & 3) << (2 * i);
            }
        }
    }
}

#[inline(always)]
fn or_pairs(planes: &[u8], shift: u32, v: &mut Vectors) {
    for (j, v) in v.iter_mut().enumerate() {
        for (out, p) in v.iter_mut().zip(&planes[j / 4 * VEC..][..VEC]) {
            *out |= ((p >> (2 * (j % 4))) & 3) << shift;
        }
    }
}

/// One plane with bit `shift` of each of eight vectors: vector `j` in bit `j`.
fn bit_plane(v: &Vectors, shift: u32, plane: &mut [u8]) {
    plane.fill(0);
    for (j, v) in v.iter().enumerate() {
        for (out, x) in plane.iter_mut().zip(v) {
            *out |= ((x >> shift) & 1) << j;
        }
    }
}

#[inline(always)]
fn or_bits(plane: &[u8], shift: u32, v: &mut Vectors) {
    for (j, v) in v.iter_mut().enumerate() {
        for (out, p) in v.iter_mut().zip(&plane[..VEC]) {
            *out |= ((p >> j) & 1) << shift;
        }
    }
}
