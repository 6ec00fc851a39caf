//! Synthetic layers with which `onetrip calibrate` prices dispatches on a GPU as they run in a tick. Their sizes are round
//! numbers that belong to no model.
//!
//! A chain of the dispatches of one kind, layer after layer, gives the time of that kind by form and size. A chain of whole
//! layers takes longer than the sum of its kinds; the excess per dispatch is the kernel-switch overhead
//! (curve `kernel_switch`).

use super::pairs::Extent;
use super::*;

/// A chain of equal layers, with the kinds of dispatches that are measured in it.
pub struct Layers {
    /// All layers, one after the other.
    pub chain: Chain,
    /// Number of layers in the chain.
    pub depth: usize,
    /// The kinds of dispatches to measure.
    pub rows: Vec<LayerRow>,
    /// Whole layers are measured too, for the kernel-switch overhead.
    pub is_whole: bool,
}

/// A kind of dispatch that every layer has.
pub struct LayerRow {
    /// Its dispatches are named by this, a dot and the number of the layer.
    pub name: &'static str,
    /// How often the kind occurs in the chain.
    pub times: usize,
    /// The kind that runs before it while it is measured; the time of that kind is subtracted.
    pub behind: Option<&'static str>,
    /// The curve and the `x` that are measured; `None` for a kind that only belongs to whole layers.
    pub point: Option<(String, f64)>,
}

impl LayerRow {
    /// Whether every layer has this kind; the head and sampling come once, after all layers.
    pub fn is_in_layers(&self) -> bool {
        is_in_layers(self.name)
    }
}

fn is_in_layers(name: &str) -> bool {
    ![HEAD, SAMPLE].contains(&name)
}

impl Layers {
    /// The plan of the first `layers` layers on a target, with the kinds named in `rows` only, or with all kinds of whole
    /// layers.
    pub fn plan(&mut self, target: Target, rows: Option<&[&str]>, layers: usize) -> Result<Plan, ShapeError> {
        let mut plan = self.chain.plan(target)?;
        plan.dispatches.retain(|d| match d.name.split_once('.') {
            Some((name, layer)) => {
                rows.map_or(is_in_layers(name), |rows| rows.contains(&name))
                    && layer.parse().is_ok_and(|n: usize| n < layers)
            }
            None => true,
        });
        Ok(plan)
    }
}

/// Widths of the layers whose products are measured.
const WIDTHS: [usize; 6] = [512, 768, 1024, 1536, 2048, 4096];
/// Width of the layers whose attention or delta net is measured.
const NARROW: usize = 1024;
/// Key heads where attention is measured, and query heads per key head.
const KV_HEADS: usize = 8;
const QUERIES: usize = 4;
/// Keys that attention sees where products are measured.
const KEYS: usize = 256;
/// The most bytes of weights in a layer that is measured hot.
const HOT_BYTES: usize = 32 << 20;
/// Key and value dimension of a delta net's head, whose state is this squared.
const DELTA_DIM: usize = 128;
/// Ratio of a layer's inner (FFN) width to its width.
const INNER: usize = 3;
/// A product with a weight of many rows, like a model's head; it is in no layer.
const HEAD: &str = "head";
/// The op that chooses a token from the head's output.
const SAMPLE: &str = "sample";
const HEAD_ROWS: usize = 128;
const HEAD_WIDTH: usize = 1024;
const HEADS: usize = 2;
/// About how many bytes of weights a chain has at most.
const MOST: usize = 1 << 30;

/// The op between a layer's first products and its output projection.
#[derive(Clone, Copy)]
enum Mixer {
    Attention { kv: usize, dim: usize, keys: usize },
    Delta { heads: usize },
}

/// The sizes of a layer.
#[derive(Clone, Copy)]
struct Size {
    format: DType,
    k: usize,
    mixer: Mixer,
    /// Ratio of the head's rows to its width.
    head: usize,
    /// All weights come from memory, because other layers' weights and a flush are read in between.
    is_cold: bool,
}

