//! Rotary frequencies: the plain ones, and the ways of scaling them for longer contexts.

use onetrip_ir::batch::RopeSpec;

/// Parameters of a model's rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies (theta).
    pub base: f32,
    /// Rotated elements of a head.
    pub dim: usize,
    /// How the frequencies are scaled for longer contexts.
    pub scaling: Scaling,
    /// Factor on cosine and sine, which multiplies the one that the scaling has.
    pub attention: f32,
}

/// Ways of scaling rotary frequencies for contexts longer than the original one.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Frequencies are not scaled.
    None,
    /// All positions divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023): low frequencies are divided by `factor`, high ones kept, with a linear ramp between them;
    /// cosine and sine get a factor that sharpens attention.
    Yarn {
        /// Divisor of low frequencies.
        factor: f32,
        /// Positions of the original context.
        original: f32,
        /// Factor on cosine and sine, where it is not [`yarn_attention`]`(factor, 1)`.
        attention: Option<f32>,
        /// Rotations over the original context above which a frequency is kept.
        beta_fast: f32,
        /// Rotations over the original context below which a frequency is divided.
        beta_slow: f32,
        /// The ends of the ramp are whole pairs, rounded outwards; otherwise it begins and ends between pairs.
        truncate: bool,
    },
    /// Llama 3: low frequencies are divided by `factor`, high ones kept, with a linear ramp between them.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// Rotations over the original context below which a frequency is divided.
        low: f32,
        /// Rotations over the original context above which a frequency is kept.
        high: f32,
        /// Positions of the original context.
        original: f32,
    },
}

/// YaRN's factor on cosine and sine for a context that is longer by `factor`: `0.1 · scale · ln(factor) + 1`.
pub fn yarn_attention(factor: f32, scale: f32) -> f32 {
    if factor > 1.0 { 0.1 * scale * factor.ln() + 1.0 } else { 1.0 }
}

impl RopeConfig {
    /// Frequencies of all pairs, and the factor on cosine and sine. `divisors` are one divisor for each pair, which some files
    /// contain (Llama 3 in GGUF).
    pub fn spec(&self, divisors: Option<&[f32]>) -> RopeSpec {
        let pairs = self.dim / 2;
        let base = self.base as f64;
        let plain: Vec<f64> = (0..pairs).map(|i| base.powf(-2.0 * i as f64 / self.dim as f64)).collect();
        let tau = 2.0 * std::f64::consts::PI;
        let (inv_freq, factor): (Vec<f64>, f32) = match self.scaling {
            Scaling::None => (plain, 1.0),
            Scaling::Linear { factor } => (plain.iter().map(|f| f / factor as f64).collect(), 1.0),
            Scaling::Yarn { factor, original, attention, beta_fast, beta_slow, truncate } => {
                // Index of the pair that rotates `turns` times over the original context.
                let pair =
                    |turns: f32| self.dim as f64 * (original as f64 / (turns as f64 * tau)).ln() / (2.0 * base.ln());
                let (low, high) = (pair(beta_fast), pair(beta_slow));
                let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
                let (low, high) = (low.max(0.0), high.min(self.dim as f64 - 1.0));
                let span = if high > low { high - low } else { 0.001 };
                let mix = |(i, f): (usize, &f64)| {
                    let divided = ((i as f64 - low) / span).clamp(0.0, 1.0);
                    f / factor as f64 * divided + f * (1.0 - divided)
                };
                let sharper = attention.unwrap_or_else(|| yarn_attention(factor, 1.0));
                (plain.iter().enumerate().map(mix).collect(), sharper)
            }
            Scaling::Llama3 { factor, low, high, original } => {
                let stretch = |f: &f64| {
                    let turns = original as f64 * f / tau;
                    let kept = ((turns - low as f64) / (high as f64 - low as f64)).clamp(0.0, 1.0);
                    f / factor as f64 * (1.0 - kept) + f * kept
                };
                (plain.iter().map(stretch).collect(), 1.0)
            }
        };
        let divide = |(i, f): (usize, f64)| match divisors.and_then(|d| d.get(i)) {
            // A divisor that does not give a finite frequency is ignored.
            Some(&d) if d > 0.0 && ((f / d as f64) as f32).is_finite() => (f / d as f64) as f32,
            _ => f as f32,
        };
        let inv_freq = inv_freq.into_iter().enumerate().map(divide).collect();
        RopeSpec { inv_freq, factor: factor * self.attention }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(scaling: Scaling) -> RopeSpec {
        RopeConfig { base: 10000.0, dim: 128, scaling, attention: 1.0 }.spec(None)
    }

    #[test]
    fn plain_frequencies_fall_from_one_to_the_base() {
        let s = spec(Scaling::None);
        assert_eq!((s.inv_freq.len(), s.inv_freq[0], s.factor), (64, 1.0, 1.0));
        assert!((s.inv_freq[32] - 0.01).abs() < 1e-9);
    }

    #[test]
    fn linear_divides_all() {
        let (a, b) = (spec(Scaling::None), spec(Scaling::Linear { factor: 8.0 }));
        assert!(a.inv_freq.iter().zip(&b.inv_freq).all(|(a, b)| (a / 8.0 - b).abs() < 1e-9));
    }

    #[test]
    fn llama3_and_yarn_keep_fast_pairs_and_divide_slow_ones() {
        let plain = spec(Scaling::None);
        let llama = spec(Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 });
        let yarn = Scaling::Yarn {
            factor: 4.0,
            original: 4096.0,
            attention: None,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
        };
        let yarn = spec(yarn);
        for (s, factor) in [(&llama, 8.0), (&yarn, 4.0)] {
            assert_eq!(s.inv_freq[0], plain.inv_freq[0]);
            assert!((s.inv_freq[63] - plain.inv_freq[63] / factor).abs() < 1e-9);
            assert!(s.inv_freq.windows(2).all(|w| w[0] >= w[1]));
        }
        assert!((yarn.factor - (0.1 * 4f32.ln() + 1.0)).abs() < 1e-6);
    }

    #[test]
    fn divisors_of_the_file_divide_each_pair() {
        let d: Vec<f32> = (0..64).map(|i| 1.0 + i as f32).collect();
        let s = RopeConfig { base: 10000.0, dim: 128, scaling: Scaling::None, attention: 1.0 }.spec(Some(&d));
        assert!((s.inv_freq[1] - spec(Scaling::None).inv_freq[1] / 2.0).abs() < 1e-9);
    }
}
