//! How activations are rounded where they meet a weight. Kernels, the reference and tests all ask here.

use crate::lowering::OpSite;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::{Layout, Sig};

/// What an activation is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// It stays f32.
    None,
    /// int8 in blocks of 32, each with a scale.
    Int8,
    /// f16; what is too large for it becomes the largest f16. The weight is rounded to f16 as well.
    F16,
    /// bf16, and so is the weight.
    Bf16,
}

impl Rounding {
    /// Multiplies in 16-bit numbers, as tensor cores do.
    pub fn is_half(self) -> bool {
        matches!(self, Rounding::F16 | Rounding::Bf16)
    }

    /// Largest error of a product, relative to the largest product, that comes of rounding the *weight*: products are
    /// compared with those of rounded activations, but with weights as they are.
    pub fn tolerance(self) -> f32 {
        match self {
            Rounding::None | Rounding::Int8 => 0.0,
            Rounding::F16 => 1e-3,
            Rounding::Bf16 => 8e-3,
        }
    }

    /// Rounds one number to 16 bits; other kinds of rounding need a block and leave it.
    pub fn half(self, x: f32) -> f32 {
        match self {
            Rounding::F16 => half::f16::from_f32(x.clamp(-65504.0, 65504.0)).to_f32(),
            Rounding::Bf16 => half::bf16::from_f32(x).to_f32(),
            _ => x,
        }
    }
}

/// Whether a target multiplies matrices of 16-bit numbers faster than f32.
fn has_tensor_cores(target: Target) -> bool {
    match target {
        Target::Cpu(_) => false,
        Target::Cuda(caps) => caps.sm >= 80,
        Target::Wgsl(caps) => caps.f16 && caps.coop > 0,
    }
}

/// How activations are rounded that meet this weight, in a plan for so many rows.
///
/// `--compute` says how far rounding may go; a kernel may be more exact. Few rows wait for memory, so int8 serves
/// quantized weights and f32 all others; with many rows arithmetic counts, and tensor cores take 16-bit numbers.
pub fn rounding(weight: &Sig, compute: Compute, target: Target, bucket: RowBucket) -> Rounding {
    let has_quants = weight.layout() != Layout::Stored;
    let halves = has_tensor_cores(target) && weight.width.is_multiple_of(32);
    let is_wgsl = matches!(target, Target::Wgsl(_));
    // From 9 rows on no int8 kernel is faster: it would have to scale the sums of each block of 32.
    let halves = halves && bucket >= RowBucket::R9To64;
    match compute {
        Compute::F32 => Rounding::None,
        Compute::Int8 if has_quants && !halves => Rounding::Int8,
        Compute::Int8 | Compute::F16 if halves => Rounding::F16,
        // WGSL has no bf16.
        Compute::Bf16 if halves && !is_wgsl => Rounding::Bf16,
        _ => Rounding::None,
    }
}

impl OpSite {
    /// How activations are rounded that meet this weight here.
    pub fn rounding(&self, weight: &Sig) -> Rounding {
        rounding(weight, self.compute, self.target, self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetrip_ir::formats::DType;
    use onetrip_ir::simd::Isa;
    use onetrip_ir::target::{CudaCaps, WgslCaps};

    fn sig(dtype: DType, layout: Layout) -> Sig {
        Sig { role: onetrip_ir::tensor::Role::Weight(layout), ..Sig::weight(64, 32, dtype) }
    }

    #[test]
    fn many_rows_meet_tensor_cores_in_halves_unless_f32_is_asked_for() {
        let cuda = Target::Cuda(CudaCaps::default());
        let (quants, floats) = (sig(DType::Q4_0, Layout::Planes), sig(DType::F16, Layout::Stored));
        assert_eq!(rounding(&quants, Compute::Int8, cuda, RowBucket::R1), Rounding::Int8);
        assert_eq!(rounding(&quants, Compute::Int8, cuda, RowBucket::R2To8), Rounding::Int8);
        assert_eq!(rounding(&quants, Compute::Int8, cuda, RowBucket::R9To64), Rounding::F16);
        assert_eq!(rounding(&quants, Compute::F16, cuda, RowBucket::R9To64), Rounding::F16);
        assert_eq!(rounding(&floats, Compute::Int8, cuda, RowBucket::R1), Rounding::None);
        assert_eq!(rounding(&floats, Compute::Int8, cuda, RowBucket::R9To64), Rounding::F16);
        assert_eq!(rounding(&floats, Compute::Bf16, cuda, RowBucket::Large), Rounding::Bf16);
        for weight in [&quants, &floats] {
            assert_eq!(rounding(weight, Compute::F32, cuda, RowBucket::Large), Rounding::None);
        }
    }

    #[test]
    fn without_tensor_cores_quants_meet_int8_and_floats_meet_f32() {
        let wgsl = Target::Wgsl(WgslCaps::default());
        for (target, layout) in [(wgsl, Layout::Planes), (Target::Cpu(Isa::Portable), Layout::Tile16)] {
            assert_eq!(rounding(&sig(DType::Q4_0, layout), Compute::Int8, target, RowBucket::Large), Rounding::Int8);
            let floats = sig(DType::F16, Layout::Stored);
            assert_eq!(rounding(&floats, Compute::Int8, target, RowBucket::Large), Rounding::None);
        }
    }

    #[test]
    fn halves_saturate() {
        assert_eq!(Rounding::F16.half(1e6), 65504.0);
        assert_eq!(Rounding::F16.half(-1e6), -65504.0);
        assert_eq!(Rounding::Bf16.half(1.0 + 1.0 / 512.0), 1.0);
    }
}
