//! Profiles: curves measured on one device, with its name and the date.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use onetrip_ir::device::SubmitMode;

/// The version of the names of curves and of other names in a profile. A file without a version has version 1.
pub const VERSION: u32 = 2;

/// The kind of a profile's device, which decides how its curves are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A CPU: curves by op, format and number of threads.
    Cpu,
    /// A GPU: a launch, a bandwidth and an arithmetic rate, and curves of some ops.
    Gpu,
}

/// The measurements of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the names in the profile: [`VERSION`], except while an older file is being read.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Name for `--hardware`.
    pub name: String,
    /// The machine in words, as reports name it. A profile is used by default only on the machine with this name.
    pub device: String,
    /// Day of the measurement in UTC, in the form `2026-04-01`.
    pub date: String,
    /// Kind of device.
    pub kind: Kind,
    /// Where the figures come from and how they were measured, for people.
    pub note: String,
    /// Capabilities of the device.
    pub caps: Caps,
    /// The fastest commit policy for each kind of device that drives the machine (`wgpu`, `cuda`), where it was measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commit: BTreeMap<String, SubmitMode>,
    /// The measured curves.
    #[serde(rename = "curve")]
    pub curves: Vec<Curve>,
}

fn first_version() -> u32 {
    1
}

/// Capabilities of a device, for people and for choosing kernels where the device is not present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Caps {
    /// Processors, or SMs of a GPU.
    pub cores: usize,
    /// Instruction set of the measured CPU kernels (`avx512`), or the GPU's architecture (`sm_90`).
    pub isa: String,
    /// Bytes of each data cache, L1 first; empty if not known.
    pub caches: Vec<u64>,
}

/// One measured function: medians `y` at ascending `x`, with the minimum and maximum of the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The name by which the cost model looks the curve up.
    pub name: String,
    /// Threads that it was measured with; 0 where threads have no meaning.
    #[serde(default)]
    pub threads: usize,
    /// The knots in strictly ascending order: bytes, columns, rows or keys, as the curve's name implies.
    pub x: Vec<f64>,
    /// Medians: µs, or a rate per second where the name says so.
    pub y: Vec<f64>,
    /// The smallest repeat at each knot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub min: Vec<f64>,
    /// The largest repeat at each knot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub max: Vec<f64>,
    /// Where the figures come from, if not from the measurement that the profile's note describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("profile {profile}: {what}; measure again with `onetrip calibrate`")]
pub struct ProfileError {
    /// Name of the file or profile.
    pub profile: String,
    /// What is wrong, and where.
    pub what: String,
}

impl Curve {
    /// Checks that the curve can be interpolated.
    fn check(&self) -> Result<(), String> {
        let fail = |what: &str| Err(format!("curve `{}` ({} threads): {what}", self.name, self.threads));
        if self.x.is_empty() || self.x.len() != self.y.len() {
            return fail("x and y must have equally many numbers, at least one");
        }
        if self.x.iter().chain(&self.y).any(|v| !v.is_finite() || *v < 0.0) {
            return fail("a number is negative or not finite");
        }
        if self.x.windows(2).any(|w| w[0] >= w[1]) {
            return fail("x does not rise");
        }
        Ok(())
    }

    /// The time in µs at `x`, by linear interpolation between the knots. A median that is lower than one before it counts as
    /// noise and is replaced by the highest before it, because a larger size never takes less time. Beyond the ends the nearest
    /// segment is extrapolated, but below the first knot never under the line from that knot to the origin.
    pub fn time(&self, x: f64) -> f64 {
        let mut high = 0.0f64;
        let y: Vec<f64> = self
            .y
            .iter()
            .map(|v| {
                high = high.max(*v);
                high
            })
            .collect();
        let n = y.len();
        if n == 1 {
            return y[0];
        }
        if x <= self.x[0] {
            let slope = (y[1] - y[0]) / (self.x[1] - self.x[0]);
            return (y[0] - slope * (self.x[0] - x)).max(y[0] * x / self.x[0].max(f64::MIN_POSITIVE)).min(y[0]);
        }
        let i = self.x.partition_point(|k| *k < x).clamp(1, n - 1);
        let slope = (y[i] - y[i - 1]) / (self.x[i] - self.x[i - 1]);
        y[i - 1] + slope * (x - self.x[i - 1])
    }

    /// The rate at `x`, by linear interpolation over the logarithm of `x`, constant beyond the ends.
    pub fn rate(&self, x: f64) -> f64 {
        let n = self.x.len();
        if n == 1 || x <= self.x[0] {
            return self.y[0];
        }
        if x >= self.x[n - 1] {
            return self.y[n - 1];
        }
        let i = self.x.partition_point(|k| *k < x).clamp(1, n - 1);
        if x == self.x[i] {
            return self.y[i];
        }
        // The first x may be 0, which has no logarithm.
        let log = |v: f64| v.max(1e-9).ln();
        let part = (log(x) - log(self.x[i - 1])) / (log(self.x[i]) - log(self.x[i - 1]));
        self.y[i - 1] + part * (self.y[i] - self.y[i - 1])
    }
}