/// Every group of layers, for the formats that weights may have.
pub fn layers(formats: &[DType], extent: Extent) -> Result<Vec<Layers>, ShapeError> {
    let mut all = vec![];
    let head = if extent.quick { 4 } else { HEAD_ROWS };
    let first = formats.iter().copied().find(|f| f.is_float()).unwrap_or(DType::F16);
    for &format in formats {
        for k in extent.of(&WIDTHS, &[256]) {
            let dim = if k < 4096 { 64 } else { 128 };
            let mixer = Mixer::Attention { kv: (k / QUERIES / dim).max(1), dim, keys: KEYS };
            let size = Size { format, k, mixer, head, is_cold: true };
            all.push(products(size, format == formats[0], extent)?);
            // Larger layers would not stay in a cache.
            if size.bytes() <= HOT_BYTES {
                all.push(products(Size { is_cold: false, ..size }, false, extent)?);
            }
        }
    }
    let k = if extent.quick { 256 } else { NARROW };
    let narrow = |mixer| Size { format: first, k, mixer, head, is_cold: true };
    for dim in extent.of(&[64, 128, 256], &[64]) {
        for keys in extent.of(&[16, 128, 256, 1024, 4096, 16384], &[16]) {
            let bytes = (2 * 2 * KV_HEADS * dim * keys) as f64;
            all.push(mixers(
                narrow(Mixer::Attention { kv: KV_HEADS, dim, keys }),
                format!("attention.{dim}"),
                bytes,
                extent,
            )?);
        }
    }
    for heads in extent.of(&[4, 8, 16], &[4]) {
        let bytes = (2 * heads * DELTA_DIM * DELTA_DIM * 4) as f64;
        all.push(mixers(narrow(Mixer::Delta { heads }), "delta_net".into(), bytes, extent)?);
    }
    Ok(all)
}

/// Layers whose products are measured; whole cold layers give the kernel-switch overhead too.
fn products(size: Size, is_first: bool, extent: Extent) -> Result<Layers, ShapeError> {
    let has_head = size.is_cold && (extent.quick || size.k == HEAD_WIDTH);
    let depth = if extent.quick { 2 } else { (MOST / size.bytes()).clamp(4, 16) / 2 * 2 };
    let chain = chain(size, depth, if has_head { HEADS } else { 0 }, extent)?;
    let how = if size.is_cold { "cold" } else { "hot" };
    let row = |name: &'static str, form: &str| {
        let curve = format!("stream.{}.{form}.{how}", size.format.name());
        LayerRow { name, times: depth, behind: None, point: Some((curve, size.row(name) as f64)) }
    };
    let mixer = LayerRow { name: "mixer", times: depth, behind: None, point: None };
    let mut rows = vec![row("qkv", "norm"), mixer, row("out", "sum"), row("up", "pair"), row("down", "sum")];
    if has_head {
        rows.push(LayerRow { times: HEADS, ..row(HEAD, "norm") });
    }
    if has_head && is_first {
        let point = Some(("sample".into(), (size.head * size.k) as f64));
        rows.push(LayerRow { name: SAMPLE, times: HEADS, behind: Some(HEAD), point });
    }
    Ok(Layers { chain, depth, rows, is_whole: size.is_cold })
}

/// Layers whose attention or delta net is measured.
fn mixers(size: Size, curve: String, bytes: f64, extent: Extent) -> Result<Layers, ShapeError> {
    let depth = if extent.quick { 2 } else { 8 };
    let chain = chain(size, depth, 0, extent)?;
    Ok(Layers {
        chain,
        depth,
        rows: vec![LayerRow { name: "mixer", times: depth, behind: None, point: Some((curve, bytes)) }],
        is_whole: false,
    })
}

impl Size {
    /// Rows of the weights of a layer's first products.
    fn first(&self) -> Vec<usize> {
        match self.mixer {
            Mixer::Attention { kv, dim, .. } => vec![QUERIES * kv * dim, kv * dim, kv * dim],
            // In order: the packed projection, the gate, decay and beta.
            Mixer::Delta { heads } => vec![4 * heads * DELTA_DIM, 2 * heads * DELTA_DIM, 2 * heads, 2 * heads],
        }
    }

