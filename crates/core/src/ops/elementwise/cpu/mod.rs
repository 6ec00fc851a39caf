//! Elementwise trees on the CPU: evaluated in chunks whose temporaries stay in L1.
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::simd::Simd;
use onetrip_ir::tree::Binary;
use onetrip_ir::tree::Tree;
use onetrip_ir::tree::Unary;

/// Elements evaluated at a time.
pub const CHUNK: usize = 256;

/// Evaluates `tree` into `out` (at most [`CHUNK`] elements); `leaf(i, out)` writes the elements of operand `i`.
pub fn eval_chunk(simd: &Simd, tree: &Tree, leaf: &mut dyn FnMut(usize, &mut [f32]), out: &mut [f32]) {
    match tree {
        Tree::In(i) => leaf(*i, out),
        Tree::Const(c) => out.fill(*c),
        Tree::Unary(f, a) => {
            eval_chunk(simd, a, leaf, out);
            match f {
                Unary::Silu => (simd.silu)(out),
                Unary::GeluTanh => (simd.gelu_tanh)(out),
                Unary::Sigmoid => (simd.sigmoid)(out),
                Unary::Tanh => (simd.tanh)(out),
                Unary::Softplus => out.iter_mut().for_each(|x| *x = Unary::Softplus.apply(*x)),
            }
        }
        Tree::Binary(f, a, b) => {
            eval_chunk(simd, a, leaf, out);
            if let Tree::Const(c) = **b {
                return match f {
                    Binary::Add => out.iter_mut().for_each(|o| *o += c),
                    Binary::Mul => out.iter_mut().for_each(|o| *o *= c),
                };
            }
            let mut right = [0f32; CHUNK];
            let right = &mut right[..out.len()];
            eval_chunk(simd, b, leaf, right);
            match f {
                Binary::Add => out.iter_mut().zip(right).for_each(|(o, r)| *o += *r),
                Binary::Mul => out.iter_mut().zip(right).for_each(|(o, r)| *o *= *r),
            }
        }
    }
}

/// Computes the rows of the output. The operands are the arguments from 0; the output is the argument after them.
pub fn rows(c: &CpuCall, tree: &Tree, widths: &[usize], width: usize) {
    let ins: Vec<&[f32]> = (0..widths.len()).map(|i| c.f32s(i)).collect();
    while let Some(range) = c.items.take() {
        for r in range {
            let out = c.write(widths.len(), r * width..(r + 1) * width);
            for (n, chunk) in out.chunks_mut(CHUNK).enumerate() {
                let at = n * CHUNK;
                let mut leaf = |i: usize, out: &mut [f32]| {
                    let w = widths[i];
                    let row = if ins[i].len() == w { ins[i] } else { &ins[i][r * w..(r + 1) * w] };
                    if w == width {
                        out.copy_from_slice(&row[at..at + out.len()]);
                    } else {
                        out.iter_mut().enumerate().for_each(|(k, o)| *o = row[(at + k) % w]);
                    }
                };
                eval_chunk(c.simd, tree, &mut leaf, chunk);
            }
        }
    }
}
