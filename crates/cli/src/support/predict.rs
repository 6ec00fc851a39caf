//! Choice of the profile for predictions, and the predicted figures of `explain` and `profile`.

use clap::Args;
use onetrip_cost::{Kind, Pricer, Profile};
use onetrip_devices::DeviceKind;
use onetrip_engine::profiles::{self, FindError};
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::options::ModelArgs;
use crate::support::skipped::note_skipped;
use crate::support::{device, load, remedy};

/// Which device's measurements predict.
#[derive(Args, Clone, Debug)]
pub struct HardwareArgs {
    /// Predict with this profile: a name (`h200`), or a .toml file of `onetrip calibrate` [default: this machine's own]
    #[arg(long, value_name = "NAME")]
    pub hardware: Option<String>,
}

/// A profile, or the reason why there is none, which is printed; it is an error only if the user asked for a profile.
pub enum Hardware {
    /// Predict with this.
    Known(Box<Profile>),
    /// There is no prediction.
    Unknown(String),
}

/// Selects the profiles of one kind of device.
fn profile_kind(kind: DeviceKind) -> Kind {
    match kind {
        DeviceKind::Cpu => Kind::Cpu,
        DeviceKind::Cuda | DeviceKind::Wgpu => Kind::Gpu,
    }
}

impl Hardware {
    /// The profile to predict with.
    pub fn of(args: &HardwareArgs, model: &ModelArgs) -> Result<Hardware, Fail> {
        let wanted = profile_kind(model.device().kind);
        let Some(name) = &args.hardware else {
            let Some((device, caps)) = device::identity(model.device())? else {
                let what = format!("there is no {} here: give --hardware NAME (such as h200)", model.device());
                return Ok(Hardware::Unknown(format!("no prediction: {what}")));
            };
            return match profiles::of_machine(wanted, &device, &caps.isa, &mut note_skipped) {
                Ok(profile) => Ok(Hardware::Known(Box::new(profile))),
                Err(FindError::Profile(error)) => Err(Fail::Input(error.to_string())),
                Err(none) => Ok(Hardware::Unknown(format!("no prediction: {}", remedy::profile(&none)))),
            };
        };
        let profile = profiles::named(name).map_err(|e| Fail::Input(e.to_string()))?;
        if profile.kind != wanted {
            let kind = |k: Kind| match k {
                Kind::Cpu => "a CPU",
                Kind::Gpu => "a GPU",
            };
            let other = match profile.kind {
                Kind::Cpu => DeviceKind::Cpu,
                Kind::Gpu => DeviceKind::Cuda,
            };
            return Err(Fail::Input(format!(
                "--hardware {name} is {}, {}; the plan is for {}: give --device {other} or another profile",
                profile.device,
                kind(profile.kind),
                kind(wanted),
            )));
        }
        Ok(Hardware::Known(Box::new(profile)))
    }

    /// The cost model, where there is a profile.
    pub fn pricer(&self, model: &ModelArgs) -> Option<Pricer<'_>> {
        match self {
            Hardware::Known(profile) => Some(Pricer::new(profile, load::threads(model))),
            Hardware::Unknown(_) => None,
        }
    }

    /// One line: whose measurements these are, or why there are none.
    pub fn line(&self) -> String {
        match self {
            Hardware::Unknown(why) => why.clone(),
            Hardware::Known(p) => format!("predicted with {}: {}, measured {}", p.name, p.device, p.date),
        }
    }

    /// For JSON.
    pub fn json(&self) -> Value {
        match self {
            Hardware::Unknown(_) => Value::Null,
            Hardware::Known(p) => json!({ "name": p.name, "device": p.device, "date": p.date }),
        }
    }
}

/// Relative error of a prediction: 0.1 is 10 % above the measurement.
pub fn off(predicted: f64, measured: f64) -> Option<f64> {
    (measured > 0.0).then(|| predicted / measured - 1.0)
}

/// A relative error above this is a finding that has to be explained.
pub const FINDING: f64 = 0.25;

/// `+12 %`, and a mark where it is a finding.
pub fn off_cell(off: Option<f64>) -> String {
    match off {
        None => "–".into(),
        Some(off) => format!("{:+.0} %{}", 100.0 * off, if off.abs() > FINDING { " !" } else { "  " }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_more_than_a_quarter_off_is_marked() {
        assert_eq!(off_cell(off(126.0, 100.0)), "+26 % !");
        assert_eq!(off_cell(off(80.0, 100.0)), "-20 %  ");
        assert_eq!(off_cell(off(1.0, 0.0)), "–");
    }
}
