//! From a graph to a plan: apply weight layouts, fuse, lower every node, assign slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layout::Layouts;
use super::slots::{LiveRange, colour};
use crate::fuse::{Fuse, fuse_assuming};
use crate::graph::{Graph, Source, ValueId};
use crate::lowering::Lowering;
use crate::ops::Op;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::expr::Expr;
use onetrip_ir::kernel::{Arg, Cost, Launch};
use onetrip_ir::plan::{BufRef, Dispatch, Operand as Named, OperandId, Plan, Rejected};
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::{Layout, Role};

/// Lowers a graph, as its model definition wrote it, to a plan.
pub fn lower(
    graph: Graph,
    ctx: LoweringContext,
    wanted: &Fuse,
    layouts: &Layouts,
    device: &str,
) -> Result<Plan, ShapeError> {
    lower_assuming(graph, ctx, wanted, layouts, device, false)
}

/// As [`lower`]. With `assume`, rules are applied even where the device has no kernel for the nodes they make; the plan then
/// has gaps and cannot run. This shows plans for a device whose kernels are not written yet.
pub fn lower_assuming(
    mut graph: Graph,
    ctx: LoweringContext,
    wanted: &Fuse,
    layouts: &Layouts,
    device: &str,
    assume: bool,
) -> Result<Plan, ShapeError> {
    let mut nodes_by_op = BTreeMap::new();
    for n in &graph.nodes {
        *nodes_by_op.entry(n.op.ggml().to_string()).or_default() += 1;
    }
    let nodes_empty = graph.nodes.iter().filter(|n| graph.moves_nothing(n)).count() as u64;
    let mut repacked = BTreeMap::new();
    for value in &mut graph.values {
        if let Source::Weight(w) = value.source
            && let Some(layout) = layouts.get(&w)
        {
            value.sig.role = Role::Weight(*layout);
            if *layout != Layout::Stored {
                repacked.insert(w, value.sig.bytes().constant().unwrap_or(0));
            }
        }
    }
    let report = fuse_assuming(&mut graph, &ctx, wanted, assume);
    let mut planner =
        Planner { graph: &graph, ctx, device, dispatches: vec![], touches: vec![], nodes: vec![], scratches: vec![] };
    for n in 0..graph.nodes.len() {
        planner.node(n);
    }
    let mut plan = planner.finish();
    plan.nodes_by_op = nodes_by_op;
    plan.nodes_empty = nodes_empty;
    plan.fired = report.fired;
    plan.refused = report.refused;
    plan.repacked_bytes = repacked.values().sum();
    Ok(plan)
}

/// An operand of a dispatch before slots are assigned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operand {
    Value(ValueId),
    /// A shard of a weight, except the first.
    Shard(ValueId, usize),
    Scratch(usize),
    Batch,
    PendingTokens,
    ZeroedWorkspace,
}

struct Planner<'g> {
    graph: &'g Graph,
    ctx: LoweringContext,
    device: &'g str,
    dispatches: Vec<Dispatch>,
    /// Operands of each dispatch.
    touches: Vec<Vec<Operand>>,
    /// Node of each dispatch.
    nodes: Vec<usize>,
    /// Bytes of each scratch buffer.
    scratches: Vec<Expr>,
}

