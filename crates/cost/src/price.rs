//! Prices the dispatches of a plan and its tick, by interpolation in a profile.
//!
//! On a CPU a dispatch takes `launch + work`: the launch is the submission and the fork–join barrier of the thread pool. The
//! work of an op is
//!
//! - *matmul*: the time to stream the weights, at the dispatch's total bytes and by format, from memory or from the caches
//!   depending on the plan's working set; or the flops over the rate for this number of rows, whichever is larger; plus the
//!   prologue that every worker recomputes, plus the epilogue of the items;
//! - *attention, delta rule, convolution*: the time of one item by its keys or elements of state, from memory or from the
//!   caches, times the items in the longest share of a worker;
//! - *all others*: the time of one item at its width, times the items in the longest share of a worker.
//!
//! On a GPU a dispatch takes `launch + max(bytes / bandwidth, flops / rate)`, or the time by the op's own curves where the
//! profile has them (`stream.FORMAT`, `matmul.FORMAT`, `attention.DIM`, `delta_net`, `sample`; these include the launch). A
//! dispatch without a dependency on the dispatch before it costs `launch.independent` instead of `launch`.
//!
//! The tick is the sum of its dispatches, plus the submission of the recording and the host's rotary tables. On a GPU the
//! host works ahead, so the encoding counts only as far as it takes longer than the dispatches.

use super::profile::{Kind, Profile};
use onetrip_ir::cpu::items::Items;
use onetrip_ir::expr::Bind;
use onetrip_ir::formats::tile::TILE_ROWS;
use onetrip_ir::kernel::Cost;
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::plan::{BufRef, Dispatch, Operand, OperandId, Plan};
use onetrip_ir::tensor::{Role, Sig};

/// Columns of the synthetic weights behind the `stream` curves of a profile; see [`crate::calibrate`].
pub const STREAM_K: usize = 1024;
/// Columns of the synthetic weights with long rows. Prices are interpolated over the logarithm of the columns between
/// [`STREAM_K`] and this, and constant beyond.
pub const LONG_K: usize = 4096;
/// Query heads per key head in the chains of attention.
pub const GROUP: usize = 2;

/// Flops per element of SiLU(a) · b, the epilogue in the chains of pairs.
const GLU_FLOPS: f64 = 9.0;

/// The number of items in the longest share of a worker, where workers take items in the ranges of [`Items`].
pub fn rounds(items: u64, grain: usize, workers: usize) -> u64 {
    let chunk = Items::chunk(items as usize, grain, workers) as u64;
    let workers = workers.max(1) as u64;
    (items.div_ceil(chunk).div_ceil(workers) * chunk).min(items)
}

/// The predicted times of a tick, in µs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The time of each dispatch.
    pub dispatches: Vec<f64>,
    /// Submitting the recording, once per tick.
    pub submit: f64,
    /// Computing the host's parameters (rotary tables), once per tick.
    pub host: f64,
}

impl Tick {
    /// The time of the whole tick, in µs.
    pub fn total(&self) -> f64 {
        self.dispatches.iter().sum::<f64>() + self.submit + self.host
    }
}

/// Prices plans for one device.
pub struct Pricer<'p> {
    profile: &'p Profile,
    threads: usize,
}

