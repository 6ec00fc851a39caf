//! Where a plan runs: the kernel language with the capabilities of its device, the row bucket, and the precision of
//! activations. Everything here is plain data that plans are keyed by.

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

    /// True for at most eight rows. Work on so few rows is cheap enough for every worker to repeat it, rather than wait until
    /// one worker has done it.
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

/// The type to which matmuls may round their activations. The compiler's module `precision` says which type each matmul then
/// uses.
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
    /// CUDA C++, for a device that can do this.
    Cuda(CudaCaps),
    /// WGSL, for a device that can do this.
    Wgsl(WgslCaps),
}

impl Target {
    /// True if kernels are text that a device compiles.
    pub fn is_text(self) -> bool {
        !matches!(self, Target::Cpu(_))
    }

    /// The most bytes of a weight that a kernel can bind at once: a larger weight is cut into shards ([`Sig::shards`]).
    pub fn binding_bytes(self) -> u64 {
        match self {
            Target::Wgsl(caps) => caps.binding_bytes,
            _ => u64::MAX,
        }
    }

    /// The most rows of one step: a longer prompt runs in chunks. A GPU needs more rows than a CPU to be busy.
    pub fn step_rows(self) -> usize {
        match self {
            Target::Cpu(_) => 512,
            Target::Cuda(_) => 2048,
            // The activations of wide layers must fit a binding.
            Target::Wgsl(caps) if caps.binding_bytes < 256 << 20 => 1024,
            Target::Wgsl(_) => 2048,
        }
    }
}

/// The properties of an NVIDIA GPU by which kernels are chosen and tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaCaps {
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// SMs.
    pub sms: u32,
    /// Bytes of dynamic shared memory that a block may ask for.
    pub shared: u32,
    /// True if cuBLASLt can be called.
    pub lt: bool,
}

impl Default for CudaCaps {
    /// An H200, for plans without a device.
    fn default() -> Self {
        CudaCaps { sm: 90, sms: 132, shared: 227 * 1024, lt: true }
    }
}

/// The features and limits of a wgpu adapter by which kernels are chosen and tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgslCaps {
    /// Kernels may compute in f16.
    pub f16: bool,
    /// Least and largest size of a subgroup, where there are subgroups.
    pub subgroups: Option<(u32, u32)>,
    /// Kernels may use dot products of four packed int8.
    pub dot4: bool,
    /// Side of the tiles of cooperative matrices: 8, 16, or 0 where there are none.
    pub coop: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations of a workgroup.
    pub invocations: u32,
    /// The most bytes of a weight that fit one buffer and one binding; at most 1 GiB.
    pub binding_bytes: u64,
}

impl WgslCaps {
    /// The most bytes of a buffer of weights, even where an adapter offers more.
    pub const MAX_SHARD: u64 = 1 << 30;
}

impl Default for WgslCaps {
    /// The features that nearly every adapter of recent years has, for plans without a device.
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
