//! The plan: the ordered list of dispatches. The same list is explained, counted, run, profiled and compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::batch::RopeSpec;
use crate::commit::Commit;
use crate::context::LoweringContext;
use crate::expr::{Bind, Expr};
use crate::kernel::{Code, Cost};
use crate::kernel_id::KernelId;
use crate::target::Target;
use crate::tensor::Sig;

mod barriers;
pub mod text;

/// A place where a rule fitted but the device has no kernel for what it would make.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The rule.
    pub rule: &'static str,
    /// The node it would have made.
    pub at: String,
    /// The device's reason.
    pub why: String,
}

/// A kernel that was considered before the one that a dispatch runs, and why it was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The kernel, by the name of its file.
    pub kernel: &'static str,
    /// Why it does not serve this dispatch.
    pub reason: &'static str,
}

/// Operand of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufRef {
    /// A weight, by its index in the model's list, or a shard of one: shards follow one another in that list.
    Weight(usize),
    /// A state, by its index in the engine's list.
    State(usize),
    /// A slot of the plan.
    Slot(usize),
    /// The words of the step batch.
    Batch,
    /// The last sampled id of each sequence.
    PendingTokens,
    /// Words that are zero between dispatches.
    ZeroedWorkspace,
}

/// What an operand of a dispatch is, apart from where it lies: predictions and questions about merging read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value, by its id in the graph that was lowered, or the scratch buffer, by its number.
    pub what: OperandId,
    /// Its shape and type; none for scratch.
    pub sig: Option<Sig>,
    /// Its bytes; of a state, those of one page row of zero rows: see the cost of the dispatch instead.
    pub bytes: Expr,
    /// This dispatch makes it (of scratch: is the first to touch it).
    pub is_written: bool,
}

impl Operand {
    /// An operand that is no value of the graph.
    pub fn outside(what: OperandId, bytes: Expr, is_written: bool) -> Operand {
        Operand { what, sig: None, bytes, is_written }
    }
}

/// Identity of an operand within its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperandId {
    /// A value of the graph; each version of a state is a value of its own.
    Value(usize),
    /// Scratch of one op's steps.
    Scratch(usize),
    /// The words of the step batch.
    Batch,
    /// The last sampled id of each sequence.
    PendingTokens,
    /// Words that are zero between dispatches.
    ZeroedWorkspace,
}

/// One row of a plan: one launch.
#[derive(Clone)]
pub struct Dispatch {
    /// Name: the parts of the model definition it computes.
    pub name: String,
    /// Op it came from.
    pub op: &'static str,
    /// Device it runs on.
    pub device: String,
    /// Kernel and variant; none for a gap.
    pub kernel: Option<KernelId>,
    /// Its code; none for a gap.
    pub code: Option<Code>,
    /// Operands: where they lie.
    pub args: Vec<BufRef>,
    /// Operands: what they are, in the same order.
    pub operands: Vec<Operand>,
    /// Work items.
    pub grid: Expr,
    /// Smallest number of items for one worker at a time.
    pub grain: usize,
    /// What it moves and computes.
    pub cost: Cost,
    /// Waits of all workers inside the kernel.
    pub grid_syncs: u32,
    /// Why there is no kernel.
    pub gap: Option<&'static str>,
    /// The faster kernels that were considered first, in order of preference, and why each was not taken.
    pub rejected: Arc<[Rejected]>,
}

