//! Medians with min and max.

use serde::Serialize;

/// Median, smallest and largest of some measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median; the mean of the middle two of an even number.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one measurement.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Spread { median, min, max })
    }

    /// All three multiplied by a factor.
    pub fn scaled(self, factor: f64) -> Spread {
        Spread { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

/// Two-sided 99 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond them the last is a little too wide.
const T99: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];

/// The smallest relative difference that is significant.
const NOTABLE: f64 = 0.01;

/// A verdict on the ratios of times, other ÷ this, of interleaved pairs: `faster` if this one is faster, `slower`, or
/// `coin flip` if the 99 % confidence interval of the ratio contains 1 or the difference is under 1 %.
pub fn verdict(ratios: &[f64]) -> &'static str {
    let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
    let n = logs.len();
    if n < 2 || logs.iter().any(|x| !x.is_finite()) {
        return "coin flip";
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let half = T99[(n - 2).min(T99.len() - 1)] * (variance / n as f64).sqrt();
    if mean.abs() <= half || (mean.exp() - 1.0).abs() < NOTABLE {
        return "coin flip";
    }
    if mean > 0.0 { "faster" } else { "slower" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let s = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(s, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(&[7.0, 9.0, 8.0]).map(|s| s.median), Some(8.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_difference_counts_where_it_is_over_one_percent_and_beyond_the_noise() {
        assert_eq!(verdict(&[1.05, 1.06, 1.04, 1.05, 1.06, 1.05, 1.04, 1.05]), "faster");
        assert_eq!(verdict(&[0.95, 0.96, 0.94, 0.95, 0.96, 0.95, 0.94, 0.95]), "slower");
        // Sure, but of no account; of account, but not sure.
        assert_eq!(verdict(&[1.005, 1.005, 1.005, 1.0051, 1.005, 1.005, 1.005, 1.005]), "coin flip");
        assert_eq!(verdict(&[1.4, 0.7, 1.3, 0.9, 1.5, 0.8, 1.2, 0.9]), "coin flip");
        assert_eq!(verdict(&[1.5]), "coin flip");
    }
}
