//! Devices by their names: what plans for them may use, and opening one. The one place that names device crates.

use onetrip_core::device::Device;
use onetrip_core::ops::{CudaCaps, Target, WgslCaps};
use onetrip_core::simd::Isa;
use onetrip_cpu::CpuDevice;
use onetrip_engine::switch;
use onetrip_gpu::{Commit, GpuDevice, OpenError, Options};

use crate::fail::Fail;
use crate::load;

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
            let own = cuda_launch()?.own;
            let lt = !own && onetrip_cuda::lt::version(&switch::cuda_libraries()).is_ok();
            Ok(Target::Cuda(CudaCaps { lt, ..gpu.caps() }))
        }
        ("gpu", adapter) => {
            let matches =
                |a: &onetrip_gpu::Adapter| adapter.is_none_or(|n| a.name.to_lowercase().contains(&n.to_lowercase()));
            let found = onetrip_gpu::adapters().into_iter().find(matches);
            Ok(Target::Wgsl(found.map_or(WgslCaps::default(), |a| a.caps)))
        }
        _ => Ok(Target::Cpu(load::isa()?)),
    }
}

/// Number of an NVIDIA GPU: `cuda:1`.
fn ordinal(number: Option<&str>) -> Result<usize, Fail> {
    let parse = |n: &str| n.parse().map_err(|_| Fail::Input(format!("cuda:{n}: give the GPU's number, as in cuda:1")));
    number.map_or(Ok(0), parse)
}

/// How kernels are launched, as the switch says it.
fn cuda_launch() -> Result<onetrip_cuda::Options, Fail> {
    let mut options = onetrip_cuda::Options::default();
    let Some(how) = switch::get("ONETRIP_CUDA_LAUNCH") else { return Ok(options) };
    for word in how.split(',') {
        match word {
            "each" => options.commit = onetrip_cuda::Commit::Each,
            "replay" => options.commit = onetrip_cuda::Commit::Replay,
            "serial" => options.serial = true,
            "own" => options.own = true,
            _ => return Err(Fail::Input(format!("ONETRIP_CUDA_LAUNCH={how}: words are each, replay, serial, own"))),
        }
    }
    Ok(options)
}

/// Opens a device; `threads` and `isa` are those of the CPU.
pub fn open(name: &str, threads: usize, isa: Isa, commit: Commit) -> Result<Box<dyn Device>, Fail> {
    match split(name) {
        ("cuda", number) => {
            let options = onetrip_cuda::Options {
                ordinal: ordinal(number)?,
                cache: switch::cache_dir(),
                libraries: switch::cuda_libraries(),
                ..cuda_launch()?
            };
            let device = onetrip_cuda::CudaDevice::open(options).map_err(|e| Fail::Input(e.to_string()))?;
            Ok(Box::new(device))
        }
        ("gpu", adapter) => {
            let options =
                Options { name: adapter.map(str::to_string), commit, cache: switch::cache_dir(), plain: false };
            let device = GpuDevice::open(&options).map_err(|e| match e {
                OpenError::Refused { .. } => Fail::Work(e.to_string()),
                _ => Fail::Input(e.to_string()),
            })?;
            Ok(Box::new(device))
        }
        _ => {
            let device = CpuDevice::with_isa(Some(threads), isa);
            let refused = |e| Fail::Work(format!("cannot start {threads} threads: {e}; give fewer --threads"));
            Ok(Box::new(device.map_err(refused)?))
        }
    }
}
