//! GEMM through cooperative matrices: f16 factors, f32 sums.
//!
//! The prologue launch converts the activations to f16, padded to whole tiles. A workgroup computes a tile of an output, each
//! subgroup a sub-tile in registers. Both factors are double-buffered in workgroup memory: the next k-tile is loaded while the
//! present one is multiplied. The products of one output's tree are in the same sub-tile of the same subgroup, so they share a
//! tile of activations and are combined in the epilogue, strip by strip.

use super::*;
use crate::precision::Rounding;

/// The shape of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Rows and columns of a cooperative matrix.
    side: usize,
    /// Subgroups along the rows (tokens) and along the columns of a tile.
    down: usize,
    across: usize,
    /// Rows of a subgroup's sub-tile, and its columns, those of all products together.
    rows: usize,
    columns: usize,
    /// Elements along k of a k-tile.
    depth: usize,
    /// Threads of a subgroup.
    lanes: usize,
    /// Whether workgroup memory is declared as `vec4<f16>`; Metal needs single `f16` elements to load matrices from.
    is_wide: bool,
}

/// Padding elements behind each staged row, so that adjacent rows begin in different banks.
const GAP: usize = 8;

impl Cut {
    /// The tile shape for outputs of at most `products` products over rows of `k`; none if the adapter has no cooperative
    /// matrices or too little workgroup memory.
    fn new(bucket: RowBucket, k: usize, products: usize, caps: &WgslCaps) -> Option<Cut> {
        let (_, most) = caps.subgroups.filter(|_| caps.coop > 0 && caps.f16)?;
        let side = caps.coop as usize;
        // Apple's adapters report a range of subgroup sizes; those with cooperative matrices use 32.
        let lanes = if side == 8 { most.min(32) } else { most } as usize;
        let shared = Cut { side, down: 2, across: 2, rows: 32, columns: 32, depth: 32, lanes, is_wide: side > 8 };
        let deep = if k.is_multiple_of(64) { 64 } else { 32 };
        let wide = Cut { across: 4, rows: 64, ..shared };
        let cuts = [wide, Cut { depth: deep, ..shared }, shared, Cut { columns: 16, ..shared }];
        let first = if bucket == RowBucket::Large { 0 } else { 3 };
        let fits = |cut: &Cut| {
            cut.bytes(products) <= caps.workgroup_bytes as usize && cut.threads() <= caps.invocations as usize
        };
        let fitted = |cut: &Cut| Cut { columns: cut.columns.max(products * side), ..*cut };
        cuts[first..].iter().map(fitted).find(fits)
    }

    fn threads(&self) -> usize {
        self.down * self.across * self.lanes
    }

    /// Rows of a tile.
    fn tile_rows(&self) -> usize {
        self.down * self.rows
    }

    /// Columns of one product in a tile; `part`: in a subgroup's sub-tile.
    fn tile_columns(&self, products: usize) -> usize {
        self.across * self.part(products)
    }

    fn part(&self, products: usize) -> usize {
        (self.columns / products / self.side).max(1) * self.side
    }

    /// Bytes of workgroup memory.
    fn bytes(&self, products: usize) -> usize {
        let staged = self.tile_rows() + products * self.tile_columns(products);
        2 * staged * (self.depth + GAP) + 4 * self.strip(products) * self.down * self.across
    }