impl Profile {
    /// Checks every curve. `file` is named in the error.
    pub fn check(&self, file: &str) -> Result<(), ProfileError> {
        let fail = |what: String| Err(ProfileError { profile: file.into(), what });
        if self.name.is_empty() || self.device.is_empty() || self.date.is_empty() {
            return fail("name, device and date must not be empty".into());
        }
        for curve in &self.curves {
            if let Err(what) = curve.check() {
                return fail(what);
            }
        }
        let needed: &[&str] = match self.kind {
            Kind::Cpu => &["launch", "read"],
            Kind::Gpu => &["launch", "read", "flops"],
        };
        match needed.iter().find(|n| !self.curves.iter().any(|c| c.name == **n)) {
            Some(lost) => fail(format!("there is no curve `{lost}`")),
            None => Ok(()),
        }
    }

    /// The value that `at` reads from the curves called `name`, for a number of threads: from the curve measured with this
    /// number; else interpolated between the curves of the next lower and higher numbers, over their logarithms; else from the
    /// nearest curve. A curve without threads serves any number.
    pub fn value(&self, name: &str, threads: usize, at: impl Fn(&Curve) -> f64) -> Option<f64> {
        let mut of: Vec<&Curve> = self.curves.iter().filter(|c| c.name == name).collect();
        of.sort_by_key(|c| c.threads);
        let above = of.iter().position(|c| c.threads >= threads || c.threads == 0);
        match above {
            None => of.last().map(|c| at(c)),
            Some(i) if i == 0 || of[i].threads == threads => Some(at(of[i])),
            Some(i) => {
                let (a, b) = (of[i - 1], of[i]);
                let log = |n: usize| (n.max(1) as f64).ln();
                let part = (log(threads) - log(a.threads)) / (log(b.threads) - log(a.threads));
                Some(at(a) + part * (at(b) - at(a)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(x: &[f64], y: &[f64]) -> Curve {
        let (x, y) = (x.to_vec(), y.to_vec());
        Curve { name: "t".into(), threads: 1, x, y, min: vec![], max: vec![], source: None }
    }

    fn profile(curves: Vec<Curve>) -> Profile {
        let caps = Caps::default();
        let (name, device, date, note) = ("p".into(), "d".into(), "2026-01-01".into(), String::new());
        Profile { version: VERSION, name, device, date, kind: Kind::Cpu, note, caps, commit: BTreeMap::new(), curves }
    }

    proptest! {
        #[test]
        fn times_are_monotone_and_exact_at_rising_knots(
            raw in proptest::collection::vec((1f64..100.0, 0f64..50.0), 1..8), a in 0f64..2000.0, b in 0f64..2000.0
        ) {
            let (mut x, mut y) = (vec![], vec![]);
            let (mut sx, mut sy) = (0.0, 0.0);
            for (dx, dy) in raw { sx += dx; sy += dy; x.push(sx); y.push(sy); }
            let c = curve(&x, &y);
            for (x, y) in x.iter().zip(&y) {
                prop_assert!((c.time(*x) - y).abs() <= 1e-9 * (1.0 + y));
            }
            let (lo, hi) = (a.min(b), a.max(b));
            prop_assert!(c.time(lo) <= c.time(hi) + 1e-9);
            prop_assert!(c.time(lo) >= 0.0);
        }

        #[test]
        fn rates_stay_between_their_neighbours_and_are_exact_at_knots(
            y in proptest::collection::vec(1f64..1e12, 2..8), at in 0.5f64..1e6
        ) {
            let x: Vec<f64> = (0..y.len()).map(|i| 8f64.powi(i as i32)).collect();
            let c = curve(&x, &y);
            for (x, y) in x.iter().zip(&y) {
                prop_assert_eq!(c.rate(*x), *y);
            }
            let (lo, hi) = y.iter().fold((f64::MAX, 0f64), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
            prop_assert!(c.rate(at) >= lo * 0.999_999 && c.rate(at) <= hi * 1.000_001);
        }
    }

    #[test]
    fn a_dip_in_a_measured_time_is_taken_for_noise() {
        let c = curve(&[1.0, 2.0, 3.0], &[5.0, 4.0, 8.0]);
        assert_eq!((c.time(2.0), c.time(3.0)), (5.0, 8.0));
    }

    #[test]
    fn between_two_thread_counts_the_value_is_between_theirs() {
        let mut two = curve(&[1.0], &[10.0]);
        two.threads = 4;
        let p = profile(vec![curve(&[1.0], &[30.0]), two]);
        let at = |n| p.value("t", n, |c| c.time(1.0));
        assert_eq!((at(1), at(4), at(64)), (Some(30.0), Some(10.0), Some(10.0)));
        assert!((at(2).unwrap_or(0.0) - 20.0).abs() < 1e-9);
        assert_eq!(p.value("no such curve", 1, |c| c.time(1.0)), None);
    }

    #[test]
    fn a_curve_that_cannot_be_interpolated_is_named() {
        let bad = [
            (curve(&[1.0, 1.0], &[1.0, 2.0]), "x does not rise"),
            (curve(&[1.0], &[1.0, 2.0]), "equally many"),
            (curve(&[], &[]), "at least one"),
            (curve(&[1.0], &[f64::NAN]), "not finite"),
            (curve(&[1.0], &[-1.0]), "negative"),
        ];
        for (c, what) in bad {
            let e = profile(vec![c]).check("a.toml").expect_err(what).to_string();
            assert!(e.contains(what) && e.contains("a.toml") && e.contains("`t`"), "{e}");
        }
        let e = profile(vec![curve(&[1.0], &[1.0])]).check("a.toml").expect_err("no launch").to_string();
        assert!(e.contains("`launch`"), "{e}");
    }
}
