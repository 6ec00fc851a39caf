//! Shared by the integer kernels of all instruction sets: argument checks, and unpacking of a chunk of a tile in plain
//! loops.

use super::q8::{at_scales, at_sums, q8_row_bytes};
use crate::formats::block::{GroupMin, ScaleKind};
use crate::formats::tile::{TILE_ROWS, TileLayout, UNIT, VEC, Vectors};

/// Units that are unpacked at once (256 columns). The quants and scales of such a chunk stay in L1 while they are
/// multiplied with all tokens.
pub(super) const CHUNK: usize = 8;

/// Up to [`CHUNK`] unpacked units of a tile.
#[repr(C, align(64))]
pub(super) struct Chunk {
    /// Quants of each unit: eight vectors of 16 rows × 4 columns, signed or unsigned as the kernel needs them.
    pub quants: [Vectors; CHUNK],
    /// `d * sc` of each group of each unit at index `2 * unit + group`; groups of 32 columns use the even indices only.
    pub scale: [[f32; TILE_ROWS]; 2 * CHUNK],
    /// Min of each group, at the same index as its scale.
    pub min: [[f32; TILE_ROWS]; 2 * CHUNK],
}

impl Chunk {
    pub(super) const EMPTY: Chunk = Chunk {
        quants: [[[0; VEC]; 8]; CHUNK],
        scale: [[0.0; TILE_ROWS]; 2 * CHUNK],
        min: [[0.0; TILE_ROWS]; 2 * CHUNK],
    };
}

/// Panics unless the slices have the lengths of the layout. After this check a kernel may use pointers.
#[inline(always)]
pub(super) fn check(layout: &TileLayout, tile: &[u8], acts: &[u8], n: usize, out: &[[f32; 16]]) {
    let row = q8_row_bytes(layout.k());
    assert!(tile.len() >= layout.tile_bytes(), "{} bytes are no tile of {}", tile.len(), layout.tile_bytes());
    assert!(n.checked_mul(row).is_some_and(|x| x <= acts.len()), "{} bytes are not {n} rows of {row}", acts.len());
    assert!(out.len() >= n, "the output has {} places for {n} tokens", out.len());
}

/// The zero point that kernels subtract: that of the format, or 128 for a codebook, whose entries are stored plus 128 to
/// be unsigned.
#[inline(always)]
pub(super) fn zero_point(layout: &TileLayout) -> i32 {
    if layout.spec().table.is_some() { 128 } else { layout.spec().zero }
}

/// Unpacks one unit of a tile in plain loops: unsigned quants (for a codebook its entries plus 128), scales and mins.
#[inline(always)]
pub(super) fn fill_unit(layout: &TileLayout, tile: &[u8], unit: usize, chunk: &mut Chunk, slot: usize) {
    let spec = layout.spec();
    let panel = &tile[unit / layout.units() * layout.panel_bytes()..][..layout.panel_bytes()];
    let inside = unit % layout.units();
    let quants = &mut chunk.quants[slot];
    layout.unpack_unit(&panel[layout.at_quants() + inside * layout.unit_bytes()..], quants);
    if let Some(table) = spec.table {
        let unsigned = table.map(|x| (x as u8) ^ 0x80);
        for quant in quants.as_flattened_mut() {
            *quant = unsigned[usize::from(*quant & 15)];
        }
    }
    let d = match spec.scale {
        ScaleKind::F16 => halves(&panel[..2 * TILE_ROWS]),
        ScaleKind::E8M0 => row_numbers(&panel[..2 * TILE_ROWS], super::lanes::bf16_to_f32),
    };
    let groups = UNIT / spec.group;
    for g in 0..groups {
        let at = (inside * groups + g) * TILE_ROWS;
        let scale = &mut chunk.scale[2 * slot + g];
        *scale = d;
        if spec.sub_scales {
            let sc = &panel[layout.at_sc() + at..][..TILE_ROWS];
            for r in 0..TILE_ROWS {
                scale[r] = d[r] * f32::from(sc[r] as i8);
            }
        }
        if spec.min == GroupMin::None {
            continue;
        }
        let min = &mut chunk.min[2 * slot + g];
        *min = halves(&panel[layout.at_m()..][..2 * TILE_ROWS]);
        if spec.min == GroupMin::Scaled {
            let mc = &panel[layout.at_mc() + at..][..TILE_ROWS];
            for r in 0..TILE_ROWS {
                min[r] = -(min[r] * f32::from(mc[r]));
            }
        }
    }
}

#[inline(always)]
fn halves(p: &[u8]) -> [f32; TILE_ROWS] {
    row_numbers(p, super::lanes::f16_to_f32)
}

/// Converts 16 bits of each of the 16 rows to f32.
#[inline(always)]
fn row_numbers(p: &[u8], number: impl Fn(u16) -> f32) -> [f32; TILE_ROWS] {
    let mut out = [0.0; TILE_ROWS];
    for (out, h) in out.iter_mut().zip(p.chunks_exact(2)) {
        *out = number(u16::from_le_bytes([h[0], h[1]]));
    }
    out
}

/// The arrays of one quantized row of activations ([`super::q8`]).
#[derive(Clone, Copy)]
pub(super) struct Act<'a> {
    pub quants: &'a [u8],
    scales: &'a [u8],
    sums: &'a [u8],
}

impl<'a> Act<'a> {
    #[inline(always)]
    pub(super) fn new(acts: &'a [u8], k: usize, t: usize) -> Act<'a> {
        let row = &acts[t * q8_row_bytes(k)..][..q8_row_bytes(k)];
        Act { quants: &row[..k], scales: &row[at_scales(k)..], sums: &row[at_sums(k)..] }
    }

    /// Scale of the 32 columns of unit `u`.
    #[inline(always)]
    pub(super) fn scale(&self, u: usize) -> f32 {
        let p = &self.scales[4 * u..][..4];
        f32::from_le_bytes([p[0], p[1], p[2], p[3]])
    }

    /// Sum of the quants of the sixteen columns from `16 * s` on.
    #[inline(always)]
    pub(super) fn sum(&self, s: usize) -> i32 {
        let p = &self.sums[4 * s..][..4];
        i32::from_le_bytes([p[0], p[1], p[2], p[3]])
    }
}
