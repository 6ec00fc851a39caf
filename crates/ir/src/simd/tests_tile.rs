//! Tile kernels on every instruction set, against a reference in f64 over the unpacked blocks.

use super::{Isa, Q8Rows, q8_row_bytes, simd};
use crate::formats::block::{BlockSpec, GroupMin, ScaleKind, Unpacked};
use crate::formats::tile::{TILE_ROWS, TileLayout};
use half::f16;

const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// In these tests a stored block is a seed, from which `unpack` derives quants, scales and mins.
const BYTES: usize = 8;

fn spec(block: usize, group: usize, bits: u32, zero: i32, min: GroupMin, sub_scales: bool) -> BlockSpec {
    BlockSpec { block, bytes: BYTES, group, bits, zero, min, table: None, sub_scales, scale: ScaleKind::F16 }
}

/// Every combination of group size, bits, scales and mins that a real format has.
fn specs() -> Vec<(&'static str, BlockSpec)> {
    let table = |mut spec: BlockSpec| {
        spec.table = Some(&TABLE);
        spec
    };
    vec![
        ("q4_0", spec(32, 32, 4, 8, GroupMin::None, false)),
        ("q4_1", spec(32, 32, 4, 0, GroupMin::Plain, false)),
        ("q5_0", spec(32, 32, 5, 16, GroupMin::None, false)),
        ("q5_1", spec(32, 32, 5, 0, GroupMin::Plain, false)),
        ("q8_0", spec(32, 32, 8, 128, GroupMin::None, false)),
        ("q2_k", spec(256, 16, 2, 0, GroupMin::Scaled, true)),
        ("q3_k", spec(256, 16, 3, 4, GroupMin::None, true)),
        ("q4_k", spec(256, 32, 4, 0, GroupMin::Scaled, true)),
        ("q5_k", spec(256, 32, 5, 0, GroupMin::Scaled, true)),
        ("q6_k", spec(256, 16, 6, 32, GroupMin::None, true)),
        ("iq4_nl", table(spec(32, 32, 4, 0, GroupMin::None, false))),
        ("iq4_xs", table(spec(256, 32, 4, 0, GroupMin::None, true))),
        ("mxfp4", BlockSpec { scale: ScaleKind::E8M0, ..table(spec(32, 32, 4, 0, GroupMin::None, false)) }),
    ]
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Quants over their whole range; one block in four has only the smallest and largest quants.
fn unpack(spec: &BlockSpec, bytes: &[u8], out: &mut Unpacked) {
    let mut random = Random(u64::from_le_bytes(bytes.try_into().unwrap()));
    let extreme = random.next().is_multiple_of(4);
    let most = (1u64 << spec.bits) - 1;
    for quant in &mut out.quants[..spec.block] {
        let x = random.next();
        *quant = if extreme { (x & 1) * most } else { x & most } as u8;
    }
    out.d = match spec.scale {
        ScaleKind::F16 => f16::from_f32(random.unit() * 0.1).to_f32(),
        // From 2^-60 to 2^3: the smallest are far below the range of f16.
        ScaleKind::E8M0 => 2f32.powi((random.next() % 64) as i32 - 60),
    };
    out.m = if spec.min == GroupMin::None { 0.0 } else { f16::from_f32(random.unit()).to_f32() };
    for g in 0..spec.block / spec.group {
        out.sc[g] = if spec.sub_scales { random.next() as i8 } else { 1 };
        out.mc[g] = if spec.min == GroupMin::Scaled { random.next() as u8 & 63 } else { 0 };
    }
}

struct Matrix {
    layout: TileLayout,
    stored: Vec<u8>,
    tile: Vec<u8>,
}

fn matrix(spec: BlockSpec, k: usize, rows: usize, seed: u64) -> Matrix {
    let layout = TileLayout::new(spec, k).unwrap();
    let mut random = Random(seed);
    let stored: Vec<u8> = (0..rows * k / spec.block).flat_map(|_| random.next().to_le_bytes()).collect();
    let views: Vec<&[u8]> = stored.chunks(layout.stored_row_bytes()).collect();
    let mut tile = vec![0xaa; layout.tile_bytes()];
    layout.pack(&views, &|b, u| unpack(&spec, b, u), &mut tile);
    Matrix { layout, stored, tile }
}

impl Matrix {
    /// Row `r` by the formula of the format; `number` makes an element from the unpacked block, the group and the quant less
    /// zero point (or the codebook value).
    fn reference<T>(&self, r: usize, number: impl Fn(&Unpacked, usize, i32) -> T) -> Vec<T> {
        let spec = *self.layout.spec();
        let row = &self.stored[r * self.layout.stored_row_bytes()..][..self.layout.stored_row_bytes()];
        let mut block = Unpacked::default();
        let mut out = Vec::new();
        for bytes in row.chunks(BYTES) {
            unpack(&spec, bytes, &mut block);
            for c in 0..spec.block {
                let quant = block.quants[c];
                let n = spec.table.map_or(i32::from(quant) - spec.zero, |t| i32::from(t[usize::from(quant)]));
                out.push(number(&block, c / spec.group, n));
            }
        }
        out
    }

    fn row_f32(&self, r: usize) -> Vec<f32> {
        let min = self.layout.spec().min;
        self.reference(r, |b, g, n| {
            let value = (b.d * f32::from(b.sc[g])) * n as f32;
            match min {
                GroupMin::None => value,
                GroupMin::Plain => value + b.m,
                GroupMin::Scaled => value + -(b.m * f32::from(b.mc[g])),
            }
        })
    }

    /// `(value without min, min)` in f64.
    fn row_f64(&self, r: usize) -> Vec<(f64, f64)> {
        let min = self.layout.spec().min;
        self.reference(r, |b, g, n| {
            let value = f64::from(b.d) * f64::from(b.sc[g]) * f64::from(n);
            let off = match min {
                GroupMin::None => 0.0,
                GroupMin::Plain => f64::from(b.m),
                GroupMin::Scaled => -f64::from(b.m) * f64::from(b.mc[g]),
            };
            (value, off)
        })
    }
}

/// All activations of every third token have the largest magnitude, so that their quants are ±127.
fn activations(k: usize, n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..n * k)
        .map(|i| if i / k % 3 == 2 { if random.next() & 1 == 0 { 2.5 } else { -2.5 } } else { random.unit() * 3.0 })
        .collect()
}

