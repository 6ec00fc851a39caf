//! Adapters: lists those of the machine with their features, and opens one by its name.

use std::sync::OnceLock;

use onetrip_ir::target::WgslCaps;
use wgpu::{Backends, Features, InstanceFlags, Limits};

/// Bytes of the largest binding: drivers of Vulkan accept 2 GiB less four bytes.
const MAX_BINDING: u64 = (2 << 30) - 4;

const F16: (&str, &str) = ("f16", "arithmetic in f32 instead: slower");
const SUBGROUPS: (&str, &str) = ("subgroups", "sums go through workgroup memory: slower");

/// The features that the adapter lacks although nearly every adapter has them, each with its consequence.
pub(crate) fn slower(caps: &WgslCaps) -> Vec<(&'static str, &'static str)> {
    [(caps.f16, F16), (caps.subgroups.is_some(), SUBGROUPS)]
        .into_iter()
        .filter(|(has, _)| !has)
        .map(|(_, what)| what)
        .collect()
}

/// The optional features: the name of each, and the consequence where it is missing, as the command `devices` prints them.
const FEATURES: &[(Features, &str, &str)] = &[
    (Features::SHADER_F16, F16.0, F16.1),
    (Features::SUBGROUP, SUBGROUPS.0, SUBGROUPS.1),
    (Features::EXPERIMENTAL_COOPERATIVE_MATRIX, "cooperative matrices", "prefill in plain tiles: slower"),
    (Features::TIMESTAMP_QUERY, "time stamps", "profile cannot time dispatches"),
    (Features::TIMESTAMP_QUERY_INSIDE_PASSES, "time stamps inside a pass", "profile opens a pass for each stamp"),
    (Features::PIPELINE_CACHE, "pipeline cache", "kernels are compiled at every start"),
];

/// An adapter of this machine.
pub struct Adapter {
    adapter: wgpu::Adapter,
    /// Name, as its driver gives it.
    pub name: String,
    /// The interface to the driver: `vulkan`, `metal` or `dx12`.
    pub backend: &'static str,
    /// Name and version of the driver.
    pub driver: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub kind: &'static str,
    /// Bytes of the adapter's memory, where the backend reports them.
    pub memory: Option<u64>,
    /// The capabilities by which kernels are chosen.
    pub caps: WgslCaps,
    /// The adapter's features, of those that onetrip uses.
    pub features: Vec<&'static str>,
    /// The features that the adapter lacks, each with its consequence.
    pub missing: Vec<(&'static str, &'static str)>,
}

/// Why a device could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The machine has no adapter.
    None,
    /// No adapter has such a name.
    Name {
        /// The name that was asked for.
        asked: String,
        /// Names of the machine's adapters.
        have: Vec<String>,
    },
    /// The driver refused to open the adapter.
    Refused {
        /// Name of the adapter.
        adapter: String,
        /// The driver's message.
        why: String,
    },
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::None => write!(
                f,
                "there is no GPU adapter: install a Vulkan driver (on Debian, mesa-vulkan-drivers has one in software)"
            ),
            OpenError::Name { asked, have } => {
                write!(f, "no GPU adapter is called {asked:?}: this machine has {}", have.join(", "))
            }
            OpenError::Refused { adapter, why } => {
                write!(f, "{adapter} cannot be opened: {why}; try another adapter of `onetrip devices`")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// All adapters, the fastest kind first. They are enumerated only once, because that takes drivers a long time.
pub fn adapters() -> &'static [Adapter] {
    static FOUND: OnceLock<Vec<Adapter>> = OnceLock::new();
    FOUND.get_or_init(find)
}

fn find() -> Vec<Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: Backends::VULKAN | Backends::METAL | Backends::DX12,
        // No flags: VALIDATION_INDIRECT_CALL would compile kernels for indirect dispatches, which are not used.
        flags: InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let found = pollster::block_on(instance.enumerate_adapters(Backends::all()));
    let mut all: Vec<Adapter> = found.into_iter().map(describe).collect();
    let order = ["discrete", "integrated", "virtual", "other", "software"];
    all.sort_by_key(|a| order.iter().position(|k| *k == a.kind));
    all
}

/// The adapter whose name contains `name` (in any case), or the first one.
pub fn named(name: Option<&str>) -> Option<&'static Adapter> {
    adapters().iter().find(|a| name.is_none_or(|n| a.name.to_lowercase().contains(&n.to_lowercase())))
}

