//! Quantization: choosing scales and quants for a block of values.
//!
//! There are two families of rules. The *plain* rules derive the scale from the range of a block and round; their result is
//! bitwise that of the `gguf` package. The *searched* rules try several scales for each group, solve the least-squares problem
//! for the quants that each scale yields, and keep the scale with the smallest squared error. Then the scales are rounded to
//! the block's sub-scales, and the quants are chosen again for the rounded scales.

use super::block::{BlockSpec, MAX_GROUPS, Unpacked};
use half::f16;

/// Number of partial sums in a group. Group sizes are multiples of it. The partial sums are written out because the compiler
/// may not reorder a sum of floats to vectorize it.
const LANES: usize = 8;

/// `value` rounded to f16.
fn half(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

/// Like [`half`], but values beyond the range of f16 are clamped instead of becoming infinite.
fn finite_half(value: f32) -> f32 {
    half(value.clamp(-65504.0, 65504.0))
}

/// `1 / d`, or 0 if `d` is 0 (all values of the block are equal to 0 or to the min).
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// 1.5 * 2^23. Adding it to a small number rounds that number to an integer (ties to even), held in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// The nearest integer in `low..=high`, ties to even; the magnitudes of both ends are below 2^22. It avoids `round`, which
/// is a library call on processors without SSE 4.1.
#[inline(always)]
fn nearest(y: f32, low: f32, high: f32) -> f32 {
    (y.clamp(low, high) + MAGIC) - MAGIC
}

/// The nearest integer to `y`, which must be from 0 to 65535. A saturating conversion (`as`) is several times slower.
#[inline(always)]
fn low_bits(y: f32) -> u16 {
    (y + MAGIC).to_bits() as u16
}

/// The value of largest magnitude (the first of several), with its sign; 0 for a block of zeros.
fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |best: f32, &x| if x.abs() > best.abs() { x } else { best })
}

/// Sets the block's scale and min to 0 and the groups' scales and mins to their neutral values.
fn reset(out: &mut Unpacked) {
    (out.d, out.m) = (0.0, 0.0);
    out.sc = [1; MAX_GROUPS];
    out.mc = [0; MAX_GROUPS];
}

/// Plain, without min (Q4_0, Q5_0): the extreme value gets quant 0, which stands for `-zero`.
pub fn plain_signed(spec: &BlockSpec, x: &[f32], out: &mut Unpacked) {
    reset(out);
    let zero = spec.zero as f32;
    let d = extreme(x) / -zero;
    let scale = inverse(d);
    for (quant, x) in out.quants.iter_mut().zip(x) {
        *quant = (x * scale + (zero + 0.5)).min(2.0 * zero - 1.0) as u8;
    }
    out.d = half(d);
}

/// Plain, with min (Q4_1, Q5_1): the smallest value gets quant 0, the largest the highest quant.
pub fn plain_min(spec: &BlockSpec, x: &[f32], out: &mut Unpacked) {
    reset(out);
    let top = ((1u32 << spec.bits) - 1) as f32;
    let low = x.iter().copied().fold(f32::INFINITY, |a, b| if b < a { b } else { a });
    let high = x.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let d = (high - low) / top;
    let scale = inverse(d);
    for (quant, x) in out.quants.iter_mut().zip(x) {
        *quant = ((x - low) * scale + 0.5).min(top) as u8;
    }
    (out.d, out.m) = (half(d), half(low));
}

/// Plain, 8 bits (Q8_0): the largest magnitude gets 127; ties round away from zero.
pub fn plain_bytes(spec: &BlockSpec, x: &[f32], out: &mut Unpacked) {
    reset(out);
    let mut largest = [0f32; LANES];
    for x in x.as_chunks::<LANES>().0 {
        largest.iter_mut().zip(x).for_each(|(largest, x)| *largest = largest.max(x.abs()));
    }
    let d = largest.iter().copied().fold(0.0, f32::max) / 127.0;
    let scale = inverse(d);
    let zero = spec.zero as f32;
    for (quant, x) in out.quants.iter_mut().zip(x) {
        let y = x * scale;
        let even = nearest(y, -127.0, 127.0);
        let rest = y - even;
        // `nearest` rounds ties to even; a tie that was rounded towards zero is moved away from zero again.
        let up = if rest == 0.5 && y > 0.0 { 1.0 } else { 0.0 };
        let down = if rest == -0.5 && y < 0.0 { 1.0 } else { 0.0 };
        *quant = low_bits(even + zero + up - down) as u8;
    }
    out.d = half(d);
}

