//! Quantization formats: how the elements of a tensor are stored.
//!
//! There is one folder for each format (`formats/<fmt>/`). A block format defines how a stored block is unpacked to integer
//! quants, scales and mins ([`block::Unpacked`]); one formula for all formats ([`block::BlockSpec::values`]) dequantizes them,
//! so that a format has no second implementation that could differ. Kernels know three kinds of weight, never a format by name:
//!
//! - floats;
//! - groups of 16 or 32 integer quants (or entries of a codebook) with a scale that is an f16, or an f16 times a small integer,
//!   and a min of the same form;
//! - the same groups with a scale of another [`block::ScaleKind`]: the powers of two of the MX formats, which f16 cannot hold.
//!
//! A new format needs a folder, a `mod` line and a line in the `formats!` list below.

mod bits;
pub mod block;
pub mod convert;
mod fit;

mod bf16;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
// A module called `f32` would hide the type of that name in this file.
#[path = "formats/f16/mod.rs"]
mod half_float;
#[path = "formats/f32/mod.rs"]
mod single_float;

pub mod planes;
pub mod tile;

use block::{BlockSpec, FormatDef};

/// Defines [`DType`] from the list of all formats: variant, definition, one line of documentation.
macro_rules! formats {
    ($($variant:ident = $def:path, $doc:literal;)*) => {
        /// How the elements of a tensor are stored. Names are those of the formats in model files.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            $(#[doc = $doc] $variant,)*
        }

        impl DType {
            /// Every format, in the order of the list.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The definition of the format.
            pub fn def(self) -> &'static dyn FormatDef {
                match self {
                    $(DType::$variant => &$def,)*
                }
            }
        }
    };
}

formats! {
    F32 = single_float::Format, "IEEE single precision.";
    F16 = half_float::Format, "IEEE half precision.";
    BF16 = bf16::Format, "The upper half of an f32.";
    Q4_0 = q4_0::Format, "4 bits, a scale for 32.";
    Q4_1 = q4_1::Format, "4 bits, a scale and a min for 32.";
    Q5_0 = q5_0::Format, "5 bits, a scale for 32.";
    Q5_1 = q5_1::Format, "5 bits, a scale and a min for 32.";
    Q8_0 = q8_0::Format, "8 bits, a scale for 32.";
    Q2_K = q2_k::Format, "2 bits, 4-bit scales and mins for 16.";
    Q3_K = q3_k::Format, "3 bits, 6-bit signed scales for 16.";
    Q4_K = q4_k::Format, "4 bits, 6-bit scales and mins for 32.";
    Q5_K = q5_k::Format, "5 bits, 6-bit scales and mins for 32.";
    Q6_K = q6_k::Format, "6 bits, 8-bit signed scales for 16.";
    IQ4_NL = iq4_nl::Format, "4 bits through a codebook, a scale for 32.";
    IQ4_XS = iq4_xs::Format, "4 bits through a codebook, 6-bit signed scales for 32.";
    MXFP4 = mxfp4::Format, "4-bit floats, a power of two as scale for 32.";
}

impl DType {
    /// The name in lower case: `q4_k`.
    pub fn name(self) -> &'static str {
        self.def().name()
    }

    /// The format of that name, in any case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name().eq_ignore_ascii_case(name))
    }

    /// Number of the type in a GGUF file.
    pub fn ggml(self) -> u32 {
        self.def().ggml()
    }

    /// The format of a GGUF type number; `None` for a type onetrip does not know.
    pub fn from_ggml(number: u32) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.ggml() == number)
    }

    /// Elements in a block: 1 for the float formats, else 32 or 256.
    pub fn block(self) -> usize {
        self.def().block()
    }

    /// Bytes of a stored block (of one element for the float formats).
    pub fn block_bytes(self) -> usize {
        self.def().block_bytes()
    }

    /// Bytes of a row of `elements`; `None` if that is not a whole number of blocks or does not fit a `usize`.
    pub fn row_bytes(self, elements: usize) -> Option<usize> {
        let block = self.block();
        if elements.is_multiple_of(block) { (elements / block).checked_mul(self.block_bytes()) } else { None }
    }

    /// The meaning of the quants; `None` for the float formats.
    pub fn spec(self) -> Option<BlockSpec> {
        self.def().spec()
    }

    /// True for the formats that hold plain floats.
    pub fn is_float(self) -> bool {
        self.spec().is_none()
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