impl Planner<'_> {
    fn node(&mut self, n: usize) {
        let node = &self.graph.nodes[n];
        let site = self.graph.site(&self.ctx, &node.ins, &node.outs);
        let (launches, scratch, rejected): (_, _, Arc<[Rejected]>) = match node.op.lower(&site) {
            Lowering::Steps { launches, scratch, rejected } => (launches, scratch, Arc::from(rejected)),
            Lowering::Gap(why) => {
                let all = node.ins.iter().chain(&node.outs).map(|&v| Operand::Value(v)).collect();
                self.dispatch(n, Err(why), node.op.cost(&site), all, Arc::from([]));
                return;
            }
        };
        let first = self.scratches.len();
        self.scratches.extend(scratch);
        for launch in launches {
            let operands = launch.args.iter().map(|a| match *a {
                Arg::In(i) | Arg::Shard(i, 0) => Operand::Value(node.ins[i]),
                Arg::Shard(i, shard) => Operand::Shard(node.ins[i], shard),
                Arg::Out(i) => Operand::Value(node.outs[i]),
                Arg::Scratch(i) => Operand::Scratch(first + i),
                Arg::Batch => Operand::Batch,
                Arg::PendingTokens => Operand::PendingTokens,
                Arg::ZeroedWorkspace => Operand::ZeroedWorkspace,
            });
            let operands = operands.collect();
            let cost = launch.cost.clone();
            self.dispatch(n, Ok(launch), cost, operands, rejected.clone());
        }
    }

    fn dispatch(
        &mut self,
        n: usize,
        launch: Result<Launch, &'static str>,
        cost: Cost,
        operands: Vec<Operand>,
        rejected: Arc<[Rejected]>,
    ) {
        let gap = launch.as_ref().err().copied();
        let launch = launch.ok();
        let node = &self.graph.nodes[n];
        self.dispatches.push(Dispatch {
            name: node.name.clone(),
            op: node.op.name(),
            device: self.device.to_string(),
            kernel: launch.as_ref().map(|s| s.kernel.clone()),
            args: vec![],
            operands: vec![],
            grid: launch.as_ref().map_or(Expr::Const(0), |s| s.grid.clone()),
            grain: launch.as_ref().map_or(1, |s| s.grain),
            grid_syncs: launch.as_ref().map_or(0, |s| s.grid_syncs),
            code: launch.map(|s| s.code),
            cost,
            gap,
            rejected,
        });
        self.touches.push(operands);
        self.nodes.push(n);
    }

    fn finish(self) -> Plan {
        let in_slot = |o: &Operand| match *o {
            Operand::Value(v) => {
                let value = &self.graph.values[v];
                matches!(value.source, Source::Node | Source::Batch) && !value.sig.is_state()
            }
            Operand::Scratch(_) => true,
            Operand::Shard(..) | Operand::Batch | Operand::PendingTokens | Operand::ZeroedWorkspace => false,
        };
        let mut spans: BTreeMap<Operand, (usize, usize)> = BTreeMap::new();
        for (d, operands) in self.touches.iter().enumerate() {
            for o in operands.iter().filter(|o| in_slot(o)) {
                spans.entry(*o).or_insert((d, d)).1 = d;
            }
        }
        // The graph's outputs stay alive until the end. An output that no node reads is alive during its own dispatch only.
        for &v in &self.graph.outputs {
            if let Some(span) = spans.get_mut(&Operand::Value(v)) {
                span.1 = usize::MAX;
            }
        }
        // A value is alive from the first to the last dispatch that has it as an operand.
        let ranges: Vec<LiveRange> = spans
            .iter()
            .map(|(o, span)| {
                let bytes = match *o {
                    Operand::Value(v) => self.graph.values[v].sig.bytes(),
                    Operand::Scratch(s) => self.scratches[s].clone(),
                    Operand::Shard(..) | Operand::Batch | Operand::PendingTokens | Operand::ZeroedWorkspace => {
                        Expr::Const(0)
                    }
                };
                LiveRange { bytes, span: *span }
            })
            .collect();
        let (of, slots) = colour(&ranges);
        let slot: BTreeMap<Operand, usize> = spans.keys().copied().zip(of).collect();
        let mut dispatches = self.dispatches;
        let mut made: BTreeMap<Operand, usize> = BTreeMap::new();
        let is_sample = |node: usize| matches!(self.graph.nodes[node].op, Op::Sample(_));
        let makers: BTreeMap<ValueId, usize> =
            self.graph.nodes.iter().enumerate().flat_map(|(n, node)| node.outs.iter().map(move |&v| (v, n))).collect();
        let shard = |v: ValueId, i: usize| {
            let sig = &self.graph.values[v].sig;
            sig.shards(self.ctx.target.binding_bytes()).get(i).cloned().unwrap_or(sig.clone())
        };
        for (n, (d, operands)) in dispatches.iter_mut().zip(&self.touches).enumerate() {
            let named = operands.iter().map(|o| {
                let first = *made.entry(*o).or_insert(n);
                let of_weight = |v, i| {
                    let sig = shard(v, i);
                    Named { what: OperandId::Value(v), bytes: sig.bytes(), sig: Some(sig), is_written: false }
                };
                match *o {
                    Operand::Value(v) if self.graph.values[v].sig.is_weight() => of_weight(v, 0),
                    Operand::Shard(v, i) => of_weight(v, i),
                    Operand::Value(v) => Named {
                        what: OperandId::Value(v),
                        sig: Some(self.graph.values[v].sig.clone()),
                        bytes: self.graph.values[v].sig.bytes(),
                        is_written: makers.get(&v) == Some(&self.nodes[n]),
                    },
                    Operand::Scratch(s) => Named {
                        what: OperandId::Scratch(s),
                        sig: None,
                        bytes: self.scratches[s].clone(),
                        is_written: first == n,
                    },
                    Operand::Batch => Named::outside(OperandId::Batch, Expr::Const(0), false),
                    Operand::ZeroedWorkspace => Named::outside(OperandId::ZeroedWorkspace, Expr::Const(0), false),
                    Operand::PendingTokens => {
                        Named::outside(OperandId::PendingTokens, Expr::S * 4usize, is_sample(self.nodes[n]))
                    }
                }
            });
            d.operands = named.collect();
            d.args = operands
                .iter()
                .map(|o| match *o {
                    Operand::Value(v) | Operand::Shard(v, _) => match self.graph.values[v].source {
                        Source::Weight(w) => BufRef::Weight(w + if let Operand::Shard(_, i) = *o { i } else { 0 }),
                        _ => match self.graph.state_of(v) {
                            Some(s) => BufRef::State(s),
                            None => BufRef::Slot(slot[&Operand::Value(v)]),
                        },
                    },
                    Operand::Scratch(_) => BufRef::Slot(slot[o]),
                    Operand::Batch => BufRef::Batch,
                    Operand::PendingTokens => BufRef::PendingTokens,
                    Operand::ZeroedWorkspace => BufRef::ZeroedWorkspace,
                })
                .collect();
        }
        let outputs = self.graph.outputs.iter().map(|&v| (slot[&Operand::Value(v)], self.graph.values[v].sig.width));
        Plan {
            ctx: self.ctx,
            slots,
            outputs: outputs.collect(),
            ropes: self.graph.ropes.clone(),
            dispatches,
            nodes_by_op: BTreeMap::new(),
            nodes_empty: 0,
            fired: vec![],
            refused: vec![],
            repacked_bytes: 0,
        }
    }
}