    /// Elements in a row of the mixer's output.
    fn mixed(&self) -> usize {
        match self.mixer {
            Mixer::Attention { kv, dim, .. } => QUERIES * kv * dim,
            Mixer::Delta { heads } => 2 * heads * DELTA_DIM,
        }
    }

    /// Bytes of the weights of the kind of dispatch called `name`.
    fn row(&self, name: &str) -> usize {
        let (rows, k) = match name {
            "qkv" => (self.first().iter().sum(), self.k),
            "out" => (self.k, self.mixed()),
            "up" => (2 * INNER * self.k, self.k),
            "down" => (self.k, INNER * self.k),
            _ => (self.head * self.k, self.k),
        };
        rows * self.format.row_bytes(k).unwrap_or(4 * k)
    }

    /// Bytes of the weights of a layer.
    fn bytes(&self) -> usize {
        ["qkv", "out", "up", "down"].iter().map(|name| self.row(name)).sum()
    }
}

/// A chain of `depth` layers, then `heads` times the head and sampling.
fn chain(size: Size, depth: usize, heads: usize, extent: Extent) -> Result<Chain, ShapeError> {
    let Size { format, k, mixer, head, is_cold } = size;
    let keys = if let Mixer::Attention { keys, .. } = mixer { keys } else { 2 };
    let mut c = Chain::new(1, 1, keys);
    // A quick measurement has no flush: a slow device would spend all its time on it.
    if is_cold && !extent.quick {
        let (x, width) = (c.input(2048)?, 2048);
        let w = c.weight(extent.flush() / (2 * width), width, DType::F16);
        c.graph.push(FLUSH, Matmul::plain(), &[x, w])?;
    }
    let mut x = c.input(k)?;
    let norm = Some(1e-5);
    let (first, inner) = (size.first(), INNER * k);
    let residual = || Matmul { products: 1, outputs: vec![Tree::sum(Tree::In(0), Tree::In(1))], norm: None };
    let gated = Tree::product(Tree::unary(Unary::Silu, Tree::In(0)), Tree::In(1));
    let mut shared: Vec<ValueId> = vec![];
    for layer in 0..depth {
        // All hot layers share the same weights.
        if is_cold || layer == 0 {
            shared = vec![c.weight(1, k, DType::F32)];
            shared.extend(first.iter().map(|&rows| c.weight(rows, k, format)).collect::<Vec<_>>());
            let rest = [(k, size.mixed()), (inner, k), (inner, k), (k, inner)];
            shared.extend(rest.map(|(rows, k)| c.weight(rows, k, format)));
        }
        let (g, n) = (shared[0], first.len());
        let mut named =
            |c: &mut Chain, name: &str, op: Op, ins: &[ValueId]| c.graph.push(format!("{name}.{layer}"), op, ins);
        let outputs = (0..n).map(Tree::In).collect();
        let mut ins = vec![x, g];
        ins.extend(&shared[1..1 + n]);
        let made = named(&mut c, "qkv", Matmul { products: n, outputs, norm }.into(), &ins)?;
        let mixed = mix(&mut c, mixer, &made, &mut named)?;
        let sum = named(&mut c, "out", residual().into(), &[mixed, shared[1 + n], x])?[0];
        let up = Matmul { products: 2, outputs: vec![gated.clone()], norm };
        let up = named(&mut c, "up", up.into(), &[sum, g, shared[2 + n], shared[3 + n]])?[0];
        x = named(&mut c, "down", residual().into(), &[up, shared[4 + n], sum])?[0];
    }
    for n in 0..heads {
        let (g, w) = (c.weight(1, k, DType::F32), c.weight(head * k, k, format));
        let head = Matmul { products: 1, outputs: vec![Tree::In(0)], norm };
        let logits = c.graph.push(format!("{HEAD}.{n}"), head, &[x, g, w])?;
        c.graph.push(format!("{SAMPLE}.{n}"), Sample { top: 0 }, &logits)?;
    }
    Ok(c)
}