/// The grid of values to which scaled values are rounded, for the searched rules without min.
#[derive(Clone, Copy)]
pub enum Quants {
    /// Integers from `-zero` to `zero - 1`.
    Even {
        /// The quant of 0.
        zero: f32,
    },
    /// Entries of a codebook, looked up by half units from -128 on (see [`nearest_entries`]).
    Book {
        /// The codebook, in ascending order.
        table: &'static [i8; 16],
        /// The quant of the nearest entry for each half unit.
        nearest: &'static [u8; 512],
    },
}

impl Quants {
    /// The quant for a value in quant units.
    #[inline(always)]
    fn quant(self, y: f32) -> u8 {
        match self {
            Quants::Even { zero } => (nearest(y, -zero, zero - 1.0) + zero) as u8,
            Quants::Book { nearest, .. } => nearest[half_unit(y)],
        }
    }

    /// The values, in quant units, to which the extreme value of a group is scaled in turn: around both ends of the grid, up
    /// to nearly a step outside and inside.
    fn targets(self) -> [f32; 12] {
        let (low, high, step) = match self {
            Quants::Even { zero } => (-zero, zero - 1.0, 0.3),
            Quants::Book { table, .. } => (f32::from(table[0]), f32::from(table[15]), 5.0),
        };
        std::array::from_fn(|i| {
            let (end, i) = if i < 7 { (low, i as f32 - 3.0) } else { (high, i as f32 - 9.0) };
            end + i * step
        })
    }
}

/// Index of the half unit that contains `y`, counted from -128. A `y` on the border of two half units may get either index:
/// at most it is the middle between two entries, and then both are nearest.
#[inline(always)]
fn half_unit(y: f32) -> usize {
    usize::from(low_bits(y.clamp(-128.0, 127.5) * 2.0 + 255.5) & 511)
}

/// For each half unit from -128: the quant of the nearest entry of an ascending codebook. Exact, because the middle
/// between two entries is a multiple of half a unit.
pub const fn nearest_entries(table: &[i8; 16]) -> [u8; 512] {
    let mut out = [0; 512];
    let (mut i, mut quant) = (0, 0);
    while i < 512 {
        // Half unit i begins at i / 2 - 128. Twice the middle between two entries is their sum.
        while quant < 15 && i as i32 - 256 >= table[quant] as i32 + table[quant + 1] as i32 {
            quant += 1;
        }
        out[i] = quant as u8;
        i += 1;
    }
    out
}

/// Largest group of any format.
const MAX_GROUP: usize = 32;

/// Sum of the lanes.
#[inline(always)]
fn total(lanes: [f32; LANES]) -> f32 {
    lanes.iter().sum()
}

/// The scale with the smallest squared error for a group without min.
fn search_scale(quants: Quants, x: &[f32]) -> f32 {
    match quants {
        Quants::Even { zero } => search_scale_by(|y| nearest(y, -zero, zero - 1.0), quants.targets(), x),
        Quants::Book { table, nearest } => {
            search_scale_by(|y| f32::from(table[usize::from(nearest[half_unit(y)] & 15)]), quants.targets(), x)
        }
    }
}

/// [`search_scale`] for the grid that `round` rounds to, with the extreme value scaled to each of `targets`.
#[inline(always)]
fn search_scale_by(round: impl Fn(f32) -> f32, targets: [f32; 12], x: &[f32]) -> f32 {
    let end = extreme(x);
    // For smaller values the inverse is not finite, and an f16 scale would be 0 anyway.
    if end.abs() < 1e-30 {
        return 0.0;
    }
    // Values are divided by the extreme value, so that sums of squares neither underflow nor overflow.
    let mut units = [0f32; MAX_GROUP];
    units.iter_mut().zip(x).for_each(|(unit, x)| *unit = x / end);
    let units = &units[..x.len().min(MAX_GROUP)];
    let (mut best, mut best_gain) = (0.0, 0.0);
    for target in targets {
        let (mut xn, mut nn) = ([0f32; LANES], [0f32; LANES]);
        for units in units.as_chunks::<LANES>().0 {
            for (lane, unit) in units.iter().enumerate() {
                let n = round(unit * target);
                xn[lane] += unit * n;
                nn[lane] += n * n;
            }
        }
        // The squared error of the best scale for these quants is sum(x^2) - xn^2 / nn, so the largest xn^2 / nn is best.
        let (xn, nn) = (total(xn), total(nn));
        let gain = xn * xn / nn;
        if nn > 0.0 && gain > best_gain {
            (best, best_gain) = (xn / nn * end, gain);
        }
    }
    best
}

/// Searched, one scale for the block and no min (IQ4_NL).
pub fn searched(quants: Quants, x: &[f32], out: &mut Unpacked) {
    reset(out);
    out.d = finite_half(search_scale(quants, x));
    let scale = inverse(out.d);
    for (quant, x) in out.quants.iter_mut().zip(x) {
        *quant = quants.quant(x * scale);
    }
}