/// The ordered list of dispatches of one step.
#[derive(Clone)]
pub struct Plan {
    /// For whom it is.
    pub ctx: LoweringContext,
    /// The rows.
    pub dispatches: Vec<Dispatch>,
    /// Bytes of each slot.
    pub slots: Vec<Expr>,
    /// Slots of the graph's outputs, with the elements in a row of each.
    pub outputs: Vec<(usize, usize)>,
    /// Rotary tables that the batch must hold.
    pub ropes: Vec<RopeSpec>,
    /// Nodes of the graph before any rule, by ggml's names.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Nodes that make and move no element in any batch.
    pub nodes_empty: u64,
    /// Rules and how often each fired.
    pub fired: Vec<(&'static str, usize)>,
    /// Rules refused by the device.
    pub refused: Vec<Refusal>,
    /// Bytes of weights held in a second layout beside the file's.
    pub repacked_bytes: u64,
}

/// Counts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Ops of the model definition.
    pub nodes: u64,
    /// Those that do something.
    pub nodes_nonempty: u64,
    /// Ops by ggml's names.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Dispatches of the plan.
    pub dispatches: u64,
    /// Rows by op.
    pub dispatches_by_op: BTreeMap<String, u64>,
    /// Waits of all workers inside kernels.
    pub grid_syncs: u64,
    /// Waits between dispatches ([`Plan::barriers`]).
    pub barriers: u64,
    /// Submissions to a device, by the commit policy that was asked for.
    pub commits: u64,
    /// Waits of the host for a device: one for a plan with outputs, whatever the policy.
    pub waits: u64,
    /// Copies between devices: 0 as long as a plan has one device.
    pub copies: u64,
    /// Dispatches whose code is not of the plan's target.
    pub off_device: u64,
    /// Rows without a kernel.
    pub gaps: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Operations.
    pub flops: u64,
    /// Bytes of weights held in a second layout.
    pub repacked_bytes: u64,
}

impl Dispatch {
    /// The kernel's printed name; empty where there is none.
    pub fn kernel_name(&self) -> String {
        self.kernel.as_ref().map_or_else(String::new, KernelId::to_string)
    }

    /// True if its kernel is the one of this name of its op.
    pub fn runs(&self, name: &str) -> bool {
        self.kernel.as_ref().is_some_and(|k| k.name == name)
    }
}

impl Plan {
    /// The counts of a run that is one submission, with sizes for a batch of `bind`.
    pub fn ledger(&self, bind: Bind) -> Ledger {
        self.ledger_by(bind, Commit::Tick)
    }

    /// The counts of a run whose dispatches are submitted by this policy, with sizes for a batch of `bind`.
    pub fn ledger_by(&self, bind: Bind, commit: Commit) -> Ledger {
        let nodes: u64 = self.nodes_by_op.values().sum();
        let mut l = Ledger {
            nodes,
            nodes_nonempty: nodes - self.nodes_empty,
            nodes_by_op: self.nodes_by_op.clone(),
            dispatches: self.dispatches.len() as u64,
            barriers: self.barriers(),
            commits: commit.submissions(self.dispatches.len()) as u64,
            waits: u64::from(!self.outputs.is_empty()),
            repacked_bytes: self.repacked_bytes,
            ..Default::default()
        };
        for d in &self.dispatches {
            *l.dispatches_by_op.entry(d.op.into()).or_default() += 1;
            l.grid_syncs += d.grid_syncs as u64;
            l.gaps += d.gap.is_some() as u64;
            l.off_device += u64::from(!self.is_on_device(d));
            l.bytes_read += d.cost.read.eval(bind);
            l.bytes_written += d.cost.written.eval(bind);
            l.flops += d.cost.flops.eval(bind);
        }
        l
    }

    /// The code of the dispatch is of the plan's target; one without a kernel is nowhere else either.
    fn is_on_device(&self, d: &Dispatch) -> bool {
        match (&d.code, self.ctx.target) {
            (None, _) => true,
            (Some(code), Target::Cpu(_)) => matches!(code, Code::Cpu(_)),
            (Some(code), Target::Cuda(_)) => matches!(code, Code::Text(_) | Code::Library(_)),
            (Some(code), Target::Wgsl(_)) => matches!(code, Code::Text(_)),
        }
    }

    /// Rows without a kernel: such a plan cannot run.
    pub fn gaps(&self) -> impl Iterator<Item = (usize, &Dispatch)> {
        self.dispatches.iter().enumerate().filter(|(_, d)| d.gap.is_some())
    }

    /// Bytes of each slot for a batch of `bind`.
    pub fn slot_bytes(&self, bind: Bind) -> Vec<u64> {
        self.slots.iter().map(|e| e.eval(bind)).collect()
    }
}
