//! Kinds of devices and the names of devices. No other file compares such a name.

use std::fmt;
use std::str::FromStr;

use onetrip_ir::device::{Commit, SubmitMode};
use serde::{Serialize, Serializer};

/// A kind of device; each has its own crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The processor, with onetrip's own thread pool.
    Cpu,
    /// NVIDIA GPUs, through CUDA.
    Cuda,
    /// GPUs through Vulkan, Metal or DX12.
    Wgpu,
}

/// Name of the kind `Wgpu` in plans, profiles and output.
const WGPU: &str = "wgpu";

impl DeviceKind {
    /// All kinds, in the order in which devices are listed.
    pub const ALL: [DeviceKind; 3] = [DeviceKind::Cpu, DeviceKind::Wgpu, DeviceKind::Cuda];

    /// Name of the kind in plans, profiles and output.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Wgpu => WGPU,
        }
    }

    /// Other names that are accepted for this kind.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            DeviceKind::Cpu | DeviceKind::Cuda => &[],
            DeviceKind::Wgpu => &["gpu"],
        }
    }

    /// The kind with this name or alias.
    fn named(name: &str) -> Option<DeviceKind> {
        DeviceKind::ALL.into_iter().find(|kind| kind.name() == name || kind.aliases().contains(&name))
    }

    /// Whether devices of this kind are GPUs, to which the host submits work.
    pub fn is_gpu(self) -> bool {
        match self {
            DeviceKind::Cpu => false,
            DeviceKind::Cuda | DeviceKind::Wgpu => true,
        }
    }

    /// Whether kernels of this kind can multiply in f16 or bf16 with tensor cores, so that `--compute f16` has an effect.
    pub fn has_tensor_cores(self) -> bool {
        self.is_gpu()
    }

    /// Whether devices of this kind can keep the recording of a tick and submit it again: [`Commit::Replay`].
    pub fn keeps_ticks(self) -> bool {
        match self {
            DeviceKind::Cuda => true,
            DeviceKind::Cpu | DeviceKind::Wgpu => false,
        }
    }

    /// Whether a second thread may encode and submit: [`SubmitMode::encode_thread`].
    pub fn has_encode_thread(self) -> bool {
        match self {
            DeviceKind::Wgpu => true,
            DeviceKind::Cpu | DeviceKind::Cuda => false,
        }
    }

    /// The submit mode that is used where neither the user nor a profile chooses one.
    pub fn default_hand_over(self) -> SubmitMode {
        SubmitMode::by(if self.keeps_ticks() { Commit::Replay } else { Commit::Tick })
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Selects one of the devices of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The first device.
    First,
    /// The device with this number, from 0.
    Number(usize),
    /// The first device whose name contains this text; upper and lower case are equal.
    Name(String),
}

/// A device as a user names it: `cpu`, `cuda`, `cuda:1`, `wgpu`, or `wgpu:NAME` of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceSpec {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The choice among devices of that kind.
    pub selector: Selector,
}

impl DeviceSpec {
    /// The CPU device, which is the default.
    pub const CPU: DeviceSpec = DeviceSpec { kind: DeviceKind::Cpu, selector: Selector::First };

    /// Number of the device, from 0; 0 where the user gave no number.
    pub fn ordinal(&self) -> usize {
        match self.selector {
            Selector::Number(n) => n,
            Selector::First | Selector::Name(_) => 0,
        }
    }

    /// The text that the name of the device must contain, if the user gave one.
    pub fn part_of_name(&self) -> Option<&str> {
        match &self.selector {
            Selector::Name(name) => Some(name),
            Selector::First | Selector::Number(_) => None,
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.selector {
            Selector::First => write!(f, "{}", self.kind),
            Selector::Number(n) => write!(f, "{}:{n}", self.kind),
            Selector::Name(name) => write!(f, "{}:{name}", self.kind),
        }
    }
}

impl Serialize for DeviceSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error for a text that is not the name of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such device; devices: cpu, cuda, cuda:NUMBER, {WGPU}, {WGPU}:NAME of an adapter")]
pub struct UnknownDevice;

impl FromStr for DeviceSpec {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<DeviceSpec, UnknownDevice> {
        let (name, which) = match text.split_once(':') {
            Some((name, which)) => (name, Some(which)),
            None => (text, None),
        };
        let kind = DeviceKind::named(name).ok_or(UnknownDevice)?;
        let selector = match (kind, which) {
            (_, None) => Selector::First,
            (DeviceKind::Cuda, Some(which)) => Selector::Number(which.parse().map_err(|_| UnknownDevice)?),
            (DeviceKind::Wgpu, Some(which)) if !which.is_empty() => Selector::Name(which.into()),
            (DeviceKind::Wgpu | DeviceKind::Cpu, Some(_)) => return Err(UnknownDevice),
        };
        Ok(DeviceSpec { kind, selector })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_printed_so_that_it_is_read_again() {
        for kind in DeviceKind::ALL {
            let spec: DeviceSpec = kind.name().parse().expect("a name");
            assert_eq!(spec, DeviceSpec { kind, selector: Selector::First });
            for name in kind.aliases() {
                assert_eq!(name.parse(), Ok(spec.clone()), "{name}");
            }
        }
        for text in ["cuda:1", "wgpu:NVIDIA H200: the second"] {
            assert_eq!(text.parse::<DeviceSpec>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn both_names_of_the_wgpu_device_take_an_adapter() {
        let [old, new] = ["gpu:llvmpipe", "wgpu:llvmpipe"].map(|text| text.parse::<DeviceSpec>().expect(text));
        assert_eq!((old.kind, old.part_of_name()), (DeviceKind::Wgpu, Some("llvmpipe")));
        assert_eq!(old, new);
    }

    #[test]
    fn what_no_device_is_called_is_refused_with_the_names_there_are() {
        for text in ["", "abacus", "CPU", "cpu:", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "gpu:", "wgpu:", ":cpu"] {
            let refused = text.parse::<DeviceSpec>().expect_err(text).to_string();
            assert!(DeviceKind::ALL.iter().all(|kind| refused.contains(kind.name())), "{refused}");
        }
    }

    #[test]
    fn only_a_device_that_keeps_ticks_replays_them() {
        for kind in DeviceKind::ALL {
            let default = kind.default_hand_over();
            assert_eq!(default.commit == Commit::Replay, kind.keeps_ticks(), "{kind}");
            assert!(!default.encode_thread && !default.timed, "{kind}");
        }
    }
}