impl<'p> Pricer<'p> {
    /// A pricer that uses `profile`, for `threads` workers (ignored on a GPU).
    pub fn new(profile: &'p Profile, threads: usize) -> Pricer<'p> {
        Pricer { profile, threads: threads.max(1) }
    }

    /// The profile whose curves are interpolated.
    pub fn profile(&self) -> &Profile {
        self.profile
    }

    /// Prices all dispatches of a plan, and its submission.
    pub fn tick(&self, plan: &Plan, bind: Bind) -> Tick {
        let set = working_set(plan, bind);
        let mut rows = plan.dispatches.iter().map(|d| self.dispatch(d, bind, set)).collect::<Vec<_>>();
        if self.profile.kind == Kind::Gpu {
            let saved = self.launch() - self.time("launch.independent", 0.0).unwrap_or(self.launch());
            let apart = plan.dispatches.windows(2).map(|w| is_independent(&w[0], &w[1]));
            rows.iter_mut()
                .skip(1)
                .zip(apart)
                .filter(|(_, apart)| *apart)
                .for_each(|(us, _)| *us -= saved.clamp(0.0, *us));
            let submit = self.time("submit", 1.0).unwrap_or(0.0);
            let encode = self.time("encode", rows.len() as f64).unwrap_or(0.0);
            let submit = submit.max(encode - rows.iter().sum::<f64>());
            return Tick { dispatches: rows, submit, host: 0.0 };
        }
        let pairs: u64 = plan.ropes.iter().map(|r| r.inv_freq.len() as u64).sum();
        let host = self.time("host.rope", 1.0).unwrap_or(0.0) * (pairs * bind.t) as f64;
        let submit = self.time("submit", rows.len() as f64).unwrap_or(0.0);
        Tick { dispatches: rows, submit, host }
    }

    /// The time of one dispatch of a plan whose working set is `set` bytes, in µs.
    pub fn dispatch(&self, d: &Dispatch, bind: Bind, set: f64) -> f64 {
        match self.profile.kind {
            Kind::Gpu => {
                self.kernel_switch() + self.gpu_work(d, bind, set).unwrap_or_else(|| self.sized(&d.cost, bind, set))
            }
            Kind::Cpu => self.launch() * (1 + d.grid_syncs) as f64 + self.cpu_work(d, bind, set),
        }
    }

    /// The time of an empty dispatch: on a CPU, one submission to the thread pool and its fork–join barrier. In µs.
    pub fn launch(&self) -> f64 {
        self.time("launch", 0.0).unwrap_or(0.0)
    }

    /// The kernel-switch overhead in µs: how much longer a dispatch takes behind another kernel than behind its own kind.
    pub fn kernel_switch(&self) -> f64 {
        self.time("kernel_switch", 0.0).unwrap_or(0.0)
    }

    /// Bytes per second at which a working set is read.
    pub fn bandwidth(&self, set: f64) -> f64 {
        self.rate("read", set).filter(|r| *r > 0.0).unwrap_or(f64::INFINITY)
    }

    fn time(&self, name: &str, x: f64) -> Option<f64> {
        self.profile.value(name, self.threads, |c| c.time(x))
    }

    fn rate(&self, name: &str, x: f64) -> Option<f64> {
        self.profile.value(name, self.threads, |c| c.rate(x))
    }

    /// A launch plus the roofline of bytes and flops: for a GPU dispatch without curves of its op, or a CPU kernel of a class
    /// that was not measured.
    fn sized(&self, cost: &Cost, bind: Bind, set: f64) -> f64 {
        let bytes = cost.read.eval(bind).saturating_add(cost.written.eval(bind)) as f64;
        let flops = cost.flops.eval(bind) as f64;
        let arithmetic = self.rate("flops", flops).filter(|r| *r > 0.0).map_or(0.0, |r| flops / r);
        self.launch() + 1e6 * (bytes / self.bandwidth(set)).max(arithmetic)
    }

    fn cpu_work(&self, d: &Dispatch, bind: Bind, set: f64) -> f64 {
        let no_kernel = KernelId::default();
        let kernel = d.kernel.as_ref().unwrap_or(&no_kernel);
        let work = match d.op {
            "matmul" if d.runs("quantize") || d.runs("rows") && kernel.has_norm => self.prologue_rows(d, bind),
            "matmul" => self.matmul(d, bind, set),
            "attention" if kernel.op == "attention" => self.attention(d, bind, set),
            "delta_net" if kernel.op == "delta_net" => self.delta_net(d, bind, set),
            "conv" => self.conv(d, bind),
            _ => None,
        };
        let items = d.grid.eval(bind);
        let share = rounds(items, d.grain, self.threads) as f64;
        let work = work.or_else(|| {
            let width = d.operands.iter().filter_map(|o| o.sig.as_ref()).filter(|s| !s.is_weight()).map(|s| s.width);
            let width = width.max()? as f64;
            Some(share * self.time(class(d, bind), width)?)
        });
        work.unwrap_or_else(|| self.sized(&d.cost, bind, set) - self.launch())
    }

    /// The time of a GPU dispatch by the curves of its op, launch included. `None` where the profile has no such curves, and
    /// for dispatches that write only scratch.
    fn gpu_work(&self, d: &Dispatch, bind: Bind, set: f64) -> Option<f64> {
        let no_kernel = KernelId::default();
        let kernel = d.kernel.as_ref().unwrap_or(&no_kernel);
        // Operands that are not values of the graph (the batch's words, scratch) may come first and have no signature.
        let values = |is_written: bool| {
            d.operands.iter().filter(move |o| o.is_written == is_written).filter_map(|o| o.sig.as_ref())
        };
        let read = d.cost.read.eval(bind) as f64;
        let rows = values(true).find(|s| !s.is_state())?.rows.eval(bind);
        match d.op {
            "matmul" => {
                let is_matrix = |o: &&Operand| {
                    o.sig.as_ref().is_some_and(|s| s.is_weight() && s.rows.constant().is_some_and(|r| r > 1))
                };
                let matrices = || d.operands.iter().filter(is_matrix);
                let weights = || matrices().filter_map(|o| o.sig.as_ref());
                let all: f64 = weights().map(|s| s.bytes().eval(bind) as f64).sum();
                // Shards of a weight count as one product.
                let products = matrices().map(|o| o.what).collect::<std::collections::BTreeSet<_>>().len();
                let is_pair = products > values(true).count();
                let form = match (is_pair, kernel.has_norm) {
                    (true, _) => "pair",
                    (false, true) => "norm",
                    (false, false) => "sum",
                };
                let (mut stream, mut arithmetic) = (0.0, 0.0);
                for s in weights() {
                    let (format, bytes) = (s.dtype.name(), s.bytes().eval(bind) as f64);
                    let at = |how: &str| {
                        let alone = || self.stream(&format!("stream.{format}.{how}"), all, set);
                        self.stream(&format!("stream.{format}.{form}.{how}"), all, set).or_else(alone)
                    };
                    let (hot, from_memory) = (at("hot")?, at("cold")?);
                    // The hot curve is measured on small buffers, so its time is capped at the time from memory.
                    stream += bytes / all * (from_memory - (1.0 - self.coldness(set)) * (from_memory - hot).max(0.0));
                    if rows > 1 {
                        let operations = 2.0 * s.rows.constant().unwrap_or(0) as f64 * (s.width as u64 * rows) as f64;
                        arithmetic += 1e6 * operations / self.rate(&format!("matmul.{format}"), rows as f64)?;
                    }
                }
                (all > 0.0).then(|| stream.max(self.launch() + arithmetic))
            }
            // The curve was measured with one row; it is used for up to 8 rows, and where every sequence has one row.
            "attention" if (rows <= 8 || rows == bind.s) && kernel.op == "attention" => {
                let cache = d.operands.iter().filter_map(|o| o.sig.as_ref()).find_map(|s| s.cache())?;
                self.time(&format!("attention.{}", measured_dim(cache.dim)), read)
            }
            "attention" if kernel.op == "attention" => {
                let cache = values(false).find_map(|s| s.cache())?;
                let dim = measured_dim(cache.dim);
                let rate = self.rate(&format!("attention.prefill.{dim}"), rows as f64)?;
                Some(self.launch() + 1e6 * d.cost.flops.eval(bind) as f64 / rate)
            }
            "delta_net" if rows == bind.s => self.time("delta_net", read),
            "sample" => self.time("sample", values(false).find(|s| !s.is_state())?.width as f64),
            _ => None,
        }
    }

    /// The time to stream `bytes`, by a curve of time over bytes. Bytes beyond the end of the curve are added at the read
    /// bandwidth of the working set.
    fn stream(&self, curve: &str, bytes: f64, set: f64) -> Option<f64> {
        let end = self.profile.value(curve, self.threads, |c| c.x[c.x.len() - 1])?;
        Some(self.time(curve, bytes.min(end))? + 1e6 * (bytes - end).max(0.0) / self.bandwidth(set))
    }

    /// The time of the norm and the activation quantization of one row of `k` elements, in µs.
    fn prologue(&self, k: usize, norm: bool, q8: bool) -> f64 {
        let k = k as f64;
        let quantize = if q8 { self.time("quantize", k).unwrap_or(0.0) } else { 0.0 };
        quantize + if norm { self.time("rms_norm", k).unwrap_or(0.0) } else { 0.0 }
    }

    fn prologue_rows(&self, d: &Dispatch, bind: Bind) -> Option<f64> {
        let x = d.operands.first()?.sig.as_ref()?;
        let rows = rounds(x.rows.eval(bind), d.grain, self.threads) as f64;
        Some(rows * self.prologue(x.width, has_norm(d), d.runs("quantize")))
    }

    fn matmul(&self, d: &Dispatch, bind: Bind, set: f64) -> Option<f64> {
        let x = d.operands.first()?.sig.as_ref()?;
        let (n, k) = (x.rows.eval(bind), x.width);
        let matrices: Vec<&Sig> =
            d.operands.iter().filter_map(|o| o.sig.as_ref()).filter(|s| is_matrix(s, k)).collect();
        let bytes = |s: &Sig| s.bytes().eval(bind) as f64;
        let rows = |s: &Sig| s.rows.constant().unwrap_or(0) as f64;
        let (all, all_rows) =
            (matrices.iter().map(|s| bytes(s)).sum::<f64>(), matrices.iter().map(|s| rows(s)).sum::<f64>());
        if all <= 0.0 {
            return None;
        }
        let cold = self.coldness(set);
        let outputs = d.operands.iter().filter(|o| o.is_written).count();
        // With more products than outputs, two weights are read tile by tile in turn and their products combined in the
        // epilogue.
        let is_pair = outputs < matrices.len();
        let long = ((k as f64 / STREAM_K as f64).ln() / (LONG_K as f64 / STREAM_K as f64).ln()).clamp(0.0, 1.0);
        let one = |x: f64| self.time("epilogue", x).unwrap_or(0.0);
        let (mut stream, mut arithmetic, mut in_curve) = (0.0, 0.0, 0.0);
        for s in &matrices {
            let format = s.dtype.name();
            let at = |how: &str| self.time(&format!("stream.{format}.{how}"), all);
            let (hot, short) = (at("hot")?, at("cold")?);
            let slower = at("long").map_or(1.0, |t| t / short.max(f64::MIN_POSITIVE));
            let alone = short * (1.0 + long * (slower - 1.0));
            // The pair curve (two weights read in turn, short rows) counts only where it is slower than one weight with rows of
            // this length.
            let pair = at("pair").filter(|t| is_pair && cold > 0.5 && *t > alone);
            let from_memory = pair.unwrap_or(alone);
            // Where a dispatch has weights of several formats, each format counts for its share of the bytes: that share of the
            // time that all bytes would take in this format.
            stream += bytes(s) / all * (hot + cold * (from_memory - hot).max(0.0));
            // The epilogues that are contained in the curve's time, to be subtracted below. Longer rows are priced by a curve
            // of longer rows, which has fewer items for the same bytes.
            let of_curve = if pair.is_some() { 1.0 } else { (LONG_K as f64 / STREAM_K as f64).powf(cold * long) };
            let items = rows(s) * k as f64 / (STREAM_K as f64 * of_curve) / TILE_ROWS as f64;
            in_curve += if pair.is_some() { items / 2.0 * one(GLU_FLOPS) } else { items * one(0.0) };
            if n > 1 {
                arithmetic +=
                    1e6 * 2.0 * rows(s) * (k as u64 * n) as f64 / self.rate(&format!("matmul.{format}"), n as f64)?;
            }
        }
        let is_q8 = d.kernel.as_ref().is_some_and(|k| k.has("tile16") || k.has("mixed"));
        let is_redone = d.runs("gemv_multi");
        let prologue = match is_redone {
            true => n as f64 * self.prologue(k, has_norm(d), is_q8),
            false => 0.0,
        };
        // The curve's time contains a launch, the quantization of one row of its own width, and items with plain epilogues.
        let stream = stream - self.launch() - self.prologue(STREAM_K, false, is_q8);
        let elements = (all_rows * n as f64).max(1.0);
        let norm_flops = if has_norm(d) { 4 * k as u64 * n } else { 0 };
        let products = 2 * all_rows as u64 * k as u64 * n;
        let extra = d.cost.flops.eval(bind).saturating_sub(products).saturating_sub(norm_flops) as f64 / elements;
        let items = d.grid.eval(bind) as f64;
        let epilogue =
            (items * n as f64 * one(extra * all_rows / (items * TILE_ROWS as f64)) - in_curve) / self.threads as f64;
        let floor = 0.25 * stream.max(0.0);
        Some(prologue + (stream + if n > 1 { 0.0 } else { epilogue }).max(arithmetic).max(floor))
    }

    fn attention(&self, d: &Dispatch, bind: Bind, set: f64) -> Option<f64> {
        let cache = d.operands.iter().filter_map(|o| o.sig.as_ref()).find_map(|s| s.cache())?;
        let q = d.operands.first()?.sig.as_ref()?;
        let heads = (q.width / cache.dim.max(1)).max(1) as f64;
        // The number of (query, key) pairs follows from the dispatch's flops, which respect attention windows.
        let pairs = d.cost.flops.eval(bind) as f64 / (4.0 * heads * cache.dim as f64);
        let keys = pairs / (bind.t as f64).max(1.0);
        let dim = measured_dim(cache.dim);
        let scale = cache.dim as f64 / dim as f64;
        let items = d.grid.eval(bind);
        let share = rounds(items, d.grain, self.threads) as f64 / items.max(1) as f64;
        if d.runs("decode") {
            let at = |how: &str| self.time(&format!("attention.decode.{dim}.{how}"), keys);
            let (hot, from_memory) = (at("hot")?, at("cold")?);
            // The query heads of a group read the same keys, so only one of them waits for memory.
            let group = (heads / cache.heads.max(1) as f64).max(1.0);
            let wait = self.coldness(set) * (from_memory - hot).max(0.0) * GROUP as f64 / group;
            let item = hot + wait;
            return Some(share * heads * bind.t as f64 * item * scale);
        }
        let pair = self.time(&format!("attention.prefill.{dim}"), keys)?;
        Some(share * heads * bind.t as f64 * pair * scale)
    }

    /// The work of a delta rule, whose items are the key heads of each sequence, with all its rows.
    fn delta_net(&self, d: &Dispatch, bind: Bind, set: f64) -> Option<f64> {
        let items = d.grid.eval(bind).max(1);
        let elements = d.operands.iter().filter_map(|o| o.sig.as_ref()).filter(|s| s.role == Role::Recurrent);
        let state = elements.map(|s| s.width).max()? as f64 * bind.s as f64 / items as f64;
        let form = if d.kernel.as_ref().is_some_and(|k| k.has("conv")) { "fused" } else { "plain" };
        let share = rounds(items, d.grain, self.threads) as f64 * bind.t as f64 / (bind.s as f64).max(1.0);
        if d.runs("rows") {
            let at = |how: &str| self.time(&format!("delta_net.rows.{form}.{how}"), state);
            let (hot, from_memory) = (at("hot")?, at("cold")?);
            return Some(share * (hot + self.coldness(set) * (from_memory - hot).max(0.0)));
        }
        Some(share * self.time(&format!("delta_net.chunks.{form}"), state)?)
    }

    /// The work of a convolution, whose items are blocks of channels of each sequence, with all its rows.
    fn conv(&self, d: &Dispatch, bind: Bind) -> Option<f64> {
        let items = d.grid.eval(bind).max(1);
        let width = d.operands.first()?.sig.as_ref()?.width as f64;
        let share = rounds(items, d.grain, self.threads) as f64 / items as f64;
        let curve = if d.runs("heads") { "conv.heads" } else { "conv" };
        Some(share * bind.t as f64 * self.time(curve, width)?)
    }

    /// The share of a working set of `set` bytes that comes from memory: 0 where all of it stays in the nearest caches, 1 where
    /// none does. It is derived from the time per byte.
    pub fn coldness(&self, set: f64) -> f64 {
        let cost = |set: f64| 1.0 / self.bandwidth(set);
        // Time per byte of a working set of 2 MB (cached), and of the largest one in the profile (from memory).
        let (hot, cold) = (cost(2e6), cost(f64::MAX));
        if cold <= hot { 1.0 } else { ((cost(set) - hot) / (cold - hot)).clamp(0.0, 1.0) }
    }
}

/// The dispatch norms its input rows itself.
fn has_norm(d: &Dispatch) -> bool {
    d.kernel.as_ref().is_some_and(|k| k.has_norm)
}

/// The measured head width whose curves price heads of `dim` elements: 64, 128 or 256.
fn measured_dim(dim: usize) -> usize {
    [64, 128].into_iter().find(|have| dim <= have * 3 / 2).unwrap_or(256)
}

/// Whether two adjacent dispatches are independent: neither touches a buffer that the other writes.
fn is_independent(before: &Dispatch, d: &Dispatch) -> bool {
    let written =
        |d: &Dispatch| d.args.iter().zip(&d.operands).filter(|(_, o)| o.is_written).map(|(a, _)| *a).collect();
    let (a, b): (Vec<BufRef>, Vec<BufRef>) = (written(before), written(d));
    !d.args.iter().any(|x| a.contains(x)) && !before.args.iter().any(|x| b.contains(x))
}

/// Whether an operand of a matmul is a weight matrix with rows of `k` elements, and not a norm's weight or a bias.
fn is_matrix(s: &Sig, k: usize) -> bool {
    matches!(s.role, Role::Weight(_)) && s.width == k && s.rows.constant().is_some_and(|r| r > 1)
}

/// The working set of a tick in bytes: its weights, each once, and the states that attention and delta rule read.
pub fn working_set(plan: &Plan, bind: Bind) -> f64 {
    let mut seen = std::collections::BTreeSet::new();
    let mut bytes = 0u64;
    for d in &plan.dispatches {
        let mut weights = 0;
        for o in d.operands.iter().filter(|o| o.sig.as_ref().is_some_and(|s| s.is_weight()) && d.op != "embed") {
            let size = o.bytes.eval(bind);
            weights += size;
            if seen.insert(o.what) {
                bytes = bytes.saturating_add(size);
            }
        }
        if matches!(d.op, "attention" | "delta_net") {
            bytes = bytes.saturating_add(d.cost.read.eval(bind).saturating_sub(weights));
        }
    }
    bytes as f64
}

/// The name of the curve that prices an op that works row by row.
fn class(d: &Dispatch, bind: Bind) -> &'static str {
    match d.op {
        "elementwise" => {
            let out = |o: &&Operand| o.is_written && matches!(o.what, OperandId::Value(_));
            let elements = d.operands.iter().filter(out).map(|o| o.bytes.eval(bind) / 4).sum::<u64>().max(1);
            if d.cost.flops.eval(bind) / elements >= 8 { "elementwise.fn" } else { "elementwise" }
        }
        // These ops copy rows and are priced as one.
        "copy" | "state_read" | "state_write" | "window" => "gather_rows",
        other => other,
    }
}