fn describe(adapter: wgpu::Adapter) -> Adapter {
    let info = adapter.get_info();
    let (features, limits) = (adapter.features(), adapter.limits());
    let has = |f: Features| features.contains(f);
    let coop = adapter.cooperative_matrix_properties();
    let coop = coop.iter().filter(|p| {
        use wgpu::CooperativeScalarType::{F16, F32};
        p.ab_type == F16 && p.cr_type == F32 && p.m_size == p.n_size && p.n_size == p.k_size
    });
    let coop = coop.map(|p| p.m_size).filter(|n| matches!(n, 8 | 16)).max().unwrap_or(0);
    let subgroups = has(Features::SUBGROUP).then_some((info.subgroup_min_size, info.subgroup_max_size));
    let caps = WgslCaps {
        f16: has(Features::SHADER_F16),
        subgroups,
        // Always true: where the GPU has no such instruction, it is emulated with shifts and products.
        dot4: true,
        coop: if has(Features::EXPERIMENTAL_COOPERATIVE_MATRIX) && has(Features::SHADER_F16) { coop } else { 0 },
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        invocations: limits.max_compute_invocations_per_workgroup,
        // A multiple of 16 bytes, the size of the widest load.
        binding_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(WgslCaps::MAX_SHARD)
            & !15,
    };
    Adapter {
        name: info.name.clone(),
        backend: match info.backend {
            wgpu::Backend::Vulkan => "vulkan",
            wgpu::Backend::Metal => "metal",
            wgpu::Backend::Dx12 => "dx12",
            _ => "other",
        },
        driver: [info.driver.as_str(), info.driver_info.as_str()].join(" ").trim().to_string(),
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "software",
            wgpu::DeviceType::Other => "other",
        },
        memory: memory(&adapter),
        caps,
        features: FEATURES.iter().filter(|(f, ..)| has(*f)).map(|(_, name, _)| *name).collect(),
        missing: FEATURES.iter().filter(|(f, ..)| !has(*f)).map(|(_, name, then)| (*name, *then)).collect(),
        adapter,
    }
}

/// Bytes of the largest heap of the device's own memory.
fn memory(adapter: &wgpu::Adapter) -> Option<u64> {
    #[cfg(not(target_vendor = "apple"))]
    {
        // SAFETY: the handle is only asked for its properties, and dropped before the adapter.
        let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
        let instance = vulkan.shared_instance().raw_instance();
        // SAFETY: instance and physical device belong together and are alive.
        let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
        memory.memory_heaps_as_slice().iter().filter(|h| h.flags.as_raw() & 1 == 1).map(|h| h.size).max()
    }
    #[cfg(target_vendor = "apple")]
    {
        let _ = adapter;
        None
    }
}

/// An open adapter.
pub(crate) struct Open {
    pub name: String,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub features: Features,
    pub limits: Limits,
    pub caps: WgslCaps,
    pub memory: Option<u64>,
    pub info: wgpu::AdapterInfo,
}

/// Opens the adapter whose name contains `name` (in any case), or the first one.
pub(crate) fn open(name: Option<&str>) -> Result<Open, OpenError> {
    let all = adapters();
    let Some(found) = named(name) else {
        return Err(match name {
            Some(asked) if !all.is_empty() => {
                OpenError::Name { asked: asked.into(), have: all.iter().map(|a| a.name.clone()).collect() }
            }
            _ => OpenError::None,
        });
    };
    let wanted = FEATURES.iter().fold(Features::empty(), |all, (f, ..)| all | *f);
    let features = found.adapter.features() & (wanted | Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
    // The adapter's own limits are required, because wgpu's defaults allow only 128 MiB for a binding.
    let mut limits = found.adapter.limits();
    limits.max_storage_buffer_binding_size = limits.max_storage_buffer_binding_size.min(MAX_BINDING);
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("onetrip"),
        required_features: features,
        required_limits: limits.clone(),
        // SAFETY: cooperative matrices are marked experimental; every kernel that uses them is validated by naga and
        // compared with its meaning by the self-test.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        memory_hints: wgpu::MemoryHints::Performance,
        trace: wgpu::Trace::Off,
    };
    let refused = |e: wgpu::RequestDeviceError| OpenError::Refused { adapter: found.name.clone(), why: e.to_string() };
    let (device, queue) = pollster::block_on(found.adapter.request_device(&descriptor)).map_err(refused)?;
    let info = found.adapter.get_info();
    Ok(Open { name: found.name.clone(), device, queue, features, limits, caps: found.caps, memory: found.memory, info })
}
