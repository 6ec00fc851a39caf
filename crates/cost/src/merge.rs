//! What one kernel in the place of two dispatches would save, and what forbids it.

use super::price::{Pricer, working_set};
use onetrip_ir::expr::Bind;
use onetrip_ir::kernel::Cost;
use onetrip_ir::plan::{Dispatch, OperandId, Plan};

/// What a merge would save.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// Bytes that need not be read again.
    pub read_saved: u64,
    /// Bytes that need not be written.
    pub written_saved: u64,
    /// Launches saved.
    pub launches_saved: u64,
    /// Both dispatches as they are, in µs; without a profile none of the three times is known.
    pub before: Option<f64>,
    /// The merged one, in µs.
    pub after: Option<f64>,
}

/// Why two dispatches cannot be one kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// No such row.
    #[error("there is no dispatch {0}: the plan has {1}, from 0 on")]
    Missing(usize, usize),
    /// Not one behind the other.
    #[error("give two different dispatches, the earlier first: `merge:{0},{1}` is neither")]
    Order(usize, usize),
    /// Other devices.
    #[error("dispatch {0} runs on {1} and dispatch {2} on {3}: a kernel runs on one device")]
    Devices(usize, String, usize, String),
    /// Something in between needs the first and is needed by the second.
    #[error(
        "dispatch {b} needs {value} of dispatch {between} ({name}), which needs the result of dispatch {a}: merging \
         {a} and {b} would put {between} before and after it"
    )]
    Between {
        /// The first.
        a: usize,
        /// The second.
        b: usize,
        /// The one in between.
        between: usize,
        /// Its name.
        name: String,
        /// What the second needs of it.
        value: String,
    },
    /// Every item of the second needs what all items of the first make.
    #[error(
        "dispatch {b} ({b_name}) needs whole rows of what dispatch {a} ({a_name}) makes piece by piece: every worker \
         would have to wait for all others in between, which is what the end of a dispatch is"
    )]
    WholeRows {
        /// The first.
        a: usize,
        /// Its name.
        a_name: String,
        /// The second.
        b: usize,
        /// Its name.
        b_name: String,
    },
}

/// Operands that `later` takes from `earlier`.
fn taken(earlier: &Dispatch, later: &Dispatch) -> Vec<OperandId> {
    let made = earlier.operands.iter().filter(|o| o.is_written).map(|o| o.what);
    made.filter(|m| later.operands.iter().any(|o| o.what == *m && !o.is_written)).collect()
}

/// The items of a dispatch make parts of a row: columns or heads.
fn makes_parts_of_rows(d: &Dispatch) -> bool {
    matches!(d.op, "matmul" | "attention") && !d.runs("quantize")
}

/// An item of the dispatch reads whole rows of this operand.
fn needs_whole_rows(d: &Dispatch, what: OperandId) -> bool {
    let is_first = d.operands.first().is_some_and(|o| o.what == what);
    match d.op {
        "matmul" => is_first || matches!(what, OperandId::Scratch(_)),
        // A norm of a sum needs both.
        "rms_norm" => is_first || d.operands.iter().filter(|o| o.is_written).count() > 1,
        "sample" | "gather_rows" => true,
        _ => false,
    }
}

/// Looks at one kernel for dispatches `a` and `b` of a plan.
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
    // What lies in between and depends on the first, directly or not, must not be needed by the second.
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
                // Of a state only the step's own positions pass from one to the other: what the first wrote.
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
    // Inputs of both are read once.
    for o in second.operands.iter().filter(|o| !o.is_written && !shared.contains(&o.what)) {
        let is_plain = o.sig.as_ref().is_none_or(|s| s.cache().is_none());
        if is_plain && first.operands.iter().any(|f| f.what == o.what && !f.is_written) {
            saved.read_saved += o.bytes.eval(bind);
        }
    }
    if let Some(p) = pricer {
        let set = working_set(plan, bind);
        let both = p.dispatch(first, bind, set) + p.dispatch(second, bind, set);
        // One launch less, and the intermediate's bytes at the rate of what was just written: they are in a cache.
        let bytes = (saved.read_saved + saved.written_saved) as f64;
        let hot = 1e6 * bytes / p.bandwidth(bytes);
        let launch = p.launch() + p.kernel_switch();
        (saved.before, saved.after) = (Some(both), Some((both - launch - hot).max(launch)));
    }
    Ok(saved)
}

/// The cost of the merged dispatch: the sum, less what is saved.
pub fn merged_cost(a: &Cost, b: &Cost, bind: Bind, saved: &Merge) -> (u64, u64, u64) {
    let sum = |x: &onetrip_ir::expr::Expr, y: &onetrip_ir::expr::Expr| x.eval(bind).saturating_add(y.eval(bind));
    (
        sum(&a.read, &b.read).saturating_sub(saved.read_saved),
        sum(&a.written, &b.written).saturating_sub(saved.written_saved),
        sum(&a.flops, &b.flops),
    )
}
