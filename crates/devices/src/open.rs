//! From the name of a device to its target for plans, to the identity of its hardware, and to the opened device.

use std::path::PathBuf;
use std::str::FromStr;

use onetrip_cpu::CpuDevice;
use onetrip_ir::device::TestDevice;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::host;
use crate::kind::{DeviceKind, DeviceSpec};

/// Settings with which devices are opened. The caller reads the environment and passes the values.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Threads of the CPU device.
    pub threads: usize,
    /// Instruction set of the CPU's kernels.
    pub isa: Isa,
    /// Folder for compiled kernels.
    pub cache: Option<PathBuf>,
    /// Folders that are searched for CUDA's libraries besides the usual places.
    pub libraries: Vec<PathBuf>,
    /// How CUDA kernels are launched.
    pub launch: CudaLaunch,
    /// For tests: the seed of short random delays in every warp of a CUDA kernel.
    pub delays: Option<u32>,
    /// The number, from 1, of the run that a graphics debugger captures on the wgpu device.
    pub capture: Option<u64>,
}

impl Default for Settings {
    /// All processors, the strongest instruction set, no kernel cache on disk.
    fn default() -> Settings {
        Settings {
            threads: host::cores(),
            isa: Isa::detect(),
            cache: None,
            libraries: vec![],
            launch: CudaLaunch::default(),
            delays: None,
            capture: None,
        }
    }
}

/// How CUDA kernels are launched. The text form is the names of the fields that are true, separated by commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaLaunch {
    /// `serial`: without dependent launch, so that each kernel starts when the one before it has ended.
    pub serial: bool,
    /// `sync`: the host waits for every kernel, so that a failure is reported at its own dispatch.
    pub sync: bool,
    /// `own`: matrix products run on onetrip's own kernels even where cuBLASLt is installed.
    pub own: bool,
}

impl FromStr for CudaLaunch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CudaLaunch, &'static str> {
        let mut launch = CudaLaunch::default();
        for word in text.split(',') {
            match word {
                "serial" => launch.serial = true,
                "sync" => launch.sync = true,
                "own" => launch.own = true,
                _ => return Err("words are serial, sync, own"),
            }
        }
        Ok(launch)
    }
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// This program was built without the crate that drives this kind of device.
    #[error("this program was built without the device {0}: build it with that feature")]
    NotBuilt(DeviceKind),
    /// This machine has no device of this kind, or a driver or library for it is missing or fails.
    #[error("{why}")]
    Missing {
        /// Kind of the device.
        kind: DeviceKind,
        /// The missing device, driver or library, and how to get it.
        why: String,
    },
    /// This machine has devices of this kind, but not the one that was asked for.
    #[error("{0}")]
    NoneSuch(String),
    /// The device exists, but its driver refuses to open it.
    #[error("{0}")]
    Refused(String),
    /// The system does not start the threads of the CPU device.
    #[error("cannot start {threads} threads: {why}")]
    Threads {
        /// Number of threads that were asked for.
        threads: usize,
        /// The system's error.
        why: std::io::Error,
    },
}

/// A device that is ready to take weights.
pub struct Opened {
    /// The device, in its default submit mode.
    pub device: Box<dyn TestDevice>,
    /// Name of the hardware in profiles, where the device is a GPU.
    pub hardware: Option<String>,
    /// Missing features that make kernels slower on this device than on most of its kind, each with its consequence.
    pub lacks: Vec<(&'static str, &'static str)>,
}

/// The identity of a device's hardware, by which profiles are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the hardware.
    pub name: String,
    /// Number of cores of a CPU or of SMs of a GPU; 0 where the driver does not report it.
    pub cores: usize,
    /// Instruction set of a CPU (`avx2`), compute capability of an NVIDIA GPU (`sm_90`), else the driver's interface.
    pub isa: String,
    /// Bytes of each data cache, L1 first; empty where the driver does not report them.
    pub caches: Vec<u64>,
}

impl DeviceSpec {
    /// The target of plans for this device: with the capabilities of this machine's device, or with usual ones where the
    /// machine has no such device.
    pub fn target(&self, settings: &Settings) -> Target {
        match self.kind {
            DeviceKind::Cpu => Target::Cpu(settings.isa),
            DeviceKind::Cuda => Target::Cuda(cuda::caps(self, settings).unwrap_or_default()),
            DeviceKind::Wgpu => Target::Wgsl(wgpu::caps(self).unwrap_or_default()),
        }
    }

    /// The identity of the device's hardware; none where this machine has no such device.
    pub fn identity(&self, settings: &Settings) -> Option<Identity> {
        match self.kind {
            DeviceKind::Cpu => Some(Identity {
                name: host::name(),
                cores: host::cores(),
                isa: settings.isa.name().into(),
                caches: host::caches(),
            }),
            DeviceKind::Cuda => cuda::identity(self, settings),
            DeviceKind::Wgpu => wgpu::identity(self),
        }
    }