    /// Elements of a strip: one row of matrices of a subgroup's sub-tile, as many rows high as a matrix, of all products.
    fn strip(&self, products: usize) -> usize {
        products * self.part(products) * self.side
    }
}

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
    pub(super) fn cut(&self) -> Option<Cut> {
        Cut::new(self.site.bucket, self.k, self.most_products(), &caps(self.site.target))
    }

    /// The two launches: the prologue with f16 output, and the GEMM.
    pub(super) fn gemm_f16_mma(&self, cut: Cut) -> Lowering {
        let padded = Expr::CeilDiv(Box::new(self.rows()), cut.tile_rows() as u64) * cut.tile_rows() * (2 * self.k);
        let halves = Arg::Scratch(0);
        let launches = vec![self.prologue(None, None, Some(halves)), self.mma_launch(cut, halves)];
        Lowering::steps(launches, vec![padded])
    }

    fn mma_launch(&self, cut: Cut, halves: Arg) -> Launch {
        let mut w = self.begin("matmul/gemm_f16_mma", cut.threads() as u32);
        w.enable("f16");
        w.enable("wgpu_cooperative_matrix");
        let most = self.most_products();
        w.number("ROWS", cut.tile_rows());
        w.number("SUBGROUPS", cut.down * cut.across);
        w.number("DEPTH", cut.depth);
        let unit = if cut.is_wide { 4 } else { 1 };
        let of = if cut.is_wide { "vec4<f16>" } else { "f16" };
        let stride = (cut.depth + GAP) / unit;
        w.number("STRIDE", stride);
        w.line(format!("var<workgroup> tile_x: array<{of}, {}>;", cut.tile_rows() * stride));
        w.line(format!("var<workgroup> tile_w: array<{of}, {}>;", most * cut.tile_columns(most) * stride));
        w.line(format!("var<workgroup> strips: array<f32, {}>;", cut.strip(most) * cut.down * cut.across));
        w.bind("x", "vec4<f16>", halves, Access::Read);
        w.line("struct Halves { a: vec4<f16>, b: vec4<f16> }");
        for tile in ["tile_x", "tile_w"] {
            w.line(format!("fn put_{tile}(at: u32, h: Halves) {{"));
            match cut.is_wide {
                true => w.line(format!("    {tile}[at / 4u] = h.a;\n    {tile}[at / 4u + 1u] = h.b;")),
                false => (0..8).for_each(|i| {
                    let part = if i < 4 { "a" } else { "b" };
                    w.line(format!("    {tile}[at + {i}u] = h.{part}[{}];", i % 4));
                }),
            }
            w.line("}");
        }
        let side = cut.side;
        for (name, scalar, role) in [("MatA", "f16", "A"), ("MatB", "f16", "B"), ("MatC", "f32", "C")] {
            w.line(format!("alias {name} = coop_mat{side}x{side}<{scalar}, {role}>;"));
        }
        self.mma_weights(&mut w);
        let (side, down, depth) = (cut.side, cut.rows / cut.side, cut.depth);
        let constants = [("SIDE", side), ("UNIT", unit), ("EIGHTS", depth / 8), ("PITCH", depth + GAP)];
        constants.iter().for_each(|(name, value)| w.number(name, *value));
        w.number("ACROSS", cut.across);
        w.number("SUB_ROWS", cut.rows);
        for (o, slice) in self.slices.iter().enumerate() {
            let used = self.weights_of(slice);
            let (part, columns) = (cut.part(used.len()), cut.tile_columns(used.len()));
            let block = side * part;
            let constants = [("PART", part), ("COLUMNS", columns), ("BLOCK", block), ("STRIP", used.len() * block)];
            constants.iter().for_each(|(name, value)| w.number(&format!("s{o}_{name}"), *value));
            used.iter().enumerate().for_each(|(i, p)| w.number(&format!("s{o}_w{p}_PLACE"), i));
        }
        let columns = |slice: &OutputSlice| cut.tile_columns(self.weights_of(slice).len().max(1));
        let end = self.outputs(&mut w, |slice| columns(slice) as u64);
        // Loads of a k-tile of each thread, for a factor with so many rows, and matrices of a sub-tile and of a k-tile.
        let loads = |rows: usize| (rows * (depth / 8)).div_ceil(cut.threads());
        let counts = |slice: &OutputSlice| {
            let across = cut.part(self.weights_of(slice).len()) / side;
            let loads = [("x", loads(cut.tile_rows())), ("v", loads(columns(slice)))];
            [loads.as_slice(), &[("i", down), ("j", across), ("k", depth / side)]].concat()
        };
        w.file(&self.for_slices(include_str!("gemm_f16_mma.wgsl"), counts));
        let downs = Expr::CeilDiv(Box::new(self.rows()), cut.tile_rows() as u64);
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
