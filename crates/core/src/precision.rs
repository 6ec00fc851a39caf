//! The type that activations are converted to for the product with a weight. Kernels, the reference and tests all ask here.

use crate::lowering::OpSite;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::{Layout, Sig};

/// The type that activations are converted to before a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Activations stay f32.
    None,
    /// int8 in blocks of 32, each with a scale.
    Int8,
    /// f16, where values out of range become the largest finite f16. The weight is rounded to f16 as well.
    F16,
    /// bf16. The weight is rounded to bf16 as well.
    Bf16,
}

impl Rounding {
    /// Whether the factors have 16 bits, as tensor cores take them.
    pub fn is_half(self) -> bool {
        matches!(self, Rounding::F16 | Rounding::Bf16)
    }

    /// The largest error of a result, relative to the largest result, that rounding the *weight* can cause. The reference
    /// rounds activations but not weights, so tests must allow this error.
    pub fn tolerance(self) -> f32 {
        match self {
            Rounding::None | Rounding::Int8 => 0.0,
            Rounding::F16 => 1e-3,
            Rounding::Bf16 => 8e-3,
        }
    }

    /// Rounds one element to 16 bits. The other kinds return it unchanged: int8 needs a whole block for its scale.
    pub fn half(self, x: f32) -> f32 {
        match self {
            Rounding::F16 => half::f16::from_f32(x.clamp(-65504.0, 65504.0)).to_f32(),
            Rounding::Bf16 => half::bf16::from_f32(x).to_f32(),
            _ => x,
        }
    }
}

/// Whether a target has matrix instructions with 16-bit factors.
fn has_tensor_cores(target: Target) -> bool {
    match target {
        Target::Cpu(_) => false,
        Target::Cuda(caps) => caps.sm >= 80,
        Target::Wgsl(caps) => caps.f16 && caps.coop > 0,
    }
}

/// The type that activations are converted to for the product with this weight, in a plan for this row bucket.
///
/// `--compute` is the lowest precision allowed; a kernel may be more exact. With few rows a product is bound by memory
/// bandwidth, so activations are int8 for quantized weights and f32 for all others; with many rows it is bound by arithmetic,
/// and tensor cores take 16-bit factors.
pub fn rounding(weight: &Sig, compute: Compute, target: Target, bucket: RowBucket) -> Rounding {
    let has_quants = weight.layout() != Layout::Stored;
    let halves = has_tensor_cores(target) && weight.width.is_multiple_of(32);
    let is_wgsl = matches!(target, Target::Wgsl(_));
    // From 9 rows on no int8 kernel is faster, because it would have to scale the integer sums of every block of 32.
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
    /// The type that activations are converted to for the product with this weight at this site.
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
