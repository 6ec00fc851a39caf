//! Marginal cost of a plan's dispatches: the time of the tick up to a dispatch, minus that of the tick up to the one before it.
//!
//! With time stamps around it, every dispatch waits for the one before. On a device that starts dispatches early, the sum of
//! such times is longer than a tick. Marginal costs need no stamps within a tick, and their sum is the time of the whole tick:
//! each dispatch counts from the end of the previous one to its own end, however much the two overlapped.

use onetrip_engine::step::Engine;
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::plan::{Dispatch, Plan};

use crate::support::fail::Fail;
use crate::support::plans::Step;
use crate::support::stats::Spread;

/// Seconds that a series of back-to-back runs takes, of which one time is measured.
const BURST_S: f64 = 4e-3;
/// The most runs of such a series.
const MOST_IN_BURST: f64 = 32.0;

/// Dispatches that compute the same in different layers.
pub struct Kind {
    /// Name of the dispatches without the layer.
    pub name: String,
    /// Their indices in the plan.
    pub rows: Vec<usize>,
    /// Marginal cost of one of them in µs.
    pub marginal: Option<Spread>,
}

/// The name of a dispatch's kind: `blk.3.ffn_down` and `blk.4.ffn_down` are of one kind.
fn kind_of(d: &Dispatch) -> String {
    let part = |part: &str| match part.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((layer, rest)) if layer.parse::<usize>().is_ok() => rest.to_string(),
        _ => part.to_string(),
    };
    d.name.split(' ').map(part).collect::<Vec<_>>().join(" ")
}

/// The kinds of a plan's dispatches, in the order in which they come first.
pub fn kinds(plan: &Plan) -> Vec<Kind> {
    let mut all: Vec<(Kind, &Option<KernelId>)> = vec![];
    for (n, d) in plan.dispatches.iter().enumerate() {
        let name = kind_of(d);
        match all.iter_mut().find(|(k, kernel)| k.name == name && **kernel == d.kernel) {
            Some((kind, _)) => kind.rows.push(n),
            None => all.push((Kind { name, rows: vec![n], marginal: None }, &d.kernel)),
        }
    }
    all.into_iter().map(|(kind, _)| kind).collect()
}

/// Measures the marginal cost of each kind; returns the seconds of whole ticks that run back to back.
pub fn measure(engine: &mut Engine, step: Step, kinds: &mut [Kind], repeat: usize) -> Result<Vec<f64>, Fail> {
    let mut batch = engine.shaped_batch(step.bind())?;
    let rows: usize = kinds.iter().map(|k| k.rows.len()).sum();
    let runs = (0..=rows).map(|end| engine.record_rows(step.key(), &|n| n < end)).collect::<Result<Vec<_>, _>>()?;
    let mut once = 0.0;
    // A recording may be kept from its second run on.
    for run in runs.iter().flat_map(|run| [run; 3]) {
        once = engine.burst(run, &mut batch, 1)?;
    }
    let n = (BURST_S / once).clamp(1.0, MOST_IN_BURST) as usize;
    let (mut ticks, mut marginal) = (vec![], vec![vec![]; kinds.len()]);
    for _ in 0..repeat {
        let times = runs.iter().map(|run| engine.burst(run, &mut batch, n)).collect::<Result<Vec<_>, _>>()?;
        for (kind, marginal) in kinds.iter().zip(&mut marginal) {
            let us: f64 = kind.rows.iter().map(|&row| 1e6 * (times[row + 1] - times[row])).sum();
            marginal.push(us / kind.rows.len() as f64);
        }
        ticks.extend(times.last());
    }
    kinds.iter_mut().zip(&marginal).for_each(|(kind, marginal)| kind.marginal = Spread::of(marginal));
    Ok(ticks)
}
