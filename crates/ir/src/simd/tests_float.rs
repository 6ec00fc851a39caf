//! Float kernels on every instruction set against f64, with odd widths, strides, guards and poisoned outputs.

use super::{DotRows, FloatKind, Isa, Mix, simd};
use half::{bf16, f16};

const KINDS: [FloatKind; 3] = [FloatKind::F32, FloatKind::F16, FloatKind::Bf16];
const GUARD: f32 = 1234.5;

fn random(seed: u64, n: usize) -> Vec<f32> {
    let mut x = seed | 1;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Stores elements; returns the bytes and the values after rounding to the storage type.
fn stored(kind: FloatKind, x: &[f32]) -> (Vec<u8>, Vec<f32>) {
    match kind {
        FloatKind::F32 => (x.iter().flat_map(|x| x.to_le_bytes()).collect(), x.to_vec()),
        FloatKind::F16 => (
            x.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            x.iter().map(|x| f16::from_f32(*x).to_f32()).collect(),
        ),
        FloatKind::Bf16 => (
            x.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect(),
        ),
    }
}

fn close(got: f32, want: f64, size: f64, what: &str) {
    assert!((f64::from(got) - want).abs() <= 1e-6 * size + 1e-30, "{what}: {got} is not {want}");
}

#[test]
fn rows_times_tokens_equal_f64_for_all_kinds_widths_and_strides() {
    for kind in KINDS {
        for (k, n_rows, n_tokens) in [
            (1, 1, 1),
            (7, 3, 2),
            (16, 6, 4),
            (33, 13, 9),
            (64, 4, 1),
            (100, 9, 1),
            (130, 25, 7),
            (896, 12, 3),
            (5, 0, 2),
            (0, 2, 2),
            (16, 8, 0),
        ] {
            // Rows begin at an odd address, and the stride is larger than a row.
            let row_bytes = k * kind.bytes() + 3;
            let (act_stride, out_stride) = (k + 2, n_rows + 3);
            let mut rows = vec![0xffu8; n_rows * row_bytes + 1];
            let mut values = Vec::new();
            for r in 0..n_rows {
                let (bytes, v) = stored(kind, &random(r as u64 + 5, k));
                rows[1 + r * row_bytes..][..bytes.len()].copy_from_slice(&bytes);
                values.push(v);
            }
            let acts = random(99, n_tokens * act_stride);
            for &isa in Isa::available() {
                let mut out = vec![GUARD; n_tokens * out_stride];
                let o = DotRows { kind, rows: &rows[1..], row_bytes, n_rows, k, acts: &acts, act_stride, n_tokens };
                (simd(isa).dot_rows)(&o, &mut out, out_stride);
                for t in 0..n_tokens {
                    for r in 0..out_stride {
                        let got = out[t * out_stride + r];
                        if r >= n_rows {
                            assert_eq!(got, GUARD, "{isa:?} {kind:?} k {k}: guard overwritten");
                            continue;
                        }
                        let pairs = || {
                            values[r].iter().zip(&acts[t * act_stride..]).map(|(a, b)| f64::from(*a) * f64::from(*b))
                        };
                        let size = pairs().map(f64::abs).sum();
                        close(got, pairs().sum(), size, &format!("{isa:?} {kind:?} k {k} row {r} token {t}"));
                    }
                }
            }
        }
    }
}

#[test]
fn scores_and_weighted_sums_equal_f64() {
    for kind in KINDS {
        for (n, dim) in [(1, 64), (7, 64), (33, 80), (5, 13), (100, 128), (9, 256), (3, 300), (0, 64)] {
            let (bytes, values) = stored(kind, &random(3, n * dim));
            let (q, p, begin) = (random(4, dim), random(5, n), random(6, dim));
            for &isa in Isa::available() {
                let mut out = vec![f32::NAN; n];
                (simd(isa).scores)(kind, &bytes, n, dim, &q, 0.125, &mut out);
                for i in 0..n {
                    let pairs = || (0..dim).map(|j| f64::from(values[i * dim + j]) * f64::from(q[j]) * 0.125);
                    close(
                        out[i],
                        pairs().sum(),
                        pairs().map(f64::abs).sum(),
                        &format!("scores {isa:?} {kind:?} {n}x{dim}"),
                    );
                }
                let mut out = begin.clone();
                out.push(GUARD);
                (simd(isa).mix1)(kind, &bytes, n, dim, &p, &mut out[..dim]);
                assert_eq!(out[dim], GUARD);
                for j in 0..dim {
                    let parts = || {
                        let rows = (0..n).map(|i| f64::from(p[i]) * f64::from(values[i * dim + j]));
                        rows.chain([f64::from(begin[j])])
                    };
                    close(
                        out[j],
                        parts().sum(),
                        parts().map(f64::abs).sum(),
                        &format!("mix1 {isa:?} {kind:?} {n}x{dim}"),
                    );
                }
            }
        }
    }
}

#[test]
fn mixing_equals_f64_and_leaves_the_gaps_alone() {
    for (m, n, d) in [(1, 1, 1), (4, 7, 64), (5, 33, 80), (9, 16, 13), (3, 5, 150), (2, 0, 16)] {
        let (p_stride, v_stride, out_stride) = (n + 1, d + 3, d + 2);
        let (p, v, begin) = (random(1, m * p_stride), random(2, n * v_stride), random(3, m * out_stride));
        for &isa in Isa::available() {
            let mut out = begin.clone();
            (simd(isa).mix)(&Mix { p: &p, p_stride, v: &v, v_stride, m, n, d }, &mut out, out_stride);
            for i in 0..m {
                for j in 0..out_stride {
                    let old = begin[i * out_stride + j];
                    if j >= d {
                        assert_eq!(out[i * out_stride + j], old, "{isa:?}: gap overwritten");
                        continue;
                    }
                    let parts = || {
                        let sum = (0..n).map(|x| f64::from(p[i * p_stride + x]) * f64::from(v[x * v_stride + j]));
                        sum.chain([f64::from(old)])
                    };
                    let what = format!("{isa:?} {m}x{n}x{d} at {i},{j}");
                    close(out[i * out_stride + j], parts().sum(), parts().map(f64::abs).sum(), &what);
                }
            }
        }
    }
}

#[test]
fn transposing_moves_every_number_and_nothing_else() {
    for kind in KINDS {
        for (n, dim) in [(1, 1), (16, 16), (17, 64), (5, 100), (40, 13)] {
            let (bytes, values) = stored(kind, &random(8, n * dim));
            let stride = n + 2;
            for &isa in Isa::available() {
                let mut out = vec![GUARD; dim * stride];
                (simd(isa).transpose)(kind, &bytes, n, dim, &mut out, stride);
                for j in 0..dim {
                    for i in 0..stride {
                        let want = if i < n { values[i * dim + j] } else { GUARD };
                        assert_eq!(out[j * stride + i], want, "{isa:?} {kind:?} {n}x{dim}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_nan_in_weights_or_activations_reaches_the_result() {
    for &isa in Isa::available() {
        let mut rows = random(1, 3 * 40);
        rows[45] = f32::NAN;
        let (bytes, _) = stored(FloatKind::F16, &rows);
        let acts = random(2, 40);
        let mut out = [0.0; 3];
        let o = DotRows {
            kind: FloatKind::F16,
            rows: &bytes,
            row_bytes: 80,
            n_rows: 3,
            k: 40,
            acts: &acts,
            act_stride: 40,
            n_tokens: 1,
        };
        (simd(isa).dot_rows)(&o, &mut out, 3);
        assert!(out[0].is_finite() && out[1].is_nan() && out[2].is_finite(), "{isa:?}");
    }
}

#[test]
#[should_panic(expected = "too short")]
fn short_weights_are_refused() {
    let o = DotRows {
        kind: FloatKind::F32,
        rows: &[0; 63],
        row_bytes: 32,
        n_rows: 2,
        k: 8,
        acts: &[0.0; 8],
        act_stride: 8,
        n_tokens: 1,
    };
    (simd(Isa::detect()).dot_rows)(&o, &mut [0.0; 2], 2);
}

#[test]
#[should_panic(expected = "overflows")]
fn sizes_that_overflow_are_refused() {
    let o = DotRows {
        kind: FloatKind::F32,
        rows: &[0; 64],
        row_bytes: usize::MAX / 2,
        n_rows: 4,
        k: 8,
        acts: &[0.0; 8],
        act_stride: 8,
        n_tokens: 1,
    };
    (simd(Isa::detect()).dot_rows)(&o, &mut [0.0; 4], 4);
}
