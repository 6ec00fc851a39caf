//! Elementwise kernels on every instruction set against f64.

use super::{Isa, Simd, simd};
use half::{bf16, f16};

fn tables() -> impl Iterator<Item = &'static Simd> {
    Isa::available().iter().map(|isa| simd(*isa))
}

/// Inputs over the whole useful range. Their count is odd, so that every tail loop runs.
fn spread(from: f32, to: f32) -> Vec<f32> {
    let n = 20_011;
    (0..n).map(|i| from + (to - from) * i as f32 / (n - 1) as f32).collect()
}

fn relative(got: f32, want: f64) -> f64 {
    if f64::from(got) == want { 0.0 } else { (f64::from(got) - want).abs() / want.abs().max(1e-30) }
}

#[test]
fn exponentials_are_within_a_millionth() {
    for s in tables() {
        let x = spread(-87.0, 0.0);
        let mut y = x.clone();
        let sum = (s.softmax_exp)(&mut y, 0.0);
        for (x, y) in x.iter().zip(&y) {
            assert!(relative(*y, f64::from(*x).exp()) < 3e-7, "{} exp({x}) = {y}", s.name());
        }
        let want: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
        assert!(relative(sum, want) < 1e-6, "{}: {sum} is not {want}", s.name());
        let mut y = spread(0.0, 80.0);
        (s.softmax_exp)(&mut y, 0.0);
        for (x, y) in spread(0.0, 80.0).iter().zip(&y) {
            assert!(relative(*y, f64::from(*x).exp()) < 3e-7, "{} exp({x}) = {y}", s.name());
        }
    }
}

#[test]
fn masked_scores_become_exactly_zero() {
    for s in tables() {
        let mut x = vec![f32::NEG_INFINITY; 37];
        x[5] = 3.0;
        x[36] = 3.0;
        assert_eq!((s.softmax_exp)(&mut x, 3.0), 2.0, "{}", s.name());
        assert!(x.iter().enumerate().all(|(i, x)| *x == if i == 5 || i == 36 { 1.0 } else { 0.0 }));
        let mut x = vec![f32::NEG_INFINITY; 37];
        assert_eq!((s.softmax_exp)(&mut x, f32::NEG_INFINITY), 0.0);
        assert!(x.iter().all(|x| *x == 0.0));
    }
}

#[test]
fn activations_equal_f64() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu = |x: f64| x * sigmoid(2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x));
    for s in tables() {
        let x = spread(-30.0, 30.0);
        let u: Vec<f32> = x.iter().map(|x| 0.5 - x * 0.1).collect();
        let check = |what: &str, y: &[f32], f: &dyn Fn(usize) -> f64| {
            for i in 0..x.len() {
                let want = f(i);
                let error = (f64::from(y[i]) - want).abs();
                assert!(error <= 2e-6 * want.abs() + 1e-12, "{} {what}({}) = {}, not {want}", s.name(), x[i], y[i]);
            }
        };
        let map = |f: fn(&mut [f32])| {
            let mut y = x.clone();
            f(&mut y);
            y
        };
        check("silu", &map(s.silu), &|i| f64::from(x[i]) * sigmoid(f64::from(x[i])));
        check("sigmoid", &map(s.sigmoid), &|i| sigmoid(f64::from(x[i])));
        check("tanh", &map(s.tanh), &|i| f64::from(x[i]).tanh());
        let mut y = vec![f32::NAN; x.len()];
        (s.silu_mul)(&x, &u, &mut y);
        check("silu_mul", &y, &|i| f64::from(x[i]) * sigmoid(f64::from(x[i])) * f64::from(u[i]));
        // The argument of gelu's exponential is rounded in f32 and is large where the result is tiny.
        let loose = |what: &str, y: &[f32], f: &dyn Fn(usize) -> f64| {
            for i in 0..x.len() {
                let want = f(i);
                let error = (f64::from(y[i]) - want).abs();
                assert!(error <= 2e-5 * want.abs() + 1e-12, "{} {what}({}) = {}, not {want}", s.name(), x[i], y[i]);
            }
        };
        loose("gelu_tanh", &map(s.gelu_tanh), &|i| gelu(f64::from(x[i])));
        (s.gelu_tanh_mul)(&x, &u, &mut y);
        loose("gelu_tanh_mul", &y, &|i| gelu(f64::from(x[i])) * f64::from(u[i]));
    }
}

