//! From the name of a device to its target for plans, the identity of its hardware, and the opened device.

use std::path::PathBuf;
use std::str::FromStr;

use onetrip_cpu::CpuDevice;
use onetrip_ir::device::TestDevice;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{CudaCaps, Target, WgslCaps};

use crate::host;
use crate::kind::{DeviceKind, DeviceSpec};

/// Settings with which devices are opened. The caller fills them in, from flags and from the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of threads in the pool of the CPU device.
    pub threads: usize,
    /// Instruction set of CPU kernels.
    pub isa: Isa,
    /// Folder in which compiled kernels are kept; `None`: they are not kept.
    pub cache: Option<PathBuf>,
    /// Folders in which CUDA's libraries are looked for, in addition to the usual ones.
    pub libraries: Vec<PathBuf>,
    /// How CUDA kernels are launched.
    pub launch: CudaLaunch,
    /// For tests: seed of random short delays of every warp of a CUDA kernel, which reveal missing synchronization.
    pub delays: Option<u32>,
    /// Number of the run, from 1, that a graphics debugger captures on the wgpu device.
    pub capture: Option<u64>,
}

impl Default for Settings {
    /// A thread for each processor, the best instruction set, and no compiled kernels kept on disk.
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

/// How CUDA kernels are launched. Its text form is the list of the fields that are true, separated by commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaLaunch {
    /// `serial`: each kernel waits for the end of the one before it, without programmatic dependent launch.
    pub serial: bool,
    /// `sync`: the host waits after every kernel, so that an error is reported at the dispatch that caused it.
    pub sync: bool,
    /// `own`: matrix products run on onetrip's own kernels, even if cuBLASLt is available.
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
    /// This program was built without the crate of this kind of device.
    #[error("this program was built without the device {0}: build it with that feature")]
    NotBuilt(DeviceKind),
    /// There is no device of this kind, or its driver or libraries are missing or fail.
    #[error("{why}")]
    Missing {
        /// The kind of device.
        kind: DeviceKind,
        /// The reason, and what to install, in one sentence.
        why: String,
    },
    /// There are devices of this kind, but not the requested one.
    #[error("{0}")]
    NoneSuch(String),
    /// The device exists, but its driver cannot open it.
    #[error("{0}")]
    Refused(String),
    /// The system cannot start the threads of the CPU device.
    #[error("cannot start {threads} threads: {why}")]
    Threads {
        /// Requested number of threads.
        threads: usize,
        /// Error of the system.
        why: std::io::Error,
    },
}

/// An opened device, ready to take weights.
pub struct Opened {
    /// The device, in its initial submit mode.
    pub device: Box<dyn TestDevice>,
    /// For a GPU: the name of the hardware, as profiles have it.
    pub hardware: Option<String>,
    /// Missing features that make kernels slower on this device than on most of its kind, each with the consequence.
    pub lacks: Vec<(&'static str, &'static str)>,
}

/// The identity of the hardware of a device, as profiles store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the hardware.
    pub name: String,
    /// Cores of a CPU, SMs of a GPU; 0 if the driver does not tell.
    pub cores: usize,
    /// Instruction set of a CPU (`avx2`), compute capability of an NVIDIA GPU (`sm_90`), else the interface of the driver.
    pub isa: String,
    /// Bytes of each cache, nearest to the core first; empty if the driver does not tell.
    pub caches: Vec<u64>,
}

impl DeviceSpec {
    /// The target of plans for this device: that of the device of this machine, or a usual one if the machine has none.
    pub fn target(&self, settings: &Settings) -> Target {
        match self.kind {
            DeviceKind::Cpu => Target::Cpu(settings.isa),
            DeviceKind::Cuda => Target::Cuda(cuda::caps(self, settings).unwrap_or_default()),
            DeviceKind::Wgpu => Target::Wgsl(wgpu::caps(self).unwrap_or_default()),
        }
    }

    /// The identity of the hardware; `None` if this machine has no such device.
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
