//! The identity of a kernel: typed fields for code to compare, and one printed name for people to read.

use std::borrow::Cow;
use std::fmt;

/// Which kernel a launch runs, and in which variant. Plans print it by `Display`: `matmul/norm+gemv.int8`; nothing parses
/// that text, and nothing branches on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId {
    /// The op that chose it.
    pub op: &'static str,
    /// The kernel's name within its op, alike on every device: `gemv`, `gemm_skinny`, `decode_split_kv`.
    pub name: &'static str,
    /// The kernel norms its input rows before it uses them.
    pub has_norm: bool,
    /// The kernel quantizes its input rows to int8 before it uses them.
    pub quantizes: bool,
    /// Everything else that distinguishes kernels of one name: types, and the ops fused into the kernel.
    pub variant: Vec<Cow<'static, str>>,
    /// Tile sizes, splits and thresholds that the kernel was built with, by name. They are not part of the printed name.
    pub tuning: Vec<(&'static str, u64)>,
}

impl KernelId {
    /// A kernel of an op, without a prologue or a variant.
    pub fn new(op: &'static str, name: &'static str) -> KernelId {
        KernelId { op, name, ..KernelId::default() }
    }

    /// Sets whether the kernel's prologue norms the input rows.
    pub fn norm(mut self, has_norm: bool) -> KernelId {
        self.has_norm = has_norm;
        self
    }

    /// Sets whether the kernel's prologue quantizes the input rows to int8.
    pub fn quantizing(mut self, quantizes: bool) -> KernelId {
        self.quantizes = quantizes;
        self
    }

    /// Adds one part of the variant, such as `int8`.
    pub fn variant(mut self, part: impl Into<Cow<'static, str>>) -> KernelId {
        self.variant.push(part.into());
        self
    }

    /// Adds several parts of the variant, separated by `+`.
    pub fn variants(mut self, parts: &'static str) -> KernelId {
        self.variant.extend(parts.split('+').map(Cow::Borrowed));
        self
    }

    /// Adds a tile size, a number of splits or a threshold, by name.
    pub fn tuned(mut self, name: &'static str, value: impl TryInto<u64>) -> KernelId {
        self.tuning.push((name, value.try_into().unwrap_or(u64::MAX)));
        self
    }

    /// True if this is the kernel `name` of `op`.
    pub fn is(&self, op: &str, name: &str) -> bool {
        self.op == op && self.name == name
    }

    /// True if the variant has this part.
    pub fn has(&self, part: &str) -> bool {
        self.variant.iter().any(|p| p == part)
    }
}

/// Reads `op/name` or `op/name.part+part`: a kernel without a prologue.
impl From<&'static str> for KernelId {
    fn from(text: &'static str) -> KernelId {
        let (op, rest) = text.split_once('/').unwrap_or((text, ""));
        let (name, variant) = rest.split_once('.').unwrap_or((rest, ""));
        let parts = variant.split('+').filter(|p| !p.is_empty());
        KernelId { variant: parts.map(Cow::Borrowed).collect(), ..KernelId::new(op, name) }
    }
}

impl fmt::Display for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}{}", self.op, if self.has_norm { "norm+" } else { "" }, self.name)?;
        for (i, part) in self.variant.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { '.' } else { '+' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_prints_its_op_prologue_name_and_variant_but_not_its_tuning() {
        let id = KernelId::new("matmul", "gemv").norm(true).quantizing(true).variant("int8").tuned("k_warps", 4usize);
        assert_eq!(id.to_string(), "matmul/norm+gemv.int8");
        assert_eq!(KernelId::new("rope", "plain").to_string(), "rope/plain");
        assert!(id.is("matmul", "gemv") && id.has("int8") && !id.has("int"));
    }

    #[test]
    fn a_short_text_becomes_the_id_that_prints_it() {
        for text in ["rope/plain", "attention/decode.rope+write", "delta_net/chunks.prepare"] {
            assert_eq!(KernelId::from(text).to_string(), text);
        }
        assert_eq!(KernelId::from("attention/decode.rope+write").variant, ["rope", "write"]);
    }
}
