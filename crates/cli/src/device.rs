//! Devices by their names: what plans for them may use, and opening one. The one place that names device crates.

use onetrip_cost::profile::Caps;
use onetrip_cpu::CpuDevice;
use onetrip_cuda::driver::Properties;
use onetrip_engine::{profiles, switch};
use onetrip_gpu::{GpuDevice, OpenError, Options};
use onetrip_ir::device::{Commit, Device, HandOver};
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::fail::Fail;
use crate::load;
use crate::output::note;

/// `gpu:NAME` as the kind of device and the part of an adapter's name.
pub fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once(':') {
        Some((kind, adapter)) => (kind, Some(adapter)),
        None => (name, None),
    }
}

/// What plans for a device may use: that of this machine's, or the usual where there is none.
pub fn target(name: &str) -> Result<Target, Fail> {
    match split(name) {
        ("cuda", number) => {
            let gpus = onetrip_cuda::driver::list(&switch::cuda_libraries()).unwrap_or_default();
            let Some(gpu) = gpus.get(ordinal(number)?) else { return Ok(Target::Cuda(CudaCaps::default())) };
            let own = launch_words()?.own;
            let lt = !own && onetrip_cuda::lt::version(&switch::cuda_libraries()).is_ok();
            Ok(Target::Cuda(CudaCaps { lt, ..gpu.caps() }))
        }
        ("gpu", adapter) => {
            let found = onetrip_gpu::adapter::named(adapter);
            Ok(Target::Wgsl(found.map_or(WgslCaps::default(), |a| a.caps)))
        }
        _ => Ok(Target::Cpu(load::isa()?)),
    }
}

/// What profiles call a GPU of this machine: its name, and what it is able to do, where the instruction set says how it is
/// driven. None where there is no such GPU.
pub fn identity(name: &str) -> Result<Option<(String, Caps)>, Fail> {
    Ok(match split(name) {
        ("cuda", number) => {
            let gpus = onetrip_cuda::driver::list(&switch::cuda_libraries()).unwrap_or_default();
            let caps = |g: &Properties| Caps { cores: g.sms as usize, isa: format!("sm_{}", g.sm), caches: vec![g.l2] };
            gpus.get(ordinal(number)?).map(|g| (g.name.clone(), caps(g)))
        }
        ("gpu", adapter) => {
            let gpu = onetrip_gpu::adapter::named(adapter);
            gpu.map(|a| (a.name.clone(), Caps { cores: 0, isa: a.backend.into(), caches: vec![] }))
        }
        _ => None,
    })
}

/// Number of an NVIDIA GPU: `cuda:1`.
fn ordinal(number: Option<&str>) -> Result<usize, Fail> {
    let parse = |n: &str| n.parse().map_err(|_| Fail::Input(format!("cuda:{n}: give the GPU's number, as in cuda:1")));
    number.map_or(Ok(0), parse)
}

/// What the flags say about handing over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// `--commit`.
    pub commit: Option<Commit>,
    /// `--encode-thread`.
    pub encode_thread: bool,
}

impl Asked {
    /// What was asked for, else what the profile of this hardware has for this kind of device, else the usual.
    fn or(self, kind: &str, hardware: &str, usual: Commit) -> HandOver {
        if self.commit.is_none() && !self.encode_thread {
            return profiles::commit_of(hardware, kind).unwrap_or(HandOver::by(usual));
        }
        HandOver { encode_thread: self.encode_thread, ..HandOver::by(self.commit.unwrap_or(usual)) }
    }
}

/// The policy where nothing else is said.
pub fn usual(kind: &str) -> Commit {
    if kind == "cuda" { Commit::Replay } else { Commit::Tick }
}

/// The words of the switch that says how kernels are launched.
fn launch_words() -> Result<onetrip_cuda::Options, Fail> {
    let mut options = onetrip_cuda::Options::default();
    let Some(how) = switch::get("ONETRIP_CUDA_LAUNCH") else { return Ok(options) };
    for word in how.split(',') {
        match word {
            "serial" => options.serial = true,
            "sync" => options.sync = true,
            "own" => options.own = true,
            _ => {
                let what = format!(
                    "ONETRIP_CUDA_LAUNCH={how}: words are serial, sync, own; --commit says how kernels are handed over"
                );
                return Err(Fail::Input(what));
            }
        }
    }
    Ok(options)
}

/// The step to capture.
fn capture() -> Result<Option<u64>, Fail> {
    let Some(text) = switch::get("ONETRIP_CAPTURE") else { return Ok(None) };
    match text.parse() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => Err(Fail::Input(format!("ONETRIP_CAPTURE={text}: give the number of a step, from 1"))),
    }
}

/// Opens a device; `threads` and `isa` are those of the CPU.
pub fn open(name: &str, threads: usize, isa: Isa, asked: Asked) -> Result<Box<dyn Device>, Fail> {
    let (mut device, how): (Box<dyn Device>, HandOver) = match split(name) {
        ("cuda", number) => {
            let seed = |text: String| {
                let what = format!("ONETRIP_CUDA_DELAYS={text}: give a whole number below {}", 1u64 << 32);
                text.parse().map_err(|_| Fail::Input(what))
            };
            let options = onetrip_cuda::Options {
                delays: switch::get("ONETRIP_CUDA_DELAYS").map(seed).transpose()?,
                ordinal: ordinal(number)?,
                cache: switch::cache_dir(),
                libraries: switch::cuda_libraries(),
                ..launch_words()?
            };
            let device = onetrip_cuda::CudaDevice::open(options).map_err(|e| Fail::Input(e.to_string()))?;
            let how = asked.or("cuda", &device.properties().name, usual("cuda"));
            (Box::new(device), how)
        }
        ("gpu", adapter) => {
            let options = Options {
                name: adapter.map(str::to_string),
                cache: switch::cache_dir(),
                capture: capture()?,
                ..Default::default()
            };
            let device = GpuDevice::open(&options).map_err(|e| match e {
                OpenError::Refused { .. } => Fail::Work(e.to_string()),
                _ => Fail::Input(e.to_string()),
            })?;
            device
                .lacks()
                .iter()
                .for_each(|(what, then)| note(&format!("note: {} has no {what}: {then}", device.adapter())));
            let how = asked.or("gpu", device.adapter(), usual("gpu"));
            (Box::new(device), how)
        }
        _ => {
            let device = CpuDevice::with_isa(Some(threads), isa);
            let refused = |e| Fail::Work(format!("cannot start {threads} threads: {e}; give fewer --threads"));
            let how =
                HandOver { encode_thread: asked.encode_thread, ..HandOver::by(asked.commit.unwrap_or(Commit::Tick)) };
            (Box::new(device.map_err(refused)?), how)
        }
    };
    device.set_hand_over(how)?;
    Ok(device)
}
