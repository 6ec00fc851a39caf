//! The graph: ops in the order of the model's mathematics, as its model definition writes them. Rules rewrite it in place.

use crate::lowering::OpSite;
use crate::ops::Op;
use onetrip_ir::batch::RopeSpec;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::tensor::ShapeError;
use onetrip_ir::tensor::Sig;

/// Index of a value in its graph.
pub type ValueId = usize;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A weight of the model, by its index in the model's list of weights.
    Weight(usize),
    /// A state of the engine, by its index, as it is before the step.
    State(usize),
    /// Given with the batch, in a recorded listing of another engine: an attention mask, or a value without rows.
    Batch,
    /// An output of a node.
    Node,
}

/// A value: weight, state (each write makes a new version), or activation.
#[derive(Clone, Debug)]
pub struct Value {
    /// Name of the weight or state; of the node for activations.
    pub name: String,
    /// Shape and type.
    pub sig: Sig,
    /// Whether it is a weight, a state, given with the batch, or made by a node.
    pub source: Source,
}

/// One op of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name in the model definition, such as `blk.3.attn_norm`; a fused node has the joined names of the nodes it replaces.
    pub name: String,
    /// The op.
    pub op: Op,
    /// Inputs.
    pub ins: Vec<ValueId>,
    /// Outputs.
    pub outs: Vec<ValueId>,
}

/// Ops in order, with their values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All values ever made; rules leave unused ones behind.
    pub values: Vec<Value>,
    /// Nodes in order of execution.
    pub nodes: Vec<Node>,
    /// Values that must exist at the end: logits, sampled tokens.
    pub outputs: Vec<ValueId>,
    /// Rotary tables that the ops name by index.
    pub ropes: Vec<RopeSpec>,
}

impl Graph {
    /// Adds a weight or state.
    pub fn source(&mut self, name: impl Into<String>, sig: Sig, source: Source) -> ValueId {
        self.values.push(Value { name: name.into(), sig, source });
        self.values.len() - 1
    }

    /// Appends an op and returns its outputs.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        op: impl Into<Op>,
        ins: &[ValueId],
    ) -> Result<Vec<ValueId>, ShapeError> {
        let (name, op) = (name.into(), op.into());
        let sigs = op.shape(&self.sigs(ins)).map_err(|e| ShapeError { why: format!("{} (at {name})", e.why), ..e })?;
        let outs: Vec<ValueId> = sigs.into_iter().map(|sig| self.source(name.clone(), sig, Source::Node)).collect();
        self.nodes.push(Node { name, op, ins: ins.to_vec(), outs: outs.clone() });
        Ok(outs)
    }

    /// The index of a rotary table: that of an equal table if there is one, else of a new one.
    pub fn rope_table(&mut self, spec: RopeSpec) -> usize {
        if let Some(i) = self.ropes.iter().position(|r| *r == spec) {
            return i;
        }
        self.ropes.push(spec);
        self.ropes.len() - 1
    }

    /// Signatures of values.
    pub fn sigs(&self, ids: &[ValueId]) -> Vec<Sig> {
        ids.iter().map(|&v| self.values[v].sig.clone()).collect()
    }

    /// The site of an op with these inputs and outputs, in a graph that is lowered for `ctx`.
    pub fn site(&self, ctx: &LoweringContext, ins: &[ValueId], outs: &[ValueId]) -> OpSite {
        let ins = self.sigs(ins);
        let bucket = ctx.bucket(&ins);
        let LoweringContext { one_each, compute, target, .. } = *ctx;
        OpSite { outs: self.sigs(outs), bucket, one_each, ins, compute, target }
    }

    /// Index of the node that makes a value.
    pub fn producer(&self, value: ValueId) -> Option<usize> {
        self.nodes.iter().position(|n| n.outs.contains(&value))
    }

    /// Indices of the nodes that read a value.
    pub fn consumers(&self, value: ValueId) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&i| self.nodes[i].ins.contains(&value)).collect()
    }

    /// The one node that reads a value, if there is exactly one and the value is no output of the graph.
    pub fn only_consumer(&self, value: ValueId) -> Option<usize> {
        match self.consumers(value)[..] {
            [one] if !self.outputs.contains(&value) => Some(one),
            _ => None,
        }
    }

    /// Infers all signatures again, after a rewrite replaced a value by another one.
    pub fn infer(&mut self) -> Result<(), ShapeError> {
        for i in 0..self.nodes.len() {
            let sigs = self.nodes[i].op.shape(&self.sigs(&self.nodes[i].ins))?;
            for (out, sig) in self.nodes[i].outs.clone().into_iter().zip(sigs) {
                self.values[out].sig = sig;
            }
        }
        Ok(())
    }

    /// Whether the node computes and moves no element in any batch: its values, except weights and states, have no rows.
    pub fn moves_nothing(&self, node: &Node) -> bool {
        let mut sigs = node.ins.iter().chain(&node.outs).map(|&v| &self.values[v].sig);
        let has_no_rows = |s: &Sig| s.rows.constant() == Some(0);
        sigs.clone().any(|s| !s.is_state() && has_no_rows(s))
            && sigs.all(|s| s.is_weight() || s.is_state() || has_no_rows(s))
    }

    /// The index of the state of which a value is a version; `None` for values that are no states.
    pub fn state_of(&self, value: ValueId) -> Option<usize> {
        let mut value = value;
        loop {
            if let Source::State(s) = self.values[value].source {
                return Some(s);
            }
            if !self.values[value].sig.is_state() {
                return None;
            }
            let node = &self.nodes[self.producer(value)?];
            // The nth state output is the next version of the nth state input.
            let states = |ids: &[ValueId]| -> Vec<ValueId> {
                ids.iter().copied().filter(|&v| self.values[v].sig.is_state()).collect()
            };
            let at = states(&node.outs).iter().position(|&v| v == value)?;
            value = *states(&node.ins).get(at)?;
        }
    }

    /// Checks that every node's inputs exist before it, that no version of a state is read after the next one is written, and
    /// that all outputs are made.
    pub fn check_order(&self) -> Result<(), String> {
        let mut made: Vec<bool> = self.values.iter().map(|v| v.source != Source::Node).collect();
        let mut overwritten = vec![false; self.values.len()];
        for n in &self.nodes {
            for &v in &n.ins {
                if !made[v] {
                    return Err(format!("{} reads {} before it is made", n.name, self.values[v].name));
                }
                if overwritten[v] {
                    return Err(format!("{} reads {} after it was overwritten", n.name, self.values[v].name));
                }
            }
            let writes_state = n.outs.iter().any(|&v| self.values[v].sig.is_state());
            for &v in n.ins.iter().filter(|&&v| writes_state && self.values[v].sig.is_state()) {
                overwritten[v] = true;
            }
            n.outs.iter().for_each(|&v| made[v] = true);
        }
        match self.outputs.iter().find(|&&v| !made[v]) {
            Some(&v) => Err(format!("the output {} is never made", self.values[v].name)),
            None => Ok(()),
        }
    }
}
