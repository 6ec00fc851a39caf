//! Every op's cases on a device against their meaning: fresh random inputs, poisoned outputs, guard bytes.

use onetrip_core::compile::lower::lower;
use std::sync::Arc;

use onetrip_core::cases::{PAGE_LEN, Rng, case_graph, case_rules, random_batch, random_weight, uniform};
use onetrip_core::compile::layout::Layouts;
use onetrip_core::graph::Source;
use onetrip_core::lowering::OpSite;
use onetrip_core::ops::{Case, Op, USUAL_SIZE};
use onetrip_core::probe::Silent;
use onetrip_core::record::record;
use onetrip_core::reference::{RefState, RefTensor, eval_graph};
use onetrip_ir::device::{DeviceError, TestDevice, WeightData};
use onetrip_ir::tensor::Role;

/// What every kernel of a GPU may be off by, relative to the largest number.
const LAST_BITS: f32 = 1e-6;

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The error is within the case's tolerance.
    Pass,
    /// The device has no kernel, and why.
    Gap(&'static str),
    /// It is wrong, and how.
    Fail(String),
}

/// A row of the table op × case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The op.
    pub op: &'static str,
    /// The case.
    pub case: String,
    /// Kernels that ran.
    pub kernels: Vec<String>,
    /// Largest error, relative to the largest magnitude of the output.
    pub error: f32,
    /// What is allowed.
    pub tolerance: f32,
    /// What came of it.
    pub verdict: Verdict,
}

/// Runs one case on a device and compares it with the reference.
pub fn run_case(device: &mut dyn TestDevice, op: &'static str, case: &Case, seed: u64) -> CaseResult {
    let mut result = CaseResult {
        op,
        case: case.name.clone(),
        kernels: vec![],
        error: 0.0,
        // A GPU may join a product and a sum, and its functions are right to a few last bits.
        tolerance: if device.target().is_text() { case.tolerance.max(LAST_BITS) } else { case.tolerance },
        verdict: Verdict::Pass,
    };
    match try_case(device, case, seed, &mut result) {
        Ok(()) => {}
        Err(DeviceError::Gap { why, .. }) => result.verdict = Verdict::Gap(why),
        Err(e) => result.verdict = Verdict::Fail(e.to_string()),
    }
    result
}

