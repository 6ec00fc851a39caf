//! The target of a plan: the kernel language with the capabilities of its device, the row bucket, and the precision of
//! activations. These are plain data, by which plans are keyed.

use crate::simd::Isa;

/// Buckets of row counts for which plans are built and kernels chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowBucket {
    /// One row.
    R1,
    /// 2 to 8 rows.
    R2To8,
    /// 9 to 64 rows.
    R9To64,
    /// More than 64 rows.
    Large,
}

impl RowBucket {
    /// The bucket of a batch of `rows` tokens.
    pub fn of(rows: usize) -> RowBucket {
        match rows {
            0..=1 => RowBucket::R1,
            2..=8 => RowBucket::R2To8,
            9..=64 => RowBucket::R9To64,
            _ => RowBucket::Large,
        }
    }

    /// True for at most eight rows. Preparing so few rows (norm, activation quantization) is cheap, so every worker does it for
    /// itself rather than wait for another's result.
    pub fn is_small(self) -> bool {
        self <= RowBucket::R2To8
    }

    /// Name in plans and file names.
    pub fn name(self) -> &'static str {
        match self {
            RowBucket::R1 => "1",
            RowBucket::R2To8 => "2-8",
            RowBucket::R9To64 => "9-64",
            RowBucket::Large => "65+",
        }
    }
}

/// The type to which activations may be rounded before a matrix product. The compiler's `precision` derives the type for
/// each weight format from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// f32.
    F32,
    /// f16 where tensor cores multiply; f32 elsewhere.
    F16,
    /// bf16 where tensor cores multiply; f32 elsewhere.
    Bf16,
    /// int8 in blocks of 32 where the weight is quantized; f16 where tensor cores multiply.
    Int8,
}

/// Which kernel language a plan is lowered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Rust on the CPU, with the instruction set of its kernels.
    Cpu(Isa),
    /// CUDA C++, with the capabilities of the GPU.
    Cuda(CudaCaps),
    /// WGSL, with the capabilities of the adapter.
    Wgsl(WgslCaps),
}

impl Target {
    /// True if kernels are source text that the device compiles.
    pub fn is_text(self) -> bool {
        !matches!(self, Target::Cpu(_))
    }

    /// The most bytes of a weight in one binding: a larger weight is cut into shards ([`Sig::shards`]).
    pub fn binding_bytes(self) -> u64 {
        match self {
            Target::Wgsl(caps) => caps.binding_bytes,
            _ => u64::MAX,
        }
    }

    /// The most rows of one step: a longer prompt runs in chunks. A GPU needs more rows than a CPU to be fully occupied.
    pub fn step_rows(self) -> usize {
        match self {
            Target::Cpu(_) => 512,
            Target::Cuda(_) => 2048,
            // The activations of wide layers must fit one binding.
            Target::Wgsl(caps) if caps.binding_bytes < 256 << 20 => 1024,
            Target::Wgsl(_) => 2048,
        }
    }
}

/// Capabilities of an NVIDIA GPU that kernels depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaCaps {
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Number of SMs.
    pub sms: u32,
    /// Bytes of dynamic shared memory that a block may ask for.
    pub shared: u32,
    /// True if cuBLASLt can be called.
    pub lt: bool,
}

impl Default for CudaCaps {
    /// The capabilities of an H200, for plans that are made without a device.
    fn default() -> Self {
        CudaCaps { sm: 90, sms: 132, shared: 227 * 1024, lt: true }
    }
}

/// Capabilities of a wgpu adapter that kernels depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgslCaps {
    /// f16 arithmetic is supported.
    pub f16: bool,
    /// Smallest and largest subgroup size; none where subgroups are not supported.
    pub subgroups: Option<(u32, u32)>,
    /// Dot products of four packed int8 (`dot4I8Packed`) are supported.
    pub dot4: bool,
    /// Rows and columns of a cooperative matrix: 8 or 16; 0 where they are not supported.
    pub coop: u32,
    /// Bytes of workgroup memory that a workgroup may use.
    pub workgroup_bytes: u32,
    /// The most invocations of a workgroup.
    pub invocations: u32,
    /// The most bytes of a weight in one buffer and one binding, at most 1 GiB.
    pub binding_bytes: u64,
}

impl WgslCaps {
    /// The most bytes of a weight buffer, even if the adapter allows more.
    pub const MAX_SHARD: u64 = 1 << 30;
}

impl Default for WgslCaps {
    /// Capabilities of nearly every recent adapter, for plans that are made without a device.
    fn default() -> Self {
        WgslCaps {
            f16: true,
            subgroups: Some((32, 32)),
            dot4: true,
            coop: 0,
            workgroup_bytes: 32768,
            invocations: 256,
            binding_bytes: WgslCaps::MAX_SHARD,
        }
    }
}
