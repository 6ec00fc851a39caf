//! The outputs of a matmul and their products as CUDA text in front of a kernel's file: see `codegen/cuda/problems.cuh`.

use super::*;
use crate::codegen::cuda::PROBLEMS;

impl Cuda<'_> {
    /// Specializations of `Problem` and `Epilogue`; `weight` and `x` give the expressions of a product's weight and of what it is
    /// multiplied with.
    pub(super) fn problems(&self, weight: &dyn Fn(usize) -> String, x: &dyn Fn(usize) -> &'static str) -> String {
        let op = self.op;
        let mut text = format!("#define OUTPUTS {}\n{PROBLEMS}", op.outputs.len());
        for (o, out) in self.site.outs.iter().enumerate() {
            let used = op.products_of(&op.outputs[o]);
            for (place, &p) in used.iter().enumerate() {
                text += &format!(
                    "template <> struct Problem<{o}, {place}> {{\n\
                     DEVICE static auto weight(const Args& A) {{ return {}; }}\n\
                     DEVICE static auto x(const Args& A) {{ return {}; }}\n}};\n",
                    weight(p),
                    x(p),
                );
            }
            text += &format!(
                "template <> struct Epilogue<{o}> {{\nstatic constexpr int PRODUCTS = {};\nstatic constexpr u32 WIDTH = {};\n\
                 DEVICE static float* out(const Args& A) {{ return OUT{o}; }}\n\
                 DEVICE static float value(const Args& A, u32 t, u32 row, const float* product) {{ return {}; }}\n}};\n",
                used.len(),
                out.width,
                self.value(o, &|place| format!("product[{place}]")),
            );
        }
        text
    }
}