fn quantized(isa: Isa, x: &[f32], k: usize) -> Vec<u8> {
    let bytes = q8_row_bytes(k);
    let mut out = vec![0x55; x.len() / k * bytes];
    for (x, out) in x.chunks(k).zip(out.chunks_mut(bytes)) {
        (simd(isa).quantize_q8)(x, out);
    }
    out
}

#[test]
fn rows_of_a_tile_are_bit_equal_to_the_formula() {
    for (name, spec) in specs() {
        for (k, rows) in [(256, 16), (768, 5)] {
            let m = matrix(spec, k, rows, 7);
            for r in 0..TILE_ROWS {
                let mut out = vec![f32::NAN; k];
                m.layout.row(&m.tile, r, &mut out);
                let want = if r < rows { m.row_f32(r) } else { vec![0.0; k] };
                let same = |(a, b): (&f32, &f32)| if r < rows { a.to_bits() == b.to_bits() } else { a == b };
                assert!(out.iter().zip(&want).all(same), "{name} k {k} row {r}");
            }
        }
    }
}

#[test]
fn tile_dots_equal_the_f64_reference_on_every_instruction_set() {
    for (name, spec) in specs() {
        let widths: &[usize] = if spec.block == 256 { &[256, 512, 2304] } else { &[32, 96, 256, 288, 2304] };
        for &k in widths {
            for n in [0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33] {
                check(name, spec, k, n, 16);
            }
            check(name, spec, k, 6, 11);
        }
    }
}

fn check(name: &str, spec: BlockSpec, k: usize, n: usize, rows: usize) {
    let m = matrix(spec, k, rows, (k * n) as u64);
    let x = activations(k, n, k as u64 + 1);
    let acts = quantized(Isa::Portable, &x, k);
    let view = Q8Rows::new(&acts, k).unwrap();
    let values: Vec<Vec<(f64, f64)>> = (0..rows).map(|r| m.row_f64(r)).collect();
    let mut first: Option<Vec<[f32; 16]>> = None;
    for &isa in Isa::available() {
        assert_eq!(quantized(isa, &x, k), acts, "{isa:?}: quantized bits differ");
        let mut out = vec![[f32::NAN; 16]; n + 1];
        out[n] = [77.0; 16];
        (simd(isa).dot_tile)(&m.layout, &m.tile, &acts, n, &mut out);
        assert_eq!(out[n], [77.0; 16], "{isa:?} wrote behind its output");
        for t in 0..n {
            for r in 0..TILE_ROWS {
                let (mut want, mut size) = (0.0f64, 0.0f64);
                if r < rows {
                    for (c, (value, off)) in values[r].iter().enumerate() {
                        let a = f64::from(view.scale(t, c / 32)) * f64::from(view.quant(t, c));
                        want += (value + off) * a;
                        size += (value * a).abs() + (off * a).abs();
                    }
                }
                let got = f64::from(out[t][r]);
                assert!(
                    (got - want).abs() <= 1e-6 * size,
                    "{name} {isa:?} k {k} n {n} token {t} row {r}: {got} is not {want} (size {size})"
                );
                if let Some(first) = &first {
                    let other = f64::from(first[t][r]);
                    assert!((got - other).abs() <= 1e-6 * size, "{name} {isa:?} differs from portable");
                }
            }
        }
        first.get_or_insert(out);
    }
}

