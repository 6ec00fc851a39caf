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

/// A site where a rule matched, but the device has no kernel for the op that the rule would make.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Name of the rule.
    pub rule: &'static str,
    /// Name of the node that the rule would have made.
    pub at: String,
    /// Why the device has no kernel for that op.
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
    /// A weight or a shard of one, by index in the model's list of weights, in which the shards of a weight are adjacent.
    Weight(usize),
    /// A state, by its index in the engine's list.
    State(usize),
    /// A slot of the plan.
    Slot(usize),
    /// The words of the step batch ([`crate::batch::StepBatch::words`]).
    Batch,
    /// The last sampled id of each sequence.
    PendingTokens,
    /// The zeroed workspace: words that are zero between dispatches (split-K semaphores and partials).
    ZeroedWorkspace,
}

/// Identity, signature and size of a dispatch's operand, apart from where it lies in memory. Predictions and the question
/// whether dispatches could be merged need these.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Which operand it is.
    pub what: OperandId,
    /// Shape and element type; none for scratch.
    pub sig: Option<Sig>,
    /// Size in bytes. A state's signature has no rows, so its size is zero here; [`Dispatch::cost`] has the bytes it moves.
    pub bytes: Expr,
    /// This dispatch makes the value; for scratch: this dispatch is the first to touch it.
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
    /// Scratch memory that the launches of one op share.
    Scratch(usize),
    /// The words of the step batch ([`crate::batch::StepBatch::words`]).
    Batch,
    /// The last sampled id of each sequence.
    PendingTokens,
    /// The zeroed workspace: words that are zero between dispatches (split-K semaphores and partials).
    ZeroedWorkspace,
}

/// One entry of a plan: one kernel launch, fork–join on the CPU, or library call.
#[derive(Clone)]
pub struct Dispatch {
    /// Name: the nodes of the model definition that it computes.
    pub name: String,
    /// Name of the op that was lowered to it.
    pub op: &'static str,
    /// Name of the device that it runs on.
    pub device: String,
    /// Kernel and variant; none for a gap.
    pub kernel: Option<KernelId>,
    /// CPU function, kernel text or library call; none for a gap.
    pub code: Option<Code>,
    /// The operands' memory, in the order in which the kernel binds them.
    pub args: Vec<BufRef>,
    /// The operands' identities and shapes, in the same order as `args`.
    pub operands: Vec<Operand>,
    /// Work items: on a GPU the thread blocks or workgroups, on the CPU the items that workers take.
    pub grid: Expr,
    /// The fewest items that a CPU worker takes at a time.
    pub grain: usize,
    /// Bytes moved and operations computed.
    pub cost: Cost,
    /// Grid-wide synchronizations inside the kernel.
    pub grid_syncs: u32,
    /// Why there is no kernel; none where there is one.
    pub gap: Option<&'static str>,
    /// The faster kernels that were considered first, in order of preference, and why each was not taken.
    pub rejected: Arc<[Rejected]>,
}

/// The ordered list of dispatches of one step.
#[derive(Clone)]
pub struct Plan {
    /// The batch shape, precision and target that the plan was lowered for.
    pub ctx: LoweringContext,
    /// The dispatches in the order in which they run.
    pub dispatches: Vec<Dispatch>,
    /// Size in bytes of each slot.
    pub slots: Vec<Expr>,
    /// For each output of the graph its slot and the number of elements in a row.
    pub outputs: Vec<(usize, usize)>,
    /// Rotary tables that the batch must hold.
    pub ropes: Vec<RopeSpec>,
    /// Number of nodes of the graph before any rule fired, by ggml's names of ops.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Nodes that neither compute nor move an element in any batch, such as a reshape.
    pub nodes_empty: u64,
    /// Each rule's name and how often it fired.
    pub fired: Vec<(&'static str, usize)>,
    /// Sites at which a rule was refused because the device has no kernel.
    pub refused: Vec<Refusal>,
    /// Bytes of weights that are held in another layout besides the file's.
    pub repacked_bytes: u64,
}

/// Counts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Nodes of the model definition's graph.
    pub nodes: u64,
    /// Ops that compute or move at least one element.
    pub nodes_nonempty: u64,
    /// Ops of the model definition by ggml's op names.
    pub nodes_by_op: BTreeMap<String, u64>,
    /// Dispatches of the plan.
    pub dispatches: u64,
    /// Dispatches by the op that they were lowered from.
    pub dispatches_by_op: BTreeMap<String, u64>,
    /// Grid-wide synchronizations inside kernels.
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
    /// Arithmetic operations, two per multiply-add.
    pub flops: u64,
    /// Bytes of weights that are held in another layout besides the file's.
    pub repacked_bytes: u64,
}

impl Dispatch {
    /// The printed name of the kernel; empty for a gap.
    pub fn kernel_name(&self) -> String {
        self.kernel.as_ref().map_or_else(String::new, KernelId::to_string)
    }

    /// True if the dispatch runs the kernel of this name.
    pub fn runs(&self, name: &str) -> bool {
        self.kernel.as_ref().is_some_and(|k| k.name == name)
    }
}

impl Plan {
    /// The counts of a run that is one submission, with the sizes of a batch of `bind`.
    pub fn ledger(&self, bind: Bind) -> Ledger {
        self.ledger_by(bind, Commit::Tick)
    }

    /// The counts of a run whose dispatches are submitted by this policy, with the sizes of a batch of `bind`.
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

    /// True if the dispatch's code is of the plan's target. A gap counts as on the device: it runs nowhere else.
    fn is_on_device(&self, d: &Dispatch) -> bool {
        match (&d.code, self.ctx.target) {
            (None, _) => true,
            (Some(code), Target::Cpu(_)) => matches!(code, Code::Cpu(_)),
            (Some(code), Target::Cuda(_)) => matches!(code, Code::Text(_) | Code::Library(_)),
            (Some(code), Target::Wgsl(_)) => matches!(code, Code::Text(_)),
        }
    }

    /// Dispatches without a kernel, with their indices. A plan that has any cannot run.
    pub fn gaps(&self) -> impl Iterator<Item = (usize, &Dispatch)> {
        self.dispatches.iter().enumerate().filter(|(_, d)| d.gap.is_some())
    }

    /// Size in bytes of each slot for a batch of `bind`.
    pub fn slot_bytes(&self, bind: Bind) -> Vec<u64> {
        self.slots.iter().map(|e| e.eval(bind)).collect()
    }
}