/// Searched, signed sub-scales from `-limit` to `limit - 1` and no min (Q3_K, Q6_K, IQ4_XS).
pub fn searched_signed(spec: &BlockSpec, quants: Quants, limit: f32, x: &[f32], out: &mut Unpacked) {
    reset(out);
    let mut scales = [0f32; MAX_GROUPS];
    for (scale, x) in scales.iter_mut().zip(x.chunks_exact(spec.group)) {
        *scale = search_scale(quants, x);
    }
    // The scale of largest magnitude gets `-limit`, since the negative side has one step more.
    out.d = finite_half(extreme(&scales) / -limit);
    let steps = inverse(out.d);
    for (g, (x, chosen)) in x.chunks_exact(spec.group).zip(out.quants.chunks_exact_mut(spec.group)).enumerate() {
        out.sc[g] = nearest(scales[g] * steps, -limit, limit - 1.0) as i8;
        let scale = inverse(out.d * f32::from(out.sc[g]));
        for (quant, x) in chosen.iter_mut().zip(x) {
            *quant = quants.quant(x * scale);
        }
    }
}

/// Scale and min (both not negative; `x = scale * quant - min`) with the smallest squared error for a group.
fn search_min(top: f32, x: &[f32]) -> (f32, f32) {
    let low = x.iter().copied().fold(0.0, f32::min);
    let high = x.iter().copied().fold(low, f32::max);
    let range = high - low;
    if range < 1e-30 {
        return (0.0, -low);
    }
    // Values are taken from the lowest value on, in units of the range, so that sums of squares neither underflow nor overflow.
    let mut units = [0f32; MAX_GROUP];
    units.iter_mut().zip(x).for_each(|(unit, x)| *unit = (x - low) / range);
    let units = units[..x.len().min(MAX_GROUP)].as_chunks::<LANES>().0;
    let count = x.len() as f32;
    let (mut best, mut best_error) = ((range / top, -low), f32::INFINITY);
    for step in -4..=4 {
        let scale = top + 0.2 * step as f32;
        let (mut n, mut nn, mut y, mut yn) = ([0f32; LANES], [0f32; LANES], [0f32; LANES], [0f32; LANES]);
        for units in units {
            for (lane, &unit) in units.iter().enumerate() {
                let quant = nearest(unit * scale, 0.0, top);
                n[lane] += quant;
                nn[lane] += quant * quant;
                y[lane] += unit;
                yn[lane] += unit * quant;
            }
        }
        let (n, nn, y, yn) = (total(n), total(nn), total(y), total(yn));
        let spread = count * nn - n * n;
        if spread <= 0.0 {
            continue;
        }
        // Least squares for `unit = a * quant + b`.
        let mut a = (count * yn - n * y) / spread;
        let mut b = (y - a * n) / count;
        if b > -low / range {
            // A min can only be subtracted; here the best scale without a min is taken.
            b = -low / range;
            a = (yn - b * n) / nn;
        }
        let mut error = [0f32; LANES];
        for units in units {
            for (lane, &unit) in units.iter().enumerate() {
                let rest = unit - b - a * nearest(unit * scale, 0.0, top);
                error[lane] += rest * rest;
            }
        }
        let error = total(error);
        if a > 0.0 && error < best_error {
            (best, best_error) = ((a * range, -(low + b * range)), error);
        }
    }
    best
}

/// Searched, unsigned sub-scales and min scales from 0 to `limit` (Q2_K, Q4_K, Q5_K).
pub fn searched_min(spec: &BlockSpec, limit: f32, x: &[f32], out: &mut Unpacked) {
    reset(out);
    let top = ((1u32 << spec.bits) - 1) as f32;
    let mut pairs = [(0f32, 0f32); MAX_GROUPS];
    for (pair, x) in pairs.iter_mut().zip(x.chunks_exact(spec.group)) {
        *pair = search_min(top, x);
    }
    out.d = finite_half(pairs.iter().fold(0.0, |a: f32, p| a.max(p.0)) / limit);
    out.m = finite_half(pairs.iter().fold(0.0, |a: f32, p| a.max(p.1)) / limit);
    let (steps, min_steps) = (inverse(out.d), inverse(out.m));
    for (g, (x, chosen)) in x.chunks_exact(spec.group).zip(out.quants.chunks_exact_mut(spec.group)).enumerate() {
        out.sc[g] = nearest(pairs[g].0 * steps, 0.0, limit) as i8;
        out.mc[g] = nearest(pairs[g].1 * min_steps, 0.0, limit) as u8;
        let scale = inverse(out.d * f32::from(out.sc[g]));
        let min = out.m * f32::from(out.mc[g]);
        for (quant, x) in chosen.iter_mut().zip(x) {
            *quant = nearest((x + min) * scale, 0.0, top) as u8;
        }
    }
}