    /// Opens the device.
    pub fn open(&self, settings: &Settings) -> Result<Opened, OpenError> {
        match self.kind {
            DeviceKind::Cpu => {
                let threads = settings.threads;
                let device = CpuDevice::with_isa(Some(threads), settings.isa);
                let device = device.map_err(|why| OpenError::Threads { threads, why })?;
                Ok(Opened { device: Box::new(device), hardware: None, lacks: vec![] })
            }
            DeviceKind::Cuda => cuda::open(self, settings),
            DeviceKind::Wgpu => wgpu::open(self, settings),
        }
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use onetrip_cuda::driver::{self, NoGpu, Properties};
    use onetrip_cuda::{CudaDevice, Options, lt};

    use super::*;

    fn properties(spec: &DeviceSpec, settings: &Settings) -> Option<Properties> {
        driver::list(&settings.libraries).ok()?.into_iter().nth(spec.ordinal())
    }

    pub fn caps(spec: &DeviceSpec, settings: &Settings) -> Option<CudaCaps> {
        let gpu = properties(spec, settings)?;
        let lt = !settings.launch.own && lt::version(&settings.libraries).is_ok();
        Some(CudaCaps { lt, ..gpu.caps() })
    }

    pub fn identity(spec: &DeviceSpec, settings: &Settings) -> Option<Identity> {
        let Properties { name, sm, sms, l2, .. } = properties(spec, settings)?;
        Some(Identity { name, cores: sms as usize, isa: format!("sm_{sm}"), caches: vec![l2] })
    }

    pub fn open(spec: &DeviceSpec, settings: &Settings) -> Result<Opened, OpenError> {
        let CudaLaunch { serial, sync, own } = settings.launch;
        let options = Options {
            ordinal: spec.ordinal(),
            serial,
            sync,
            delays: settings.delays,
            own,
            cache: settings.cache.clone(),
            libraries: settings.libraries.clone(),
        };
        let device = CudaDevice::open(options).map_err(|e| match e {
            onetrip_cuda::OpenError::NoGpu(NoGpu::None(..)) => OpenError::NoneSuch(e.to_string()),
            _ => OpenError::Missing { kind: DeviceKind::Cuda, why: e.to_string() },
        })?;
        let hardware = device.properties().name.clone();
        Ok(Opened { device: Box::new(device), hardware: Some(hardware), lacks: vec![] })
    }
}

#[cfg(feature = "wgpu")]
mod wgpu {
    use onetrip_wgpu::{Options, WgpuDevice, adapter};

    use super::*;

    pub fn caps(spec: &DeviceSpec) -> Option<WgslCaps> {
        adapter::named(spec.part_of_name()).map(|a| a.caps)
    }

    pub fn identity(spec: &DeviceSpec) -> Option<Identity> {
        let found = adapter::named(spec.part_of_name())?;
        Some(Identity { name: found.name.clone(), cores: 0, isa: found.backend.into(), caches: vec![] })
    }

    pub fn open(spec: &DeviceSpec, settings: &Settings) -> Result<Opened, OpenError> {
        let options = Options {
            name: spec.part_of_name().map(str::to_string),
            cache: settings.cache.clone(),
            capture: settings.capture,
            ..Options::default()
        };
        let device = WgpuDevice::open(&options).map_err(|e| match e {
            onetrip_wgpu::OpenError::None => OpenError::Missing { kind: DeviceKind::Wgpu, why: e.to_string() },
            onetrip_wgpu::OpenError::Name { .. } => OpenError::NoneSuch(e.to_string()),
            onetrip_wgpu::OpenError::Refused { .. } => OpenError::Refused(e.to_string()),
        })?;
        let (hardware, lacks) = (device.adapter().to_string(), device.lacks());
        Ok(Opened { device: Box::new(device), hardware: Some(hardware), lacks })
    }
}

#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::*;

    pub fn caps(_: &DeviceSpec, _: &Settings) -> Option<CudaCaps> {
        None
    }

    pub fn identity(_: &DeviceSpec, _: &Settings) -> Option<Identity> {
        None
    }

    pub fn open(spec: &DeviceSpec, _: &Settings) -> Result<Opened, OpenError> {
        Err(OpenError::NotBuilt(spec.kind))
    }
}

#[cfg(not(feature = "wgpu"))]
mod wgpu {
    use super::*;

    pub fn caps(_: &DeviceSpec) -> Option<WgslCaps> {
        None
    }

    pub fn identity(_: &DeviceSpec) -> Option<Identity> {
        None
    }

    pub fn open(spec: &DeviceSpec, _: &Settings) -> Result<Opened, OpenError> {
        Err(OpenError::NotBuilt(spec.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_launch_are_read_in_any_order() {
        let own_sync = CudaLaunch { serial: false, sync: true, own: true };
        assert_eq!(["own,sync", "sync,own"].map(str::parse), [Ok(own_sync), Ok(own_sync)]);
        for text in ["", "fast", "serial,", "serial sync"] {
            assert!(text.parse::<CudaLaunch>().is_err_and(|e| e.contains("serial")), "{text:?}");
        }
    }

    #[test]
    fn the_cpu_opens_with_the_instruction_set_and_is_what_its_target_says() {
        let settings = Settings { threads: 1, ..Settings::default() };
        let opened = DeviceSpec::CPU.open(&settings).expect("a thread");
        assert_eq!(opened.device.target(), DeviceSpec::CPU.target(&settings));
        assert_eq!(opened.device.name(), DeviceKind::Cpu.name());
        assert!(opened.hardware.is_none() && opened.lacks.is_empty());
        let identity = DeviceSpec::CPU.identity(&settings).expect("there is a processor");
        assert_eq!((identity.isa.as_str(), identity.cores), (settings.isa.name(), host::cores()));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_planned_for_as_the_usual_one_and_cannot_be_opened() {
        let spec: DeviceSpec = "cuda:99".parse().expect("a name");
        let settings = Settings::default();
        assert_eq!(spec.target(&settings), Target::Cuda(CudaCaps::default()));
        assert_eq!(spec.identity(&settings), None);
        assert!(spec.open(&settings).is_err());
    }
}
