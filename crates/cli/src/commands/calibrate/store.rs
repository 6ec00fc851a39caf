//! Flags of `calibrate`, the curves that it collects, and the profile that it stores: for CPUs and GPUs alike.

use std::collections::BTreeMap;

use clap::Args;
use onetrip_cost::{Curve, Profile};
use onetrip_devices::DeviceSpec;
use onetrip_engine::{profiles, switch};
use onetrip_ir::formats::DType;
use serde_json::json;

use crate::support::fail::Fail;
use crate::support::options::{at_least_one, threads};
use crate::support::output::Out;
use crate::support::stats::Spread;

/// Flags of `calibrate`.
#[derive(Args)]
pub struct CalibrateArgs {
    /// Device: `cpu`, `cuda` or `cuda:1`, `wgpu` or `wgpu:NAME` of an adapter [default: cpu]
    #[arg(long, value_parser = crate::support::options::device, value_name = "NAME")]
    pub device: Option<DeviceSpec>,
    /// Of a GPU few points with little memory, in a few seconds: a rough profile
    #[arg(long)]
    pub quick: bool,
    /// Where the profile goes [default: onetrip/profiles/DEVICE-DATE.toml in the user's cache folder]
    #[arg(long, value_name = "FILE")]
    pub write: Option<String>,
    /// Name of the profile, for --hardware [default: made of the device's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Measure with 1, 2, 4, … up to this many threads [default: all processors]
    #[arg(long, short_alias = 't', value_parser = threads, allow_negative_numbers = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Measured runs of each point, at least 5; one more comes before them to warm up
    #[arg(long, default_value = "5", value_parser = at_least_one, allow_negative_numbers = true, value_name = "N")]
    pub repeat: usize,
    /// Formats to measure, separated by commas [default: all; of a GPU f16, q8_0 and q4_0]
    #[arg(long, value_delimiter = ',', value_parser = format, value_name = "TYPES")]
    pub formats: Vec<DType>,
}

/// Curves in the making, by name and threads.
#[derive(Default)]
pub struct Curves(BTreeMap<(String, usize), Vec<(f64, Spread)>>);

impl Curves {
    /// Adds the point `(x, y)` to a curve.
    pub fn add(&mut self, name: &str, threads: usize, x: f64, y: Spread) {
        self.0.entry((name.into(), threads)).or_default().push((x, y));
    }

    /// The curves, with rising `x`.
    pub fn finish(self) -> Vec<Curve> {
        // Four digits: no clock tells more.
        let short = |v: f64| format!("{v:.3e}").parse::<f64>().unwrap_or(v);
        let curve = |((name, threads), mut points): ((String, usize), Vec<(f64, Spread)>)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by(|a, b| a.0 == b.0);
            let of = |f: fn(&Spread) -> f64| points.iter().map(|(_, s)| short(f(s))).collect();
            Curve {
                name,
                threads,
                x: points.iter().map(|(x, _)| *x).collect(),
                y: of(|s| s.median),
                min: of(|s| s.min),
                max: of(|s| s.max),
                source: None,
            }
        };
        self.0.into_iter().map(curve).collect()
    }
}

/// Stores a profile and gives the place; none where JSON has said it all.
pub fn store(profile: &Profile, file: Option<&str>, took: f64, out: &Out) -> Result<Option<String>, Fail> {
    profile.check(&profile.name).map_err(|e| Fail::Work(e.to_string()))?;
    if file.is_none() && switch::profiles_dir().is_none() {
        return Err(Fail::Input(format!("{}: there is no home folder: give --write FILE", profile.name)));
    }
    let path = profiles::store(profile, file).map_err(|e| Fail::Input(e.to_string()))?;
    let place = path.display().to_string();
    if !out.json {
        return Ok(Some(place));
    }
    let Profile { name, device, date, caps, curves, .. } = profile;
    out.object(
        &json!({ "profile": place, "name": name, "device": device, "date": date, "caps": caps, "seconds": took,
        "curves": curves }),
    )?;
    Ok(None)
}

/// Lower-case words of a device's name, joined by `-`.
pub fn slug(device: &str) -> String {
    let words = device.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn format(text: &str) -> Result<DType, String> {
    let all: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
    DType::parse(text).ok_or_else(|| format!("no such type; types: {}", all.join(", ")))
}
