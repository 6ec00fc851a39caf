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
        /// Factor on cosine and sine, where it is not `0.1 ln(factor) + 1`.
        attention: Option<f32>,
        /// Rotations over the original context above which a frequency is kept.
        beta_fast: f32,
        /// Rotations over the original context below which a frequency is divided.
        beta_slow: f32,
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

/// A parameter of a scaling, its keys after `rope.scaling.` (GGUF) and `rope_scaling.` (`config.json`), and its range.
pub struct Part {
    /// Its value in this model.
    pub value: f32,
    /// Its key in a GGUF file, after `rope.scaling.`.
    pub gguf: &'static str,
    /// Its key in `config.json`, in `rope_scaling`.
    pub json: &'static str,
    /// Least value.
    pub low: f32,
    /// Largest value.
    pub high: f32,
}

impl Scaling {
    /// The parameters to check. Outside their ranges, angles would not be finite, or no known model has such values.
    pub fn numbers(&self) -> Vec<Part> {
        let part = |value, gguf, json, low, high| Part { value, gguf, json, low, high };
        let factor = |x| part(x, "factor", "factor", 1e-3, 1e6);
        let context = |x| part(x, "original_context_length", "original_max_position_embeddings", 1.0, 1e9);
        match *self {
            Scaling::None => vec![],
            Scaling::Linear { factor: f } => vec![factor(f)],
            Scaling::Yarn { factor: f, original, attention, beta_fast, beta_slow } => {
                let mut all = vec![
                    factor(f),
                    context(original),
                    part(beta_fast, "yarn_beta_fast", "beta_fast", 1e-3, 1e6),
                    part(beta_slow, "yarn_beta_slow", "beta_slow", 1e-3, 1e6),
                ];
                all.extend(attention.map(|x| part(x, "attn_factor", "attention_factor", 1e-3, 1e3)));
                all
            }
            Scaling::Llama3 { factor: f, low, high, original } => vec![
                factor(f),
                context(original),
                part(low, "low_freq_factor", "low_freq_factor", 1e-3, 1e6),
                part(high, "high_freq_factor", "high_freq_factor", 1e-3, 1e6),
            ],
        }
    }
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
            Scaling::Yarn { factor, original, attention, beta_fast, beta_slow } => {
                // Index of the pair that rotates `turns` times over the original context.
                let pair =
                    |turns: f32| self.dim as f64 * (original as f64 / (turns as f64 * tau)).ln() / (2.0 * base.ln());
                let low = pair(beta_fast).floor().max(0.0);
                let high = pair(beta_slow).ceil().min(self.dim as f64 - 1.0);
                let span = if high > low { high - low } else { 0.001 };
                let mix = |(i, f): (usize, &f64)| {
                    let divided = ((i as f64 - low) / span).clamp(0.0, 1.0);
                    f / factor as f64 * divided + f * (1.0 - divided)
                };
                let sharper = if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 };
                (plain.iter().enumerate().map(mix).collect(), attention.unwrap_or(sharper))
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
        RopeSpec { inv_freq: inv_freq.into_iter().enumerate().map(divide).collect(), factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(scaling: Scaling) -> RopeSpec {
        RopeConfig { base: 10000.0, dim: 128, scaling }.spec(None)
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
        let yarn =
            spec(Scaling::Yarn { factor: 4.0, original: 4096.0, attention: None, beta_fast: 32.0, beta_slow: 1.0 });
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
        let s = RopeConfig { base: 10000.0, dim: 128, scaling: Scaling::None }.spec(Some(&d));
        assert!((s.inv_freq[1] - spec(Scaling::None).inv_freq[1] / 2.0).abs() < 1e-9);
    }
}
