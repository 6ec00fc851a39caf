//! The plan: the ordered list of dispatches of one step. The same list is explained, counted, run, profiled and compared, so
//! that a printed plan is the plan that runs.

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

/// A place in the graph where a rule matched, but the device has no kernel for the node that the rule would make there.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Name of the rule.
    pub rule: &'static str,
    /// Name of the node that the rule would have made.
    pub at: String,
    /// The device's reason, as a sentence.
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

/// Where an operand of a dispatch lies.
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

/// An operand of a dispatch, apart from where it lies ([`BufRef`]): the cost model reads it to price traffic between dispatches
/// and to ask which dispatches could be merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Which operand it is.
    pub what: OperandId,
    /// Shape and type of the value; none for an operand that is no value of the graph.
    pub sig: Option<Sig>,
    /// Bytes of the operand. They mean nothing for a state, whose signature has zero rows: the dispatch's cost counts its
    /// traffic.
    pub bytes: Expr,
    /// True if this dispatch produces the operand; for scratch, if it is the first dispatch that touches the buffer.
    pub is_written: bool,
}

impl Operand {
    /// An operand that is no value of the graph, and so has no signature.
    pub fn outside(what: OperandId, bytes: Expr, is_written: bool) -> Operand {
        Operand { what, sig: None, bytes, is_written }
    }
}

/// Identity of an operand within its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperandId {
    /// A value, by its id in the graph that was lowered; each version of a state is a value of its own.
    Value(usize),
    /// A scratch buffer that the launches of one op share, by its number in the plan.
    Scratch(usize),
    /// The words of the step batch.
    Batch,
    /// The last sampled id of each sequence.
    PendingTokens,
    /// Words that are zero between dispatches.
    ZeroedWorkspace,
}

/// One dispatch of a plan: a kernel launch, a fork–join on the CPU, or a library call.
#[derive(Clone)]
pub struct Dispatch {
    /// The nodes of the model definition that it computes, by their names.
    pub name: String,
    /// Name of the op whose lowering made it.
    pub op: &'static str,
    /// Name of the device it runs on.
    pub device: String,
    /// Kernel and variant; none for a gap.
    pub kernel: Option<KernelId>,
    /// Code of the kernel; none for a gap.
    pub code: Option<Code>,
    /// Where each operand lies, in the order of the kernel's parameters.
    pub args: Vec<BufRef>,
    /// What each operand is, in the same order.
    pub operands: Vec<Operand>,
    /// Number of work items (CPU), thread blocks (CUDA) or workgroups (WGSL).
    pub grid: Expr,
    /// Fewest work items that a CPU worker takes at a time.
    pub grain: usize,
    /// Bytes that it reads and writes, and its operations.
    pub cost: Cost,
    /// Grid syncs: how often all blocks or workers wait for each other inside the kernel.
    pub grid_syncs: u32,
    /// The reason why the device has no kernel, where this is a gap.
    pub gap: Option<&'static str>,
    /// The faster kernels that were considered first, in order of preference, and why each was not taken.
    pub rejected: Arc<[Rejected]>,
}

/// The ordered list of dispatches of one step.
#[derive(Clone)]
pub struct Plan {
    /// The buckets, precision and target that it was lowered for.
    pub ctx: LoweringContext,
    /// The dispatches, in the order in which they run.
    pub dispatches: Vec<Dispatch>,
    /// Bytes of each slot.
    pub slots: Vec<Expr>,
    /// Slots of the graph's outputs, with the elements in a row of each.
    pub outputs: Vec<(usize, usize)>,
    /// Rotary tables that the batch must hold.
    pub ropes: Vec<RopeSpec>,
    /// Number of nodes of the graph before any rule fired, by ggml's names of ops.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Number of nodes whose activations have zero rows in every batch: such a node moves and computes nothing.
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
    /// Nodes of the model definition's graph.
    pub nodes: u64,
    /// Nodes that compute or move elements: all but [`Plan::nodes_empty`].
    pub nodes_nonempty: u64,
    /// Nodes by ggml's names of ops.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Dispatches of the plan.
    pub dispatches: u64,
    /// Dispatches by op.
    pub dispatches_by_op: BTreeMap<String, u64>,
    /// Grid syncs inside kernels.
    pub grid_syncs: u64,
    /// Barriers between dispatches ([`Plan::barriers`]).
    pub barriers: u64,
    /// Submissions to a device, by the commit policy that was asked for.
    pub commits: u64,
    /// Waits of the host for a device: one for a plan with outputs, whatever the policy.
    pub waits: u64,
    /// Copies between devices: 0 as long as a plan has one device.
    pub copies: u64,
    /// Dispatches whose code is not of the plan's target.
    pub off_device: u64,
    /// Dispatches without a kernel.
    pub gaps: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Floating-point or integer operations, two per multiply-add.
    pub flops: u64,
    /// Bytes of weights held in a second layout beside the file's.
    pub repacked_bytes: u64,
}

impl Dispatch {
    /// The kernel's printed name; empty where there is none.
    pub fn kernel_name(&self) -> String {
        self.kernel.as_ref().map_or_else(String::new, KernelId::to_string)
    }

    /// True if the kernel's name within its op is `name`.
    pub fn runs(&self, name: &str) -> bool {
        self.kernel.as_ref().is_some_and(|k| k.name == name)
    }
}

impl Plan {
    /// The counts of a run in one submission ([`Commit::Tick`]), with sizes for the batch `bind`.
    pub fn ledger(&self, bind: Bind) -> Ledger {
        self.ledger_by(bind, Commit::Tick)
    }

    /// The counts of a run whose dispatches are submitted by the policy `commit`, with sizes for the batch `bind`.
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

    /// True if the dispatch's code is of the plan's target. A gap counts as on the device, since it runs nowhere else.
    fn is_on_device(&self, d: &Dispatch) -> bool {
        match (&d.code, self.ctx.target) {
            (None, _) => true,
            (Some(code), Target::Cpu(_)) => matches!(code, Code::Cpu(_)),
            (Some(code), Target::Cuda(_)) => matches!(code, Code::Text(_) | Code::Library(_)),
            (Some(code), Target::Wgsl(_)) => matches!(code, Code::Text(_)),
        }
    }

    /// Dispatches without a kernel, with their numbers: a plan that has any cannot run.
    pub fn gaps(&self) -> impl Iterator<Item = (usize, &Dispatch)> {
        self.dispatches.iter().enumerate().filter(|(_, d)| d.gap.is_some())
    }

    /// Bytes of each slot for the batch `bind`.
    pub fn slot_bytes(&self, bind: Bind) -> Vec<u64> {
        self.slots.iter().map(|e| e.eval(bind)).collect()
    }
}
