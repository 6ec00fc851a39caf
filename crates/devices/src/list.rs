//! Lists the devices of this machine; for a kind without a device, says what is missing.

use onetrip_ir::target::WgslCaps;

use crate::host;
use crate::kind::{DeviceKind, DeviceSpec, Selector};
use crate::open::{OpenError, Settings};

/// Description of a device of this machine.
#[derive(Clone, Debug)]
pub enum Info {
    /// The CPU.
    Cpu(CpuInfo),
    /// An NVIDIA GPU.
    Cuda(CudaInfo),
    /// An adapter of Vulkan, Metal or DX12.
    Wgpu(WgpuInfo),
}

/// Description of the processor.
#[derive(Clone, Debug)]
pub struct CpuInfo {
    /// Model name of the processor.
    pub processor: String,
    /// Number of logical processors that this program may use.
    pub cores: usize,
    /// Instruction set of the kernels in use.
    pub isa: &'static str,
    /// Instruction sets that the processor has and kernels exist for, weakest first.
    pub isas: Vec<&'static str>,
    /// Bytes of memory, if the system tells.
    pub memory: Option<u64>,
    /// Bytes of memory that are available for new allocations, if the system tells.
    pub memory_available: Option<u64>,
}

/// Description of an NVIDIA GPU.
#[derive(Clone, Debug)]
pub struct CudaInfo {
    /// Number of the device in CUDA, from 0.
    pub ordinal: usize,
    /// Name of the GPU, as the driver gives it.
    pub name: String,
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Number of SMs.
    pub sms: u32,
    /// Most bytes of shared memory that a thread block may use.
    pub shared: u32,
    /// Bytes of the L2 cache.
    pub l2: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// CUDA version of the driver: 13000 for 13.0.
    pub driver: i32,
    /// The compiler of kernels (NVRTC) and the library of matrix products (cuBLASLt) that were found, in words.
    pub compiler: String,
}

/// Description of an adapter of Vulkan, Metal or DX12.
#[derive(Clone, Debug)]
pub struct WgpuInfo {
    /// Name of the adapter.
    pub name: String,
    /// The interface to the driver: `vulkan`, `metal` or `dx12`.
    pub backend: &'static str,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub class: &'static str,
    /// Name and version of the driver.
    pub driver: String,
    /// Bytes of memory of the adapter, if the backend tells.
    pub memory: Option<u64>,
    /// Capabilities that kernels may use.
    pub caps: WgslCaps,
    /// Features that onetrip uses and the adapter has.
    pub features: Vec<&'static str>,
    /// Features that onetrip uses and the adapter lacks, each with the consequence.
    pub missing: Vec<(&'static str, &'static str)>,
}

impl Info {
    /// The name with which the device is opened.
    pub fn spec(&self) -> DeviceSpec {
        match self {
            Info::Cpu(_) => DeviceSpec::CPU,
            Info::Cuda(gpu) => DeviceSpec { kind: DeviceKind::Cuda, selector: Selector::Number(gpu.ordinal) },
            Info::Wgpu(gpu) => DeviceSpec { kind: DeviceKind::Wgpu, selector: Selector::Name(gpu.name.clone()) },
        }
    }
}

/// The devices of every kind; for a kind without a usable device, the reason.
pub fn list(settings: &Settings) -> Vec<(DeviceKind, Result<Vec<Info>, OpenError>)> {
    let of = |kind| match kind {
        DeviceKind::Cpu => Ok(vec![Info::Cpu(cpu(settings))]),
        DeviceKind::Cuda => cuda(settings).map(|all| all.into_iter().map(Info::Cuda).collect()),
        DeviceKind::Wgpu => wgpu().map(|all| all.into_iter().map(Info::Wgpu).collect()),
    };
    DeviceKind::ALL.into_iter().map(|kind| (kind, of(kind))).collect()
}

fn cpu(settings: &Settings) -> CpuInfo {
    let (memory, memory_available) = host::memory();
    let (isa, isas) = (settings.isa.name(), host::isas());
    CpuInfo { processor: host::cpu(), cores: host::cores(), isa, isas, memory, memory_available }
}

#[cfg(feature = "cuda")]
fn cuda(settings: &Settings) -> Result<Vec<CudaInfo>, OpenError> {
    use onetrip_cuda::driver::{self, Properties};
    use onetrip_cuda::lt;
    use onetrip_cuda::nvrtc::Compiler;

    let missing = |why: String| OpenError::Missing { kind: DeviceKind::Cuda, why };
    let gpus = driver::list(&settings.libraries).map_err(|e| missing(e.to_string()))?;
    let sm = gpus.first().map_or(0, |gpu| gpu.sm);
    let compiler = Compiler::new(sm, None, &settings.libraries).map_err(|e| missing(e.to_string()))?;
    let (major, minor) = compiler.version;
    let products = match lt::version(&settings.libraries) {
        Ok((major, minor)) => format!("cuBLASLt {major}.{minor}"),
        Err(missing) => missing.to_string(),
    };
    let compiler = format!("NVRTC {major}.{minor} compiles for {}; {products}", compiler.arch);
    let info = |Properties { ordinal, name, sm, sms, shared, l2, memory, driver }| {
        let compiler = compiler.clone();
        CudaInfo { ordinal, name, sm, sms, shared, l2, memory, driver, compiler }
    };
    Ok(gpus.into_iter().map(info).collect())
}

#[cfg(feature = "wgpu")]
fn wgpu() -> Result<Vec<WgpuInfo>, OpenError> {
    let info = |a: &onetrip_wgpu::Adapter| WgpuInfo {
        name: a.name.clone(),
        backend: a.backend,
        class: a.kind,
        driver: a.driver.clone(),
        memory: a.memory,
        caps: a.caps,
        features: a.features.clone(),
        missing: a.missing.clone(),
    };
    match onetrip_wgpu::adapters() {
        [] => Err(OpenError::Missing { kind: DeviceKind::Wgpu, why: onetrip_wgpu::OpenError::None.to_string() }),
        all => Ok(all.iter().map(info).collect()),
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: &Settings) -> Result<Vec<CudaInfo>, OpenError> {
    Err(OpenError::NotBuilt(DeviceKind::Cuda))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() -> Result<Vec<WgpuInfo>, OpenError> {
    Err(OpenError::NotBuilt(DeviceKind::Wgpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_once_and_what_is_there_opens_by_its_name() {
        let all = list(&Settings::default());
        assert_eq!(all.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), DeviceKind::ALL);
        for (kind, found) in all {
            match found {
                Ok(found) => {
                    for spec in found.iter().map(Info::spec) {
                        assert_eq!(spec.kind, kind);
                        assert_eq!(spec.to_string().parse(), Ok(spec));
                    }
                }
                Err(why) => assert!(kind != DeviceKind::Cpu && why.to_string().len() > 10, "{kind}: {why}"),
            }
        }
    }
}