#[test]
fn integer_sums_are_exact_where_all_scales_are_one() {
    // With d = 1 and activations whose scale is 1, every result is an integer below 2^24: no rounding anywhere.
    for (name, spec) in specs() {
        let k = 256;
        let layout = TileLayout::new(spec, k).unwrap();
        let one = |bytes: &[u8], out: &mut Unpacked| {
            unpack(&spec, bytes, out);
            (out.d, out.m) = (1.0, if spec.min == GroupMin::None { 0.0 } else { 1.0 });
            out.sc = [1; 16];
            out.mc = if spec.min == GroupMin::Scaled { [2; 16] } else { [0; 16] };
        };
        let stored: Vec<u8> = (0..16 * k / spec.block).flat_map(|i| (i as u64).to_le_bytes()).collect();
        let rows: Vec<&[u8]> = stored.chunks(layout.stored_row_bytes()).collect();
        let mut tile = vec![0; layout.tile_bytes()];
        layout.pack(&rows, &one, &mut tile);
        let mut random = Random(3);
        let x: Vec<f32> =
            (0..5 * k).map(|i| if i % 32 == 0 { 127.0 } else { (random.next() % 255) as f32 - 127.0 }).collect();
        let mut row = vec![0.0; k];
        for &isa in Isa::available() {
            let acts = quantized(isa, &x, k);
            for n in [1, 5] {
                let mut out = vec![[f32::NAN; 16]; n];
                (simd(isa).dot_tile)(&layout, &tile, &acts, n, &mut out);
                for r in 0..16 {
                    layout.row(&tile, r, &mut row);
                    for t in 0..n {
                        let want: i64 = (0..k).map(|c| row[c] as i64 * x[t * k + c] as i64).sum();
                        assert_eq!(out[t][r] as i64, want, "{name} {isa:?} n {n} token {t} row {r}");
                    }
                }
            }
        }
    }
}

