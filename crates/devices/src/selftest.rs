//! Runs the test cases of ops on a device and compares the outputs with the reference of the op. Inputs are random, outputs are
//! filled with poison values before a run, and guard bytes around them reveal writes out of bounds.

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

/// The error that every kernel of a GPU may have, relative to the largest element of the output.
const LAST_BITS: f32 = 1e-6;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The error is within the tolerance of the case.
    Pass,
    /// The device has no kernel; the text is the reason.
    Gap(&'static str),
    /// The output is wrong or the run failed; the text says how.
    Fail(String),
}

/// A line of the table of all ops and cases.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Name of the op.
    pub op: &'static str,
    /// Name of the case.
    pub case: String,
    /// Names of the kernels that ran, in order.
    pub kernels: Vec<String>,
    /// Largest error, relative to the largest magnitude of the output.
    pub error: f32,
    /// Largest allowed error, relative to the same magnitude.
    pub tolerance: f32,
    /// The outcome.
    pub verdict: Verdict,
}

/// Runs one case on a device and compares it with the reference.
pub fn run_case(device: &mut dyn TestDevice, op: &'static str, case: &Case, seed: u64) -> CaseResult {
    let mut result = CaseResult {
        op,
        case: case.name.clone(),
        kernels: vec![],
        error: 0.0,
        // A GPU may contract a product and a sum to a fused multiply-add, and its functions are exact to a few last bits only.
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
                // A weight that is split has the index of its first shard; the indices of the others stay empty.
                numbers.resize(weights.len(), RefTensor::default());
            }
        }
    }
    if let Some(want) = case.cost {
        // The costs in cases are counted by hand, for weights in the stored layout.
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
    // The table of layouts is empty because the signatures of the case have the layouts already.
    let plan = lower(graph, ctx, &case_rules(), &Layouts::new(), device.name());
    let plan = Arc::new(plan.map_err(|e| wrong(e.to_string()))?);
    result.kernels = plan.dispatches.iter().map(|d| d.kernel_name()).collect();
    device.set_guards(true);
    device.set_weights(weights)?;
    device.set_states(&states.iter().map(|s| s.bytes.len() as u64).collect::<Vec<_>>())?;
    let recording = record(&plan, device, &mut Silent)?;
    // The case runs twice: a kernel that leaves workspace or semaphores dirty, or reads memory that it should only write, gives
    // another result in the second run.
    for run in 0..2 {
        for (i, s) in states.iter().enumerate() {
            device.write_state(i, &s.bytes);
        }
        let counted = device.counts().dispatches;
        let ran = device.submit(&recording, &batch)?;
        // Waits first, so that a failure on the device is reported as such and not as guard bytes that cannot be read.
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

/// Compares token ids, which an output of `sample` has as bits in every even column from the first on. They must be equal; a
/// relative error of the bits as f32 would not show a wrong id.
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
