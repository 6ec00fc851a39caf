//! Writes keys or values of this step into the cache, at the slots of their positions; the fused form writes both,
//! with the keys normed and rotated on the way.
//!
//! Single: `x [T, heads·dim]`, cache → cache. Pair: `k`, `v`, the key norm's weight if there is one, key cache,
//! value cache → key cache, value cache. Elements are rounded or quantized to the cache's type.

use super::*;
use crate::ops::rope::Rope;
use crate::reference::{Part, Parts, encode_row};
use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::scratch::Scratch;
use onetrip_ir::formats::DType;
use onetrip_ir::tensor::Cache;

mod cuda;
pub(crate) mod wgsl;

/// Formats in which a cache can be kept.
pub const CACHE_TYPES: &[DType] = &[DType::F16, DType::F32, DType::Q8_0];

/// See the module for inputs, shapes and the formula.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheWrite {
    /// Writes keys and values, not one of them alone.
    pub pair: bool,
    /// Rotates (and norms) the keys first; only in a pair.
    pub rope: Option<Rope>,
}

impl CacheWrite {
    /// The key norm's weight is an input.
    pub fn has_norm(&self) -> bool {
        self.rope.as_ref().is_some_and(|r| r.norm.is_some())
    }

    /// Index of the first cache among the inputs.
    fn first_state(&self) -> usize {
        if self.pair { 2 + self.has_norm() as usize } else { 1 }
    }
}

/// Byte offset of the vector of a head at `offset` of page `page`, in a cache `[page][head][offset]` with rows of `row_bytes`.
pub fn slot_bytes(cache: Cache, row_bytes: usize, page_len: usize, page: usize, head: usize, offset: usize) -> usize {
    ((page * cache.heads + head) * page_len + offset) * row_bytes
}

impl OpDef for CacheWrite {
    const NAME: &'static str = "cache_write";

    fn ggml(&self) -> &'static str {
        "SET_ROWS"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        let first = self.first_state();
        want_inputs(Self::NAME, ins, first + if self.pair { 2 } else { 1 })?;
        for (x, state) in ins.iter().zip(&ins[first..]) {
            if state.cache().is_none() || x.width != state.width {
                let why = format!("{} numbers do not fit a cache row of {}", x.width, state.width);
                return Err(ShapeError { op: Self::NAME, why });
            }
        }
        Ok(ins[first..].to_vec())
    }

    fn meaning(&self) -> Meaning {
        if self.pair {
            let mut p = Parts::default();
            let mut k = Part::In(0);
            if let Some(rope) = &self.rope {
                let ins = if rope.norm.is_some() { vec![k, Part::In(2)] } else { vec![k] };
                k = p.op(rope.clone(), &ins);
            }
            let single = CacheWrite { pair: false, rope: None };
            let first = self.first_state();
            let k = p.op(single.clone(), &[k, Part::In(first)]);
            let v = p.op(single, &[Part::In(1), Part::In(first + 1)]);
            return p.finish(&[k, v]);
        }
        Meaning::Direct(Box::new(|c| {
            let (x, state) = (c.input(0).clone(), c.state(1));
            for r in 0..x.rows() {
                let (page, offset) = c.batch.cache_slot(c.batch.seq[r] as usize, c.batch.positions[r]);
                let dim = c.states[state].cache.dim;
                for (h, head) in x.row(r).chunks_exact(dim).enumerate() {
                    c.states[state].set(page, h, offset, head);
                }
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        let n = if self.pair { 2 } else { 1 };
        let first = self.first_state();
        let mut read = site.ins[..first].iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        let mut flops = Expr::Const(0);
        if let Some(rope) = &self.rope {
            read = read + Expr::T * (rope.pairs * 8);
            flops = Expr::T * (rope.heads * (6 * rope.pairs + if rope.norm.is_some() { 4 * rope.dim } else { 0 }));
        }
        let written = site.ins[first..first + n].iter().fold(Expr::Const(0), |a, s| a + Expr::T * cache_row(s));
        Cost::of(read, written, flops)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (op, first) = (self.clone(), self.first_state());
        let (cache, dtype) = match site.ins[first].cache() {
            Some(cache) => (cache, site.ins[first].dtype),
            None => return Lowering::Gap("the value written to is no cache"),
        };
        let kernel = match (self.pair, &self.rope) {
            (false, _) => "cache_write/one",
            (true, None) => "cache_write/pair",
            (true, Some(_)) => "cache_write/rope",
        };
        Lowering::one(site, kernel, Expr::T * cache.heads, 4, self.cost(site), move |c, scratch| {
            while let Some(range) = c.items.take() {
                for item in range {
                    write_head(c, scratch, &op, cache, dtype, first, item / cache.heads, item % cache.heads);
                }
            }
        })
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let cache = Cache { heads: 3, dim: 64 };
        let one = CacheWrite { pair: false, rope: None };
        let b = (5, 1, 9);
        let mut cases = vec![];
        for dtype in [DType::F32, DType::F16, DType::Q8_0] {
            let s = Sig::state(cache, dtype);
            let row = 3 * dtype.row_bytes(64).unwrap_or(0) as u64;
            let case = Case::new(format!("one {}", dtype.name()), one.clone(), vec![x(192), s.clone()], b);
            cases.push(case.costs(5 * 768, 5 * row, 0).within(0.0));
            let rope = Rope { heads: 3, dim: 64, pairs: 32, neox: true, table: 0, norm: Some(1e-6), view: None };
            let pair = CacheWrite { pair: true, rope: Some(rope) };
            let w = Sig::weight(1, 64, DType::F32);
            let tol = if dtype == DType::F32 { 1e-5 } else { 2e-2 };
            let ins = vec![x(192), x(192), w, s.clone(), s];
            cases.push(Case::new(format!("pair, norm and rope, {}", dtype.name()), pair, ins, b).within(tol));
        }
        cases
    }
}

/// Bytes that one token takes in a cache.
pub fn cache_row(state: &Sig) -> usize {
    state.cache().map_or(0, |c| c.heads * state.dtype.row_bytes(c.dim).unwrap_or(0))
}

/// Writes one head of one token. Args: the op's inputs in order; the caches are written in place.
#[allow(clippy::too_many_arguments)]
fn write_head(
    c: &CpuCall,
    scratch: &mut Scratch,
    op: &CacheWrite,
    cache: Cache,
    dtype: DType,
    first: usize,
    row: usize,
    head: usize,
) {
    let dim = cache.dim;
    let row_bytes = dtype.row_bytes(dim).unwrap_or(0);
    let (page, offset) = c.batch.cache_slot(c.batch.seq[row] as usize, c.batch.positions[row]);
    let at = slot_bytes(cache, row_bytes, c.batch.page_len as usize, page, head, offset);
    let from = (row * cache.heads + head) * dim;
    let x = &c.f32s(0)[from..from + dim];
    let out = c.write_bytes(first, at..at + row_bytes);
    if let Some(rope) = &op.rope {
        let [k] = scratch.split_f32([dim]);
        rope.head(c, row, op.has_norm().then(|| c.f32s(2)), x, k);
        encode_row(dtype, k, out);
    } else {
        encode_row(dtype, x, out);
    }
    if op.pair {
        let v = &c.f32s(1)[from..from + dim];
        encode_row(dtype, v, c.write_bytes(first + 1, at..at + row_bytes));
    }
}
