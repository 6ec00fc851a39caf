//! Predicts the savings of merging two dispatches into one kernel, or says why they cannot be merged.

use super::price::{Pricer, working_set};
use onetrip_ir::expr::Bind;
use onetrip_ir::kernel::Cost;
use onetrip_ir::plan::{Dispatch, OperandId, Plan};

/// The savings of a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// Bytes that need not be read again.
    pub read_saved: u64,
    /// Bytes that need not be written.
    pub written_saved: u64,
    /// Launches saved.
    pub launches_saved: u64,
    /// The time of both dispatches as they are, in µs; `None` without a profile.
    pub before: Option<f64>,
    /// The time of the merged dispatch, in µs; `None` without a profile.
    pub after: Option<f64>,
}

/// Why two dispatches cannot be one kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// A dispatch does not exist: its index, and the number of dispatches in the plan.
    #[error("there is no dispatch {0}: the plan has {1}, from 0 on")]
    Missing(usize, usize),
    /// The first index is not smaller than the second.
    #[error("give two different dispatches, the earlier first: `merge:{0},{1}` is neither")]
    Order(usize, usize),
    /// The dispatches run on different devices: index and device of each.
    #[error("dispatch {0} runs on {1} and dispatch {2} on {3}: a kernel runs on one device")]
    Devices(usize, String, usize, String),
    /// A dispatch in between depends on the first, and the second depends on it.
    #[error(
        "dispatch {b} needs {value} of dispatch {between} ({name}), which needs the result of dispatch {a}: merging \
         {a} and {b} would put {between} before and after it"
    )]
    Between {
        /// Index of the first dispatch.
        a: usize,
        /// Index of the second dispatch.
        b: usize,
        /// Index of the dispatch in between.
        between: usize,
        /// Name of the dispatch in between.
        name: String,
        /// The value of the dispatch in between that the second reads, in words.
        value: String,
    },
    /// Every item of the second needs results of all items of the first.
    #[error(
        "dispatch {b} ({b_name}) needs whole rows of what dispatch {a} ({a_name}) makes piece by piece: every worker \
         would have to wait for all others in between, which is what the end of a dispatch is"
    )]
    WholeRows {
        /// Index of the first dispatch.
        a: usize,
        /// Name of the first dispatch.
        a_name: String,
        /// Index of the second dispatch.
        b: usize,
        /// Name of the second dispatch.
        b_name: String,
    },
}

/// The operands that `earlier` writes and `later` reads.
fn taken(earlier: &Dispatch, later: &Dispatch) -> Vec<OperandId> {
    let made = earlier.operands.iter().filter(|o| o.is_written).map(|o| o.what);
    made.filter(|m| later.operands.iter().any(|o| o.what == *m && !o.is_written)).collect()
}

/// Whether an item of the dispatch computes only some columns or heads of a row.
fn makes_parts_of_rows(d: &Dispatch) -> bool {
    matches!(d.op, "matmul" | "attention") && !d.runs("quantize")
}

/// Whether an item of the dispatch reads whole rows of this operand.
fn needs_whole_rows(d: &Dispatch, what: OperandId) -> bool {
    let is_first = d.operands.first().is_some_and(|o| o.what == what);
    match d.op {
        "matmul" => is_first || matches!(what, OperandId::Scratch(_)),
        // A norm that also writes the sum of two inputs needs whole rows of both.
        "rms_norm" => is_first || d.operands.iter().filter(|o| o.is_written).count() > 1,
        "sample" | "gather_rows" => true,
        _ => false,
    }
}