#[test]
fn activations_stay_finite_at_the_ends_and_pass_nan_on() {
    for s in tables() {
        for f in [s.silu, s.gelu_tanh, s.sigmoid, s.tanh] {
            let mut x = [-3e38, -1000.0, 1000.0, 3e38, f32::NAN, 0.0];
            f(&mut x);
            assert!(x[..4].iter().all(|x| x.is_finite()), "{} {x:?}", s.name());
            assert!(x[4].is_nan(), "{}", s.name());
            assert!(x[0].abs() <= 1.0 && x[1].abs() <= 1.0, "{} {x:?}", s.name());
        }
        let mut x = [f32::NAN; 40];
        assert!((s.softmax_exp)(&mut x, 0.0).is_nan());
    }
}

#[test]
fn rms_norm_equals_f64_for_odd_widths() {
    for s in tables() {
        for n in [1, 5, 32, 33, 576, 1001] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
            let w: Vec<f32> = (0..n).map(|i| 0.5 + (i % 7) as f32).collect();
            let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n as f64;
            let factor = 1.0 / (mean + f64::from(1e-5f32)).sqrt();
            let (mut plain, mut weighted) = (vec![f32::NAN; n], vec![f32::NAN; n]);
            (s.rms_norm)(&x, None, 1e-5, &mut plain);
            (s.rms_norm)(&x, Some(&w), 1e-5, &mut weighted);
            for i in 0..n {
                assert!(relative(plain[i], f64::from(x[i]) * factor) < 1e-6, "{} {n}", s.name());
                assert!(relative(weighted[i], f64::from(x[i]) * factor * f64::from(w[i])) < 1e-6, "{} {n}", s.name());
            }
        }
    }
}

#[test]
fn half_conversions_are_exact_for_every_half() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for s in tables() {
        let mut wide = vec![0.0; all.len()];
        (s.f16_to_f32)(&all, &mut wide);
        let mut bwide = vec![0.0; all.len()];
        (s.bf16_to_f32)(&all, &mut bwide);
        let mut back = vec![0; all.len()];
        (s.f32_to_f16)(&wide, &mut back);
        for (i, h) in all.iter().enumerate() {
            let (want, bwant) = (f16::from_bits(*h).to_f32(), bf16::from_bits(*h).to_f32());
            assert!(wide[i] == want || (wide[i].is_nan() && want.is_nan()), "{} {h:#x}", s.name());
            assert!(bwide[i] == bwant || (bwide[i].is_nan() && bwant.is_nan()), "{} {h:#x}", s.name());
            assert!(back[i] == *h || f16::from_bits(back[i]).is_nan() && want.is_nan(), "{} {h:#x}", s.name());
        }
        // Lengths that are not a multiple of a vector, ties and overflow.
        for n in 0..40 {
            let x: Vec<f32> = (0..n).map(|i| (1.0 + i as f32 / 4096.0) * 10f32.powi(i - 20)).collect();
            let mut out = vec![0; n as usize];
            (s.f32_to_f16)(&x, &mut out);
            assert!(x.iter().zip(&out).all(|(x, h)| f16::from_f32(*x).to_bits() == *h), "{} {n}", s.name());
            let mut wide = vec![0.0; n as usize];
            (s.f16_to_f32)(&out, &mut wide);
            assert!(wide.iter().zip(&out).all(|(x, h)| f16::from_bits(*h).to_f32() == *x), "{} {n}", s.name());
        }
    }
}

#[test]
fn plain_maps_and_maxima_are_exact() {
    for s in tables() {
        for n in [0, 1, 31, 32, 77] {
            let a: Vec<f32> = (0..n).map(|i| (i * 29 % 53) as f32 - 20.0).collect();
            let b: Vec<f32> = (0..n).map(|i| (i * 13 % 17) as f32 - 5.0).collect();
            let mut out = vec![f32::NAN; n];
            (s.add)(&a, &b, &mut out);
            assert!((0..n).all(|i| out[i] == a[i] + b[i]));
            (s.mul)(&a, &b, &mut out);
            assert!((0..n).all(|i| out[i] == a[i] * b[i]));
            (s.scale_add)(2.0, &a, &mut out);
            assert!((0..n).all(|i| out[i] == a[i] * b[i] + 2.0 * a[i]));
            let want = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!((s.max)(&a), want, "{} {n}", s.name());
        }
        assert_eq!((s.max)(&[f32::NAN, 1.0, f32::NAN]), 1.0);
    }
}

#[test]
fn tables_are_in_order_and_named() {
    let all = Isa::available();
    assert_eq!(all[0], Isa::Portable);
    assert!(all.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(Isa::detect(), all[all.len() - 1]);
    assert!(all.iter().all(|isa| simd(*isa).isa == *isa && simd(*isa).name() == isa.name()));
}
