//! Tile kernels in plain Rust, for every processor.

use super::tile_shared::{Act, CHUNK, Chunk, check, fill_unit, zero_point};
use crate::formats::block::GroupMin;
use crate::formats::tile::{TileLayout, UNIT};

/// See [`super::Simd::dot_tile`]. A chunk of the tile is unpacked once and multiplied with all tokens.
#[inline(always)]
pub(super) unsafe fn dot_tile(layout: &TileLayout, tile: &[u8], acts: &[u8], n: usize, out: &mut [[f32; 16]]) {
    check(layout, tile, acts, n, out);
    let out = &mut out[..n];
    out.fill([0.0; 16]);
    let units = layout.k() / UNIT;
    let mut chunk = Chunk::EMPTY;
    for first in (0..units).step_by(CHUNK) {
        let count = (units - first).min(CHUNK);
        for slot in 0..count {
            fill_unit(layout, tile, first + slot, &mut chunk, slot);
        }
        for (t, out) in out.iter_mut().enumerate() {
            let act = Act::new(acts, layout.k(), t);
            for slot in 0..count {
                add_unit(layout, &chunk, slot, act, first + slot, out);
            }
        }
    }
}

/// One unit times one token: integer sums for each group, then the scales.
#[inline(always)]
fn add_unit(layout: &TileLayout, chunk: &Chunk, slot: usize, act: Act, unit: usize, out: &mut [f32; 16]) {
    let zero = zero_point(layout);
    let groups = UNIT / layout.spec().group;
    let a = &act.quants[unit * UNIT..][..UNIT];
    let d = act.scale(unit);
    for g in 0..groups {
        let vectors = 8 / groups;
        let sum = if groups == 2 { act.sum(2 * unit + g) } else { act.sum(2 * unit) + act.sum(2 * unit + 1) };
        let mut sums = [-zero * sum; 16];
        for j in g * vectors..(g + 1) * vectors {
            let w = &chunk.quants[slot][j];
            let a: [i32; 4] = std::array::from_fn(|i| i32::from(a[4 * j + i] as i8));
            for (s, w) in sums.iter_mut().zip(w.chunks_exact(4)) {
                *s += i32::from(w[0]) * a[0] + i32::from(w[1]) * a[1] + i32::from(w[2]) * a[2] + i32::from(w[3]) * a[3];
            }
        }
        let scale = &chunk.scale[2 * slot + g];
        for r in 0..16 {
            out[r] += sums[r] as f32 * d * scale[r];
        }
        if layout.spec().min != GroupMin::None {
            let (min, sum) = (&chunk.min[2 * slot + g], d * sum as f32);
            for r in 0..16 {
                out[r] += sum * min[r];
            }
        }
    }
}