/// Scales at both ends of the range. With a scale of 2^127 the result is finite, so no intermediate product may overflow;
/// subnormal scales must not be flushed to zero.
#[test]
fn extreme_powers_of_two_as_scales_neither_overflow_nor_vanish() {
    let spec = specs().into_iter().find(|s| s.1.scale == ScaleKind::E8M0).unwrap().1;
    let k = 64;
    let layout = TileLayout::new(spec, k).unwrap();
    for (exponent, size) in [(127, 1e-6f32), (127, 0.01), (100, 1.0), (-127, 1.0), (-128, 100.0)] {
        let d = 2f64.powi(exponent) as f32;
        let one = |bytes: &[u8], out: &mut Unpacked| {
            unpack(&spec, bytes, out);
            // All elements are 1, except -10 at two places of a block.
            out.quants[..32].iter_mut().enumerate().for_each(|(i, q)| *q = if i % 11 == 10 { 7 } else { 8 });
            out.d = d;
        };
        let stored: Vec<u8> = (0..16 * k / 32).flat_map(|i| (i as u64).to_le_bytes()).collect();
        let rows: Vec<&[u8]> = stored.chunks(layout.stored_row_bytes()).collect();
        let mut tile = vec![0; layout.tile_bytes()];
        layout.pack(&rows, &one, &mut tile);
        let mut row = vec![0.0; k];
        layout.row(&tile, 0, &mut row);
        assert_eq!(f64::from(row[0]), 2f64.powi(exponent), "2^{exponent} times 1");
        // Terms of both signs, so that the sum is small while its terms are large.
        let x: Vec<f32> = (0..7 * k).map(|i| if i % 2 == 0 { size } else { -size * 0.99 }).collect();
        for &isa in Isa::available() {
            let acts = quantized(isa, &x, k);
            let view = Q8Rows::new(&acts, k).unwrap();
            for n in [1, 3, 7] {
                let mut out = vec![[f32::NAN; 16]; n];
                (simd(isa).dot_tile)(&layout, &tile, &acts, n, &mut out);
                for t in 0..n {
                    let number = |c: usize| if c % 32 % 11 == 10 { -10.0 } else { 1.0 };
                    let want: f64 = (0..k).map(|c| number(c) * f64::from(view.value(t, c))).sum();
                    let want = want * 2f64.powi(exponent);
                    let step = f64::from(f32::from_bits(1));
                    for r in 0..16 {
                        let got = f64::from(out[t][r]);
                        assert!(
                            (got - want).abs() <= 1e-5 * want.abs() + 4.0 * step,
                            "{isa:?} 2^{exponent}: {got:e} {want:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn quantized_activations_are_within_half_a_step() {
    let k = 96;
    let x = activations(k, 3, 11);
    let acts = quantized(Isa::detect(), &x, k);
    let view = Q8Rows::new(&acts, k).unwrap();
    assert_eq!(view.rows(), 3);
    for t in 0..3 {
        for c in 0..k {
            let step = view.scale(t, c / 32);
            assert!((view.value(t, c) - x[t * k + c]).abs() <= step * 0.5001);
        }
        for s in 0..k / 16 {
            let sum: i32 = (0..16).map(|i| i32::from(view.quant(t, 16 * s + i))).sum();
            assert_eq!(view.sum(t, s), sum);
        }
    }
}

#[test]
fn a_fault_in_the_activations_shows_in_the_result() {
    let m = matrix(specs()[0].1, 64, 16, 1);
    for fault in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for &isa in Isa::available() {
            let mut x = activations(64, 2, 5);
            x[40] = fault;
            let acts = quantized(isa, &x, 64);
            assert_eq!(acts, quantized(Isa::Portable, &x, 64));
            let mut out = [[0.0; 16]; 2];
            (simd(isa).dot_tile)(&m.layout, &m.tile, &acts, 2, &mut out);
            assert!(out[0].iter().all(|x| x.is_nan()) && out[1].iter().all(|x| x.is_finite()), "{isa:?} {fault}");
        }
    }
}

#[test]
fn zero_and_tiny_activations_give_zero() {
    for &isa in Isa::available() {
        for x in [0.0f32, -0.0, 1e-40, -1e-38] {
            let acts = quantized(isa, &[x; 32], 32);
            let view = Q8Rows::new(&acts, 32).unwrap();
            assert!((0..32).all(|c| view.value(0, c) == 0.0), "{isa:?} {x}");
        }
    }
}

#[test]
fn tiles_refuse_formats_and_widths_they_cannot_hold() {
    let good = specs()[0].1;
    assert!(TileLayout::new(good, 64).is_some());
    assert!(TileLayout::new(good, 0).is_none());
    assert!(TileLayout::new(good, 48).is_none());
    assert!(TileLayout::new(good, usize::MAX / 32 * 32).is_none());
    assert!(TileLayout::new(BlockSpec { bits: 7, ..good }, 64).is_none());
    assert!(TileLayout::new(BlockSpec { block: 48, ..good }, 96).is_none());
    assert!(TileLayout::new(BlockSpec { group: 8, ..good }, 64).is_none());
}

#[test]
fn tile_bytes_are_as_documented() {
    let bytes = |name: &str, k: usize| {
        let spec = specs().into_iter().find(|s| s.0 == name).unwrap().1;
        TileLayout::new(spec, k).unwrap().tile_bytes()
    };
    assert_eq!(bytes("q4_0", 64), 2 * (32 + 256));
    assert_eq!(bytes("q4_1", 64), 2 * (64 + 256));
    assert_eq!(bytes("q5_0", 64), 2 * (32 + 320));
    assert_eq!(bytes("q8_0", 64), 2 * (32 + 512));
    assert_eq!(bytes("q6_k", 512), 2 * 210 * 16);
    assert_eq!(bytes("q4_k", 256), 64 + 2 * 8 * 16 + 8 * 256);
    assert_eq!(bytes("q2_k", 256), 64 + 2 * 16 * 16 + 8 * 128);
    assert_eq!(bytes("q3_k", 256), (32 + 16 * 16 + 8 * 192usize).next_multiple_of(64));
}

#[test]
#[should_panic(expected = "no tile")]
fn a_short_tile_is_refused() {
    let m = matrix(specs()[0].1, 64, 16, 1);
    let acts = vec![0; q8_row_bytes(64)];
    (simd(Isa::detect()).dot_tile)(&m.layout, &m.tile[1..], &acts, 1, &mut [[0.0; 16]]);
}

#[test]
#[should_panic(expected = "are not 2 rows")]
fn short_activations_are_refused() {
    let m = matrix(specs()[0].1, 64, 16, 1);
    let acts = vec![0; 2 * q8_row_bytes(64) - 1];
    (simd(Isa::detect()).dot_tile)(&m.layout, &m.tile, &acts, 2, &mut [[0.0; 16]; 2]);
}