/// Pushes an op under the name of its kind and the number of the layer.
type Named<'a> = dyn FnMut(&mut Chain, &str, Op, &[ValueId]) -> Result<Vec<ValueId>, ShapeError> + 'a;

/// Pushes the mixer of a layer and returns its output. `made` are the outputs of the layer's first products.
fn mix(c: &mut Chain, mixer: Mixer, made: &[ValueId], named: &mut Named) -> Result<ValueId, ShapeError> {
    match mixer {
        Mixer::Attention { kv, dim, .. } => {
            let table = c.graph.rope_table(RopeSpec { inv_freq: vec![0.01; dim / 2], factor: 1.0 });
            let rope = |heads| Rope { heads, dim, pairs: dim / 2, neox: true, table, norm: None, view: None };
            let (heads, cache) = (QUERIES * kv, Cache { heads: kv, dim });
            let [ks, vs] = [0; 2].map(|_| c.state(Sig::state(cache, DType::F16)));
            let op = Attention {
                q_rope: Some(rope(heads)),
                write: Some(CacheWrite { pair: true, rope: Some(rope(kv)) }),
                ..Attention::plain(heads, kv, dim, 0.1)
            };
            Ok(named(c, "mixer", op.into(), &[made[0], made[1], made[2], ks, vs])?[0])
        }
        Mixer::Delta { heads } => {
            let op = DeltaNet {
                k_heads: heads,
                v_heads: 2 * heads,
                k_dim: DELTA_DIM,
                v_dim: DELTA_DIM,
                scale: 0.1,
                front: Front::Conv { taps: TAPS, eps: 1e-6 },
                norm: Some(1e-6),
            };
            let packed = 4 * heads * DELTA_DIM;
            let (filter, norm) = (c.weight(packed, TAPS, DType::F32), c.weight(1, DELTA_DIM, DType::F32));
            let window = c.state(Sig::recurrent((TAPS - 1) * packed));
            let state = c.state(Sig::recurrent(op.state_width()));
            Ok(named(c, "mixer", op.into(), &[made[0], filter, made[2], made[3], norm, made[1], window, state])?[0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::FORMATS;
    use super::*;
    use onetrip_ir::target::{CudaCaps, WgslCaps};

    #[test]
    fn layers_are_the_sum_of_their_rows_and_have_kernels_on_any_gpu() {
        let caps = CudaCaps { sm: 90, sms: 132, shared: 227 * 1024, lt: false };
        for (target, quick) in [(Target::Cuda(caps), false), (Target::Wgsl(WgslCaps::default()), true)] {
            let mut seen = std::collections::BTreeSet::new();
            for mut group in layers(&FORMATS, Extent { quick }).expect("shapes") {
                let is_whole = group.is_whole;
                let (depth, names) = (group.depth, group.rows.iter().map(|r| r.name).collect::<Vec<_>>());
                let mut count = |rows: Option<&[&str]>, layers| {
                    let plan = group.plan(target, rows, layers).expect("a plan");
                    assert_eq!(plan.gaps().count(), 0);
                    plan.dispatches.len()
                };
                let none = count(None, 0);
                let in_layers = names.iter().filter(|n| is_in_layers(n));
                let rows: usize = in_layers.map(|n| count(Some(&[n]), 1) - none).sum();
                if is_whole {
                    assert_eq!(count(None, depth) - none, depth * rows);
                }
                for name in &names {
                    assert!(count(Some(&[name]), 2) > count(Some(&[name]), 1), "{name}");
                }
                for row in &group.rows {
                    // A kind outside the layers must repeat, and the kind that runs before it must be measured first.
                    assert!(if row.is_in_layers() { row.times == depth } else { row.times > 1 }, "{}", row.name);
                    assert!(
                        row.behind.is_none_or(
                            |b| names.iter().position(|n| *n == b) < names.iter().position(|n| *n == row.name)
                        )
                    );
                }
                for (curve, x) in group.rows.iter().filter_map(|r| r.point.clone()) {
                    assert!(seen.insert((curve.clone(), x.to_bits())), "{curve} at {x} twice");
                }
            }
        }
    }
}