/// Prices one kernel in the place of dispatches `a` and `b` of a plan. Without a `pricer` only bytes are counted.
pub fn merge(plan: &Plan, bind: Bind, a: usize, b: usize, pricer: Option<&Pricer>) -> Result<Merge, MergeError> {
    let all = &plan.dispatches;
    if a >= b {
        return Err(MergeError::Order(a, b));
    }
    if b >= all.len() {
        return Err(MergeError::Missing(b, all.len()));
    }
    let (first, second) = (&all[a], &all[b]);
    if first.device != second.device {
        return Err(MergeError::Devices(a, first.device.clone(), b, second.device.clone()));
    }
    // The second must not depend on a dispatch in between that depends on the first, directly or not.
    let mut dependent = vec![a];
    for between in a + 1..b {
        if !dependent.iter().any(|&d| !taken(&all[d], &all[between]).is_empty()) {
            continue;
        }
        dependent.push(between);
        if !taken(&all[between], second).is_empty() {
            let name = all[between].name.clone();
            return Err(MergeError::Between { a, b, between, value: "the result".into(), name });
        }
    }
    let shared = taken(first, second);
    if makes_parts_of_rows(first) && shared.iter().any(|&what| needs_whole_rows(second, what)) {
        let (a_name, b_name) = (first.name.clone(), second.name.clone());
        return Err(MergeError::WholeRows { a, a_name, b, b_name });
    }
    let bytes = |d: &Dispatch, what: OperandId| {
        d.operands.iter().find(|o| o.what == what).map_or(0, |o| {
            match o.sig.as_ref().is_some_and(|s| s.cache().is_some()) {
                // Of a KV cache only this step's positions pass from one to the other: the bytes that the first wrote.
                true => first.cost.written.eval(bind) / shared.len().max(1) as u64,
                false => o.bytes.eval(bind),
            }
        })
    };
    let mut saved = Merge { read_saved: 0, written_saved: 0, launches_saved: 1, before: None, after: None };
    for &what in &shared {
        saved.read_saved += bytes(second, what);
        let is_state =
            first.operands.iter().any(|o| o.what == what && o.sig.as_ref().is_some_and(|s| s.cache().is_some()));
        let read_later =
            all.iter().enumerate().any(|(n, d)| n != a && n != b && d.operands.iter().any(|o| o.what == what));
        let slot = first.operands.iter().zip(&first.args).find(|(o, _)| o.what == what).map(|(_, arg)| *arg);
        let is_output =
            b + 1 == all.len() && plan.outputs.iter().any(|(s, _)| slot == Some(onetrip_ir::plan::BufRef::Slot(*s)));
        if !is_state && !read_later && !is_output {
            saved.written_saved += bytes(first, what);
        }
    }
    // An input of both dispatches is read once instead of twice.
    for o in second.operands.iter().filter(|o| !o.is_written && !shared.contains(&o.what)) {
        let is_plain = o.sig.as_ref().is_none_or(|s| s.cache().is_none());
        if is_plain && first.operands.iter().any(|f| f.what == o.what && !f.is_written) {
            saved.read_saved += o.bytes.eval(bind);
        }
    }
    if let Some(p) = pricer {
        let set = working_set(plan, bind);
        let both = p.dispatch(first, bind, set) + p.dispatch(second, bind, set);
        // The merge saves one launch, and the time of the saved bytes at the bandwidth of a working set of their size, because
        // bytes that were just written are still in a cache.
        let bytes = (saved.read_saved + saved.written_saved) as f64;
        let hot = 1e6 * bytes / p.bandwidth(bytes);
        let launch = p.launch() + p.kernel_switch();
        (saved.before, saved.after) = (Some(both), Some((both - launch - hot).max(launch)));
    }
    Ok(saved)
}

/// The cost of the merged dispatch (bytes read, bytes written, flops): the sum of both, less the saved bytes.
pub fn merged_cost(a: &Cost, b: &Cost, bind: Bind, saved: &Merge) -> (u64, u64, u64) {
    let sum = |x: &onetrip_ir::expr::Expr, y: &onetrip_ir::expr::Expr| x.eval(bind).saturating_add(y.eval(bind));
    (
        sum(&a.read, &b.read).saturating_sub(saved.read_saved),
        sum(&a.written, &b.written).saturating_sub(saved.written_saved),
        sum(&a.flops, &b.flops),
    )
}
