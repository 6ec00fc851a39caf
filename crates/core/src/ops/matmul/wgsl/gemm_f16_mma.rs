//! GEMM through cooperative matrices: f16 factors, f32 sums.
//!
//! The prologue launch converts the activations to f16, padded to whole tiles. A workgroup computes a tile of an output, each
//! subgroup a sub-tile in registers. Both factors are double-buffered in workgroup memory: the next k-tile is loaded while the
//! present one is multiplied. The products of one output's tree are in the same sub-tile of the same subgroup, so they share a
//! tile of activations and are combined in the epilogue, strip by strip.

use super::*;
use crate::precision::Rounding;

impl Plan<'_> {
    /// The most products of any slice.
    fn most_products(&self) -> usize {
        self.slices.iter().map(|slice| self.weights_of(slice).len()).max().unwrap_or(1).max(1)
    }

    /// Whether all weights are multiplied in f16.
    pub(super) fn multiplies_in_f16(&self) -> bool {
        let (w0, o0) = (self.op.first_weight(), self.op.first_operand());
        self.site.ins[w0..o0].iter().all(|sig| self.site.rounding(sig) == Rounding::F16)
    }

    /// The tile shape; none if no tile fits workgroup memory.
    pub(super) fn f16_tile(&self) -> Option<tune::F16Mma> {
        tune::f16_mma(self, self.most_products())
    }

    /// The two launches: the prologue with f16 output, and the GEMM.
    pub(super) fn gemm_f16_mma(&self, shape: tune::F16Mma) -> Lowering {
        let padded = Expr::CeilDiv(Box::new(self.rows()), shape.tile_rows() as u64) * shape.tile_rows() * (2 * self.k);
        let halves = Arg::Scratch(0);
        let launches = vec![self.prologue(None, None, Some(halves)), self.mma_launch(shape, halves)];
        Lowering::steps(launches, vec![padded])
    }

    fn mma_launch(&self, shape: tune::F16Mma, halves: Arg) -> Launch {
        let most = self.most_products();
        let id = KernelId::new("matmul", "gemm_f16_mma").tuned("tile_t", shape.tile_rows());
        let id = id.tuned("tile_n", shape.tile_columns(most)).tuned("depth", shape.depth);
        let mut w = self.begin(id.tuned("subgroups", shape.down * shape.across), shape.threads() as u32);
        w.enable("f16");
        w.enable("wgpu_cooperative_matrix");
        w.number("ROWS", shape.tile_rows());
        w.number("SUBGROUPS", shape.down * shape.across);
        w.number("DEPTH", shape.depth);
        let unit = if shape.is_wide { 4 } else { 1 };
        let of = if shape.is_wide { "vec4<f16>" } else { "f16" };
        let stride = (shape.depth + tune::GAP) / unit;
        w.number("STRIDE", stride);
        w.line(format!("var<workgroup> tile_x: array<{of}, {}>;", shape.tile_rows() * stride));
        w.line(format!("var<workgroup> tile_w: array<{of}, {}>;", most * shape.tile_columns(most) * stride));
        w.line(format!("var<workgroup> strips: array<f32, {}>;", shape.strip(most) * shape.down * shape.across));
        w.bind("x", "vec4<f16>", halves, Access::Read);
        w.line("struct Halves { a: vec4<f16>, b: vec4<f16> }");
        for tile in ["tile_x", "tile_w"] {
            w.line(format!("fn put_{tile}(at: u32, h: Halves) {{"));
            match shape.is_wide {
                true => w.line(format!("    {tile}[at / 4u] = h.a;\n    {tile}[at / 4u + 1u] = h.b;")),
                false => (0..8).for_each(|i| {
                    let part = if i < 4 { "a" } else { "b" };
                    w.line(format!("    {tile}[at + {i}u] = h.{part}[{}];", i % 4));
                }),
            }
            w.line("}");
        }
        let side = shape.side;
        for (name, scalar, role) in [("MatA", "f16", "A"), ("MatB", "f16", "B"), ("MatC", "f32", "C")] {
            w.line(format!("alias {name} = coop_mat{side}x{side}<{scalar}, {role}>;"));
        }
        self.mma_weights(&mut w);
        let (side, down, depth) = (shape.side, shape.rows / shape.side, shape.depth);
        let constants = [("SIDE", side), ("UNIT", unit), ("EIGHTS", depth / 8), ("PITCH", depth + tune::GAP)];
        constants.iter().for_each(|(name, value)| w.number(name, *value));
        w.number("ACROSS", shape.across);
        w.number("SUB_ROWS", shape.rows);
        for (o, slice) in self.slices.iter().enumerate() {
            let used = self.weights_of(slice);
            let (part, columns) = (shape.part(used.len()), shape.tile_columns(used.len()));
            let block = side * part;
            let constants = [("PART", part), ("COLUMNS", columns), ("BLOCK", block), ("STRIP", used.len() * block)];
            constants.iter().for_each(|(name, value)| w.number(&format!("s{o}_{name}"), *value));
            used.iter().enumerate().for_each(|(i, p)| w.number(&format!("s{o}_w{p}_PLACE"), i));
        }
        let columns = |slice: &OutputSlice| shape.tile_columns(self.weights_of(slice).len().max(1));
        let end = self.outputs(&mut w, |slice| columns(slice) as u64);
        // Loads of a k-tile of each thread, for a factor with so many rows, and matrices of a sub-tile and of a k-tile.
        let loads = |rows: usize| (rows * (depth / 8)).div_ceil(shape.threads());
        let counts = |slice: &OutputSlice| {
            let across = shape.part(self.weights_of(slice).len()) / side;
            let loads = [("x", loads(shape.tile_rows())), ("v", loads(columns(slice)))];
            [loads.as_slice(), &[("i", down), ("j", across), ("k", depth / side)]].concat()
        };
        w.file(&self.for_slices(include_str!("gemm_f16_mma.wgsl"), counts));
        let downs = Expr::CeilDiv(Box::new(self.rows()), shape.tile_rows() as u64);
        let all = self.op.cost(self.site);
        let read = self.site.ins[self.op.first_weight()..].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        w.launch(downs * Expr::Const(end), Cost { read: read + self.rows() * (2 * self.k), ..all })
    }

    /// Declares operands, outputs and weights, each weight with `raw`, which loads elements 8i .. 8i + 8 of a row as stored,
    /// and `halves`, which converts them to f16.
    fn mma_weights(&self, w: &mut Wgsl) {
        let o0 = self.op.first_operand();
        for (i, Weight { arg, sig, .. }) in self.weights.iter().enumerate() {
            let (name, arg) = (format!("w{i}"), *arg);
            w.number(&format!("{name}_ROWS"), sig.rows.constant().unwrap_or(0) as usize);
            let (of, raw, halves) = if wgsl::planes(w, &name, arg, sig) {
                w.file(&renamed(include_str!("gemm_f16_mma_planes.wgsl"), "w0", &name));
                continue;
            } else if sig.dtype == DType::F16 {
                let raw = "let at = row * (K / 4u) + 2u * i; return Halves(w0[at], w0[at + 1u]);";
                ("vec4<f16>", ("Halves", raw), "return raw;")
            } else if sig.dtype == DType::BF16 {
                let halves = "return rounded(Eight(vec4<f32>(unpack_bf16(raw.x), unpack_bf16(raw.y)), \
                     vec4<f32>(unpack_bf16(raw.z), unpack_bf16(raw.w))));";
                ("vec4<u32>", ("vec4<u32>", "return w0[row * (K / 8u) + i];"), halves)
            } else {
                let raw = "let at = row * (K / 4u) + 2u * i; return Eight(w0[at], w0[at + 1u]);";
                ("vec4<f32>", ("Eight", raw), "return rounded(raw);")
            };
            w.bind(&name, of, arg, Access::Read);
            w.line(format!("alias {name}_Raw = {};", raw.0));
            let raw = renamed(raw.1, "w0", &name);
            w.line(format!("fn {name}_raw(row: u32, i: u32) -> {name}_Raw {{ {raw} }}"));
            w.line(format!("fn {name}_halves(raw: {name}_Raw, row: u32, i: u32) -> Halves {{ {halves} }}"));
        }
        for (i, sig) in self.site.ins[o0..].iter().enumerate() {
            w.read(&format!("o{i}"), Arg::In(o0 + i), sig.dtype);
        }
        for (i, sig) in self.site.outs.iter().enumerate() {
            w.write(&format!("y{i}"), Arg::Out(i));
            w.number(&format!("Y{i}_WIDTH"), sig.width);
        }
    }
}