fn try_case(device: &mut dyn TestDevice, case: &Case, seed: u64, result: &mut CaseResult) -> Result<(), DeviceError> {
    let mut rng = Rng::new(seed);
    let wrong = |e: String| DeviceError::Batch(e);
    let (graph, ctx) = case_graph(case, device.target()).map_err(|e| wrong(e.to_string()))?;
    let vocabulary = case.ins[0].rows.constant().unwrap_or(8);
    let (batch, pages) = random_batch(&mut rng, case.batch, vocabulary, &graph.ropes);
    let (mut weights, mut numbers, mut states): (Vec<WeightData>, Vec<RefTensor>, Vec<RefState>) = Default::default();
    for (i, value) in graph.values.iter().enumerate().filter(|(_, value)| value.source != Source::Node) {
        let sig = &value.sig;
        match sig.role {
            Role::State(cache) => {
                let mut state = RefState::new(cache, sig.dtype, PAGE_LEN as usize, pages);
                fill_state(&mut rng, &mut state);
                states.push(state);
            }
            Role::Recurrent => {
                let mut state = RefState::recurrent(sig.width, case.batch.s as usize + 1);
                fill_state(&mut rng, &mut state);
                states.push(state);
            }
            _ => {
                let mut all = RefTensor { width: sig.width, data: vec![] };
                for shard in sig.shards(ctx.target.binding_bytes()) {
                    let rows = shard.rows.eval(case.batch) as usize;
                    let (bytes, part) = match case.ranges.iter().find(|(input, ..)| *input == i) {
                        Some(&(_, low, high)) => uniform(&mut rng, sig.width, rows, low, high),
                        None if sig.is_weight() => random_weight(&mut rng, &shard, rows, case.size),
                        None => random_weight(&mut rng, &shard, rows, USUAL_SIZE),
                    };
                    weights.push(Arc::new(bytes));
                    all.data.extend(part.data);
                }
                numbers.push(all);
                // A weight goes by the number of its first shard.
                numbers.resize(weights.len(), RefTensor::default());
            }
        }
    }
    if let Some(want) = case.cost {
        // Counted by hand for weights as they are stored.
        let site = OpSite { ins: case.ins.clone(), ..graph.site(&ctx, &graph.nodes[0].ins, &graph.nodes[0].outs) };
        let cost = case.op.cost(&site);
        let have = (cost.read.eval(case.batch), cost.written.eval(case.batch), cost.flops.eval(case.batch));
        if have != want {
            return Err(wrong(format!("claims {have:?} bytes read, written, operations; counted by hand {want:?}")));
        }
    }
    let mut expected_states = states.clone();
    for node in &graph.nodes {
        let Op::Matmul(m) = &node.op else { continue };
        let site = graph.site(&ctx, &node.ins, &node.outs);
        let weights = &site.ins[m.first_weight()..m.first_operand()];
        let most = weights.iter().map(|w| site.rounding(w).tolerance()).fold(0.0, f32::max);
        result.tolerance = result.tolerance.max(most);
    }
    let expected = eval_graph(&graph, &numbers, &ctx, &batch, &mut expected_states);
    // Layouts are in the signatures already.
    let plan = lower(graph, ctx, &case_rules(), &Layouts::new(), device.name());
    let plan = Arc::new(plan.map_err(|e| wrong(e.to_string()))?);
    result.kernels = plan.dispatches.iter().map(|d| d.kernel_name()).collect();
    device.set_guards(true);
    device.set_weights(weights)?;
    device.set_states(&states.iter().map(|s| s.bytes.len() as u64).collect::<Vec<_>>())?;
    let recording = record(&plan, device, &mut Silent)?;
    // Twice: a kernel that leaves something behind, or reads what it should write, differs the second time.
    for run in 0..2 {
        for (i, s) in states.iter().enumerate() {
            device.write_state(i, &s.bytes);
        }
        let counted = device.counts().dispatches;
        let ran = device.submit(&recording, &batch)?;
        // What went wrong on the device is said as that, and not as guards that cannot be read.
        device.wait()?;
        if !device.guards_intact() {
            return Err(wrong(format!("run {run} wrote beyond an output, or two workers wrote to one place")));
        }
        for (i, want) in expected.iter().enumerate() {
            let have = device.output(ran, &plan, i, want.rows())?;
            if matches!(case.op, Op::Sample(_)) {
                same_ids(&have, want)?;
            }
            compare(result, &format!("output {i}, run {run}"), &have, &want.data)?;
        }
        let counted = device.counts().dispatches - counted;
        if counted != plan.dispatches.len() as u64 {
            return Err(wrong(format!("run {run} was {counted} dispatches, the plan has {}", plan.dispatches.len())));
        }
        for (i, want) in expected_states.iter().enumerate() {
            let have = RefState { bytes: device.read_state(i), ..want.clone() };
            compare(result, &format!("state {i}, run {run}"), &numbers_of(&have), &numbers_of(want))?;
        }
    }
    device.set_guards(false);
    Ok(())
}

/// Ids are bits, in the first and every even column: a relative error would not see them.
fn same_ids(have: &[f32], want: &RefTensor) -> Result<(), DeviceError> {
    for (i, (h, w)) in have.iter().zip(&want.data).enumerate().filter(|(i, _)| (i % want.width).is_multiple_of(2)) {
        if h.to_bits() != w.to_bits() && !(h.is_nan() && w.is_nan()) {
            let (h, w) = (h.to_bits(), w.to_bits());
            return Err(DeviceError::Batch(format!("row {}: token {h}, should be {w}", i / want.width)));
        }
    }
    Ok(())
}

fn compare(result: &mut CaseResult, what: &str, have: &[f32], want: &[f32]) -> Result<(), DeviceError> {
    let scale = want.iter().filter(|x| x.is_finite()).fold(1e-6f32, |a, x| a.max(x.abs()));
    for (i, (h, w)) in have.iter().zip(want).enumerate() {
        if h.to_bits() == w.to_bits() || (h.is_nan() && w.is_nan()) {
            continue;
        }
        let error = (h - w).abs() / scale;
        result.error = result.error.max(error);
        if error.is_nan() || error > result.tolerance {
            let (e, t) = (error, result.tolerance);
            return Err(DeviceError::Batch(format!("{what}, number {i}: {h}, should be {w}: {e:.1e} > {t:.1e}")));
        }
    }
    Ok(())
}

fn numbers_of(state: &RefState) -> Vec<f32> {
    let row = state.dtype.row_bytes(state.cache.dim).unwrap_or(1);
    let mut out = vec![0.0; state.bytes.len() / row * state.cache.dim];
    state.dtype.def().dequantize(&state.bytes, &mut out);
    out
}

fn fill_state(rng: &mut Rng, state: &mut RefState) {
    let pages =
        state.bytes.len() / (state.cache.heads * state.page_len * state.dtype.row_bytes(state.cache.dim).unwrap_or(1));
    let heads = state.cache.heads;
    for (page, head) in (0..pages).flat_map(|p| (0..heads).map(move |h| (p, h))) {
        for offset in 0..state.page_len {
            state.set(page, head, offset, &rng.normals(state.cache.dim));
        }
    }
}
