//! Pairs of chains that `onetrip calibrate` runs on a GPU, one longer than the other. The difference of their times, divided by
//! the difference of their dispatches, is the time of a dispatch under the conditions of a plan: recorded, dependent on the
//! dispatch before it, and without time stamps in between.

use super::*;

/// A point of a curve, with the two chains that are measured for it.
pub struct Pair {
    /// Name of the curve.
    pub curve: String,
    /// The curve's `x` at this point.
    pub x: f64,
    /// How the time of one link becomes the curve's `y`.
    pub unit: Unit,
    /// Number of links (measured ops) of `short`.
    pub least: usize,
    /// Number of links that `long` has in addition.
    pub links: usize,
    /// The shorter chain; its weights and states are the first ones of the longer chain.
    pub short: Chain,
    /// The longer chain.
    pub long: Chain,
}

/// The extent of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Only few and small points, to see that it works and for slow devices.
    pub quick: bool,
}

impl Extent {
    pub(super) fn of<T: Clone>(self, all: &[T], few: &[T]) -> Vec<T> {
        if self.quick { few.to_vec() } else { all.to_vec() }
    }

    /// Bytes that a cold chain reads first: more than an L2 holds, unless the measurement is quick.
    pub(super) fn flush(self) -> usize {
        if self.quick { 16 << 20 } else { 256 << 20 }
    }
}

/// The formats that are measured by default.
pub const FORMATS: [DType; 3] = [DType::F16, DType::Q8_0, DType::Q4_0];

