//! What flags and the environment say about devices: with what they are opened, and how runs are submitted to them.

use onetrip_cost::profile::Caps;
use onetrip_devices::{CudaLaunch, DeviceKind, DeviceSpec, Settings, host};
use onetrip_engine::{profiles, switch};
use onetrip_ir::device::{Commit, SubmitMode, TestDevice};
use onetrip_ir::simd::Isa;
use onetrip_ir::target::Target;

use crate::support::fail::Fail;
use crate::support::output::note;
use crate::support::skipped::note_skipped;

/// The instruction set of kernels: the switch, or the best there is.
pub fn isa() -> Result<Isa, Fail> {
    match switch::get("ONETRIP_ISA") {
        None => Ok(Isa::detect()),
        Some(name) => isa_named(&name).map_err(|e| Fail::Input(format!("ONETRIP_ISA={name}: {e}"))),
    }
}

/// An instruction set of this processor by its name.
pub fn isa_named(name: &str) -> Result<Isa, String> {
    let isa = Isa::available().iter().copied().find(|isa| isa.name() == name);
    let all = host::isas().join(", ");
    isa.ok_or_else(|| format!("this processor has no such instruction set; give one of {all}"))
}

/// With what the switches have a device opened, on all processors. Only what this kind of device looks at is read.
pub fn settings(spec: &DeviceSpec) -> Result<Settings, Fail> {
    let settings = common()?;
    Ok(match spec.kind {
        DeviceKind::Cpu => settings,
        DeviceKind::Cuda => Settings { launch: launch()?, delays: delays()?, ..settings },
        DeviceKind::Wgpu => Settings { capture: capture()?, ..settings },
    })
}

/// With what devices of every kind are listed.
pub fn common() -> Result<Settings, Fail> {
    let (cache, libraries) = (switch::cache_dir(), switch::cuda_libraries());
    Ok(Settings { isa: isa()?, cache, libraries, ..Settings::default() })
}

fn launch() -> Result<CudaLaunch, Fail> {
    let Some(how) = switch::get("ONETRIP_CUDA_LAUNCH") else { return Ok(CudaLaunch::default()) };
    how.parse()
        .map_err(|e| Fail::Input(format!("ONETRIP_CUDA_LAUNCH={how}: {e}; --commit says how kernels are submitted")))
}

fn delays() -> Result<Option<u32>, Fail> {
    let seed = |text: String| {
        let what = format!("ONETRIP_CUDA_DELAYS={text}: give a whole number below {}", 1u64 << 32);
        text.parse().map_err(|_| Fail::Input(what))
    };
    switch::get("ONETRIP_CUDA_DELAYS").map(seed).transpose()
}

/// The step to capture.
fn capture() -> Result<Option<u64>, Fail> {
    let Some(text) = switch::get("ONETRIP_CAPTURE") else { return Ok(None) };
    match text.parse() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => Err(Fail::Input(format!("ONETRIP_CAPTURE={text}: give the number of a step, from 1"))),
    }
}

/// What plans for a device may use: that of this machine's, or the usual where there is none.
pub fn target(spec: &DeviceSpec) -> Result<Target, Fail> {
    Ok(spec.target(&settings(spec)?))
}

/// What profiles call a device of this machine: its name, and what it is able to do, where the instruction set says how it
/// is driven. None where there is no such device.
pub fn identity(spec: &DeviceSpec) -> Result<Option<(String, Caps)>, Fail> {
    let identity = spec.identity(&settings(spec)?);
    Ok(identity.map(|i| (i.name, Caps { cores: i.cores, isa: i.isa, caches: i.caches })))
}

/// What the flags say about submitting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// `--commit`.
    pub commit: Option<Commit>,
    /// `--encode-thread`.
    pub encode_thread: bool,
}

impl Asked {
    /// What was asked for, else what the profile of a GPU has for this kind of device, else the usual.
    fn or_profile(self, kind: DeviceKind, hardware: Option<&str>) -> SubmitMode {
        let usual = kind.default_hand_over();
        if self.commit.is_none() && !self.encode_thread {
            return hardware
                .and_then(|name| profiles::commit_of(name, kind.name(), &mut note_skipped))
                .unwrap_or(usual);
        }
        SubmitMode { encode_thread: self.encode_thread, ..SubmitMode::by(self.commit.unwrap_or(usual.commit)) }
    }
}

/// Opens a device, and says on stderr what makes it slower than most of its kind.
pub fn open(spec: &DeviceSpec, settings: &Settings, asked: Asked) -> Result<Box<dyn TestDevice>, Fail> {
    let mut opened = spec.open(settings)?;
    let hardware = opened.hardware.as_deref();
    for (what, then) in &opened.lacks {
        note(&format!("note: {} has no {what}: {then}", hardware.unwrap_or(spec.kind.name())));
    }
    opened.device.set_submit_mode(asked.or_profile(spec.kind, hardware))?;
    Ok(opened.device)
}