/// Every point, for the formats that weights may have. The first point is `launch`, because others subtract it.
pub fn pairs(formats: &[DType], extent: Extent) -> Result<Vec<Pair>, ShapeError> {
    let mut all = vec![];
    // A float format measures the memory bandwidth and the arithmetic rate.
    let first = formats.iter().copied().find(|f| f.is_float()).unwrap_or(DType::F16);
    for (curve, is_independent) in [("launch", false), ("launch.independent", true)] {
        let links = 128;
        all.push(pair(curve, 0.0, Unit::Dispatch, links, |depth| tiny(depth, is_independent), 64)?);
    }
    let mb = |list: &[usize]| list.iter().map(|m| m << 20).collect::<Vec<_>>();
    for set in extent.of(&mb(&[8, 16, 32, 64, 128, 256, 512]), &mb(&[4, 16])) {
        all.push(read(first, set)?);
    }
    for &format in formats {
        let mut seen = 0;
        let sizes = [4, 32, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
        for kb in extent.of(&sizes, &[32, 1024]) {
            let shape = Shape::of(format, kb << 10);
            if shape.bytes <= seen {
                continue;
            }
            seen = shape.bytes;
            for (how, is_cold) in [("hot", false), ("cold", true)] {
                let name = format!("stream.{}.{how}", format.name());
                all.push(stream(name, format, shape, is_cold, false, extent)?);
                if format == first && kb <= 4096 {
                    let name = format!("stream.{}.independent.{how}", format.name());
                    all.push(stream(name, format, shape, is_cold, true, extent)?);
                }
            }
        }
        let k = if extent.quick { 128 } else { 4096 };
        for n in extent.of(&[2, 4, 8, 16, 32, 64, 128, 512, 2048, 4096], &[8, 64]) {
            let operations = Unit::Rate(2.0 * (k * k * n) as f64);
            let curve = format!("matmul.{}", format.name());
            all.push(pair(curve, n as f64, operations, 4, |depth| square(format, n, k, depth), 1)?);
        }
    }
    for n in extent.of(&[256, 512, 1024, 2048, 4096], &[64, 128]) {
        let operations = 2.0 * (n as f64).powi(3);
        all.push(pair("flops", operations, Unit::Rate(operations), 4, |depth| square(first, n, n, depth), 1)?);
    }
    for dim in extent.of(&[64, 128, 256], &[64]) {
        for n in extent.of(&[64, 256, 1024, 4096], &[16]) {
            let unit = Unit::Rate(attended(dim, n));
            all.push(pair(format!("attention.prefill.{dim}"), n as f64, unit, 2, |depth| blocks(dim, n, depth), 1)?);
        }
    }
    Ok(all)
}

/// A point from two chains of the same kind: one of `least` links, one of `least + links`.
fn pair(
    curve: impl Into<String>,
    x: f64,
    unit: Unit,
    links: usize,
    chain: impl Fn(usize) -> Result<Chain, ShapeError>,
    least: usize,
) -> Result<Pair, ShapeError> {
    Ok(Pair { curve: curve.into(), x, unit, least, links, short: chain(least)?, long: chain(least + links)? })
}

/// A chain of the smallest possible dispatches. Each reads the output of the one before; or, independent, all read the same
/// input and write to slots of their own.
pub fn tiny(depth: usize, is_independent: bool) -> Result<Chain, ShapeError> {
    let mut chain = Chain::new(1, 1, 1);
    let mut x = chain.input(16)?;
    for _ in 0..depth {
        let y = chain.push(Elementwise::scale(0.5), &[x])?;
        if is_independent { chain.kept.push(y) } else { x = y }
    }
    Ok(chain)
}

/// The read bandwidth of a working set of `bytes`: weights of at most 64 MB each, read one after the other again and again.
fn read(format: DType, bytes: usize) -> Result<Pair, ShapeError> {
    const K: usize = 4096;
    let piece = bytes.min(64 << 20);
    let (rows, pieces) = (piece / format.row_bytes(K).unwrap_or(4 * K), bytes / piece);
    let chain = |depth| {
        let mut chain = Chain::new(1, 1, 1);
        let x = chain.input(K)?;
        let weights: Vec<ValueId> = (0..pieces).map(|_| chain.weight(rows, K, format)).collect();
        for i in 0..depth {
            chain.push(Matmul::plain(), &[x, weights[i % pieces]])?;
        }
        Ok(chain)
    };
    pair("read", bytes as f64, Unit::Rate(piece as f64), 4 * pieces, chain, pieces)
}

/// The shape of a matrix `[rows, k]`. In a dependent chain it alternates with `[k, rows]`, which restores the width.
#[derive(Clone, Copy)]
struct Shape {
    k: usize,
    rows: usize,
    bytes: usize,
}

impl Shape {
    /// A matrix of about `bytes` bytes in a format, as close to square as whole blocks allow.
    fn of(format: DType, bytes: usize) -> Shape {
        // Widths of quantized weights are multiples of the largest block, as in models.
        let block = if format.is_float() { 32 } else { 256 };
        let elements = bytes * 256 / format.row_bytes(256).unwrap_or(1024);
        let k = (1usize << (elements.max(1).ilog2() / 2)).max(block);
        let rows = (elements / k).next_multiple_of(block).max(block);
        Shape { k, rows, bytes: rows * format.row_bytes(k).unwrap_or(4 * k) }
    }
}

/// Products of a weight with one row. Each reads the output of the one before; or, independent, all read the same input and
/// write to slots of their own.
fn stream(
    curve: String,
    format: DType,
    shape: Shape,
    is_cold: bool,
    is_independent: bool,
    extent: Extent,
) -> Result<Pair, ShapeError> {
    // The number of links is even, as shapes alternate. Hot chains have two matrices for all links.
    let links = if is_cold { (extent.flush() / shape.bytes).clamp(2, 32) / 2 * 2 } else { 32 };
    let chain = |depth: usize| {
        let mut chain = Chain::new(1, 1, 1);
        if is_cold {
            let (x, width) = (chain.input(2048)?, 2048);
            let w = chain.weight(extent.flush() / (2 * width), width, DType::F16);
            chain.graph.push(FLUSH, Matmul::plain(), &[x, w])?;
        }
        let mut x = chain.input(shape.k)?;
        let mut weights: Vec<ValueId> = vec![];
        for i in 0..depth {
            let is_back = i % 2 == 1 && !is_independent;
            let (rows, k) = if is_back { (shape.k, shape.rows) } else { (shape.rows, shape.k) };
            if is_cold || i < 2 {
                weights.push(chain.weight(rows, k, format));
            }
            let y = chain.push(Matmul::plain(), &[x, weights[i % weights.len()]])?;
            if is_independent { chain.kept.push(y) } else { x = y }
        }
        Ok(chain)
    };
    pair(curve, shape.bytes as f64, Unit::Dispatch, links, chain, 2)
}

/// Query heads and key heads in the chains of prompts.
const PROMPT_HEADS: (usize, usize) = (16, 4);

/// Flops of the attention of a prompt of `n` tokens to itself.
fn attended(dim: usize, n: usize) -> f64 {
    let seen = Expr::Pairs(None).eval(Bind { t: n as u64, s: 1, l: n as u64 });
    (4 * PROMPT_HEADS.0 * dim) as f64 * seen as f64
}

/// A chain in which a prompt of `n` tokens attends to itself `depth` times; its keys are in the cache already.
fn blocks(dim: usize, n: usize, depth: usize) -> Result<Chain, ShapeError> {
    let (heads, kv) = PROMPT_HEADS;
    let cache = Cache { heads: kv, dim };
    let mut chain = Chain::new(n, 1, n);
    let mut q = chain.input(heads * dim)?;
    let (ks, vs) = (chain.state(Sig::state(cache, DType::F16)), chain.state(Sig::state(cache, DType::F16)));
    for _ in 0..depth {
        q = chain.push(Attention::plain(heads, kv, dim, 0.1), &[q, ks, vs])?;
    }
    Ok(chain)
}

/// A chain of `depth` products of `n` rows with one square matrix of `k` columns.
fn square(format: DType, n: usize, k: usize, depth: usize) -> Result<Chain, ShapeError> {
    let mut chain = Chain::new(n, 1, n);
    let mut x = chain.input(k)?;
    let w = chain.weight(k, k, format);
    for _ in 0..depth {
        x = chain.push(Matmul::plain(), &[x, w])?;
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetrip_ir::target::{CudaCaps, WgslCaps};

    #[test]
    fn the_longer_chain_has_the_links_more_and_no_gap_on_any_gpu() {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 * 1024, lt: false };
        for target in [Target::Cuda(caps), Target::Wgsl(WgslCaps::default())] {
            let mut seen = std::collections::BTreeSet::new();
            for mut p in pairs(&FORMATS, Extent { quick: false }).expect("shapes") {
                let (short, long) = (p.short.plan(target).expect("a plan"), p.long.plan(target).expect("a plan"));
                assert_eq!(long.gaps().count(), 0, "{}", p.curve);
                let is_first = |a: &[u64], b: &[u64]| b.starts_with(a);
                assert!(is_first(&p.short.weights, &p.long.weights), "{}", p.curve);
                assert!(is_first(&p.short.state_bytes(256), &p.long.state_bytes(256)), "{}", p.curve);
                // A link may take several dispatches, the same number in every link.
                let more = long.dispatches.len() - short.dispatches.len();
                assert!(more >= p.links && more % p.links == 0, "{}: {more} for {} links", p.curve, p.links);
                assert!(seen.insert((p.curve.clone(), p.x.to_bits())), "{} at {} twice", p.curve, p.x);
            }
        }
    }

    #[test]
    fn kept_values_have_slots_of_their_own() {
        let target = Target::Cuda(CudaCaps::default());
        let slots = |is_independent| tiny(8, is_independent).expect("shapes").plan(target).expect("a plan").slots.len();
        assert!(slots(true) >= 8 && slots(false) < 4, "{} {}", slots(true), slots(false));
    }

    #[test]
    fn a_matrix_of_so_many_bytes_has_whole_blocks_both_ways() {
        for format in [DType::F16, DType::Q4_0, DType::Q4_K] {
            for kb in [4, 256, 65536] {
                let s = Shape::of(format, kb << 10);
                assert!(format.row_bytes(s.rows).is_some() && format.row_bytes(s.k).is_some());
                assert!(s.bytes >= kb << 9 && (s.bytes <= kb << 11 || kb == 4), "{format:?} {kb} {}", s.bytes);
            }
        }
    }
}
