//! CUDA kernels on the processor: a device that compiles their text as C++ and runs a block's threads as fibers. It finds
//! wrong indices, lost barriers and wrong arithmetic on machines without a GPU; it says nothing about speed.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use onetrip_core::cases::case_plan;
use onetrip_core::codegen::cuda::MACHINE;
use onetrip_core::ops::{Case, Op};
use onetrip_device_common::arena::{GUARD, POISON, Slots};
use onetrip_device_common::recording::{kept, with_kernel};
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::step::Engine;
use onetrip_ir::batch::StepBatch;
use onetrip_ir::cpu::memory::AlignedBytes;
use onetrip_ir::device::{
    Counts, Device, DeviceError, HostTime, RING, Recording, SubmitMode, TestDevice, Ticket, WeightData,
};
use onetrip_ir::formats::DType;
use onetrip_ir::kernel::{Access, Code, Gemm, Text};
use onetrip_ir::plan::{BufRef, Plan};
use onetrip_ir::target::{Compute, CudaCaps, Target};

use crate::harness::{CHUNK, Options, exceeds, forced, load, root_mean_square, sequences};

pub(crate) mod units;

use units::{Kernel, STACKS};

/// The device's name.
const NAME: &str = "emulated";

/// A plan with the kernel of each dispatch that has one, or why it did not compile.
struct Recorded {
    plan: Arc<Plan>,
    kernels: Vec<Option<Result<Arc<Kernel>, String>>>,
}

/// A device that compiles CUDA kernels as C++ and runs the threads of a block as fibers.
pub struct Emulated {
    caps: CudaCaps,
    weights: Vec<AlignedBytes>,
    states: Vec<AlignedBytes>,
    arena: AlignedBytes,
    slots: Slots,
    pending_tokens: AlignedBytes,
    workspace: AlignedBytes,
    /// Stacks of a kernel's threads: most are never touched.
    stacks: Vec<u8>,
    recorded: Option<Recorded>,
    runs: u64,
    /// The last runs and their outputs: this device keeps them as those do that run ahead.
    kept: VecDeque<(u64, Vec<AlignedBytes>)>,
    counts: Counts,
}

impl Emulated {
    /// A device; none where there is no C++ compiler.
    pub fn new() -> Option<Emulated> {
        units::has_compiler().then(|| Emulated {
            // Blocks run one after the other: no clusters, which came with 9.0.
            caps: CudaCaps { lt: false, sm: 80, ..CudaCaps::default() },
            weights: vec![],
            states: vec![],
            arena: AlignedBytes::default(),
            slots: Slots::default(),
            pending_tokens: AlignedBytes::zeroed(1 << 12),
            workspace: AlignedBytes::zeroed(1 << 16),
            stacks: vec![0; STACKS],
            recorded: None,
            runs: 0,
            kept: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// A device of so few SMs that launches have few groups: each costs a processor time.
    pub fn with_sms(sms: u32) -> Option<Emulated> {
        let mut emulated = Emulated::new()?;
        emulated.caps.sms = sms;
        Some(emulated)
    }

    fn place_slots(&mut self, plan: &Plan, batch: &StepBatch) {
        self.slots = Slots::place(plan.slot_bytes(batch.bind()), 256, GUARD as u64);
        self.arena = AlignedBytes::zeroed(self.slots.bytes.max(1) as usize);
        self.arena.as_mut().fill(POISON);
    }
}

impl Device for Emulated {
    fn name(&self) -> &str {
        NAME
    }

    fn target(&self) -> Target {
        Target::Cuda(self.caps)
    }

    fn memory(&self) -> Option<u64> {
        None
    }

    fn take_weights(&mut self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<(), DeviceError> {
        self.weights = weights.map(|w| AlignedBytes::copy_of((*w).as_ref())).collect();
        Ok(())
    }

    fn set_states(&mut self, bytes: &[u64]) -> Result<(), DeviceError> {
        self.states = bytes.iter().map(|&b| AlignedBytes::zeroed(b as usize)).collect();
        Ok(())
    }

    fn begin(&mut self, plan: &Arc<Plan>) {
        // All at once: side by side they cost a fraction.
        let mut compiled = units::compile(&units::texts(plan).cloned().collect::<Vec<_>>()).into_iter();
        let has_text = |code: &Option<Code>| matches!(code, Some(Code::Text(_)));
        let kernels = plan.dispatches.iter().map(|d| has_text(&d.code).then(|| compiled.next()).flatten()).collect();
        self.recorded = Some(Recorded { plan: plan.clone(), kernels });
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(Recorded { plan, kernels }) = &self.recorded else { return Ok(()) };
        let d = with_kernel(plan, n, NAME)?;
        match &kernels[n] {
            Some(Err(why)) => {
                Err(DeviceError::Failed { device: NAME.into(), at: format!(" at {}", d.name), why: why.clone() })
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn stamp(&mut self) {}

    fn finish(&mut self) -> Recording {
        Recording(Box::new(self.recorded.take()))
    }

    fn set_submit_mode(&mut self, _: SubmitMode) -> Result<(), DeviceError> {
        Ok(())
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let Recorded { plan, kernels } = kept(recording, NAME)?;
        self.place_slots(plan, batch);
        let mut words = AlignedBytes::copy_of(bytemuck::cast_slice(&batch.words()));
        for (d, kernel) in plan.dispatches.iter().zip(kernels) {
            let args: Vec<*mut u8> = d
                .args
                .iter()
                .map(|arg| match *arg {
                    BufRef::Weight(w) => self.weights[w].as_mut().as_mut_ptr(),
                    BufRef::State(s) => self.states[s].as_mut().as_mut_ptr(),
                    BufRef::Slot(s) => self.arena.as_mut()[self.slots.start(s)..].as_mut_ptr(),
                    BufRef::Batch => words.as_mut().as_mut_ptr(),
                    BufRef::PendingTokens => self.pending_tokens.as_mut().as_mut_ptr(),
                    BufRef::ZeroedWorkspace => self.workspace.as_mut().as_mut_ptr(),
                })
                .collect();
            match (&d.code, kernel) {
                (Some(Code::Library(g)), _) => {
                    // SAFETY: operands are alive and as large as the plan says.
                    unsafe { product(g, g.m.eval(batch.bind()) as usize, &args) };
                }
                (_, Some(Ok(kernel))) => {
                    let groups = d.grid.eval(batch.bind()).max(1) as u32;
                    // SAFETY: operands are alive and as large as the plan says, which is what this device tests.
                    unsafe { kernel.launch(&args, groups, self.stacks.as_mut_ptr()) };
                }
                _ => continue,
            }
            self.counts.dispatches += 1;
            if self.workspace.as_ref().iter().any(|b| *b != 0) {
                return Err(DeviceError::Batch(format!("{} leaves counters behind", d.kernel_name())));
            }
        }
        self.runs += 1;
        self.counts.commits += 1;
        let bytes = |&(slot, _): &(usize, usize)| AlignedBytes::copy_of(self.slots.of(self.arena.as_ref(), slot));
        self.kept.push_back((self.runs, plan.outputs.iter().map(bytes).collect()));
        if self.kept.len() > RING {
            self.kept.pop_front();
        }
        Ok(Ticket(self.runs))
    }

    fn most_ticks(&self) -> usize {
        RING / 2
    }

    fn submit_many(&mut self, recording: &Recording, batches: &[StepBatch]) -> Result<Vec<Ticket>, DeviceError> {
        let commits = self.counts.commits + 1;
        let runs = batches.iter().map(|batch| self.submit(recording, batch)).collect();
        self.counts.commits = commits;
        runs
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn in_flight(&self) -> usize {
        3
    }

    fn stamps(&self) -> &[f64] {
        &[]
    }

    fn output(&mut self, run: Ticket, plan: &Plan, index: usize, rows: usize) -> Result<Vec<f32>, DeviceError> {
        let kept = self.kept.iter().find(|(r, _)| *r == run.0);
        let (_, outputs) = kept.ok_or_else(|| DeviceError::Batch(format!("the outputs of run {} are gone", run.0)))?;
        let width = plan.outputs[index].1;
        Ok(bytemuck::cast_slice(&outputs[index].as_ref()[..rows * width * 4]).to_vec())
    }

    fn read_state(&mut self, index: usize) -> Vec<u8> {
        self.states[index].as_ref().to_vec()
    }

    fn write_state(&mut self, index: usize, bytes: &[u8]) {
        self.states[index].as_mut().copy_from_slice(bytes);
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        if let Ok([from, to]) = self.states.get_disjoint_mut([from, to]) {
            to.as_mut().copy_from_slice(from.as_ref());
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn host_time(&self) -> HostTime {
        HostTime::default()
    }
}

impl TestDevice for Emulated {
    fn set_guards(&mut self, _: bool) {}

    fn guards_intact(&mut self) -> bool {
        self.slots.are_guarded(self.arena.as_ref(), GUARD)
    }
}

/// What a library of matrix products does, in plain loops.
///
/// # Safety
/// `args` are as [`Gemm`] says, as large as it says.
unsafe fn product(g: &Gemm, m: usize, args: &[*mut u8]) {
    // SAFETY: as the caller promises; operands begin at multiples of 256.
    let floats = |at: *mut u8, len| unsafe { std::slice::from_raw_parts(at.cast::<f32>(), len) };
    let halves = |at: *mut u8, len| {
        let mut numbers = vec![0.0; len];
        // SAFETY: as above.
        g.dtype.def().dequantize(unsafe { std::slice::from_raw_parts(at, 2 * len) }, &mut numbers);
        numbers
    };
    let (x, w) = (halves(args[0], m * g.k), halves(args[1], g.n * g.k));
    let mut added = args[2..].iter();
    let mut next = |is: bool, len| is.then(|| added.next()).flatten().map(|&a| floats(a, len));
    let (bias, residual) = (next(g.bias, g.n), next(g.residual, m * g.n));
    // SAFETY: the product has a place of its own.
    let out = unsafe { std::slice::from_raw_parts_mut(args[args.len() - 1].cast::<f32>(), m * g.n) };
    for (i, o) in out.iter_mut().enumerate() {
        let (t, row) = (i / g.n, i % g.n);
        let pairs = x[t * g.k..][..g.k].iter().zip(&w[row * g.k..][..g.k]);
        *o = pairs.map(|(a, b)| a * b).sum::<f32>();
        *o += bias.map_or(0.0, |b| b[row]) + residual.map_or(0.0, |r| r[i]);
    }
}

/// One test per op: all its cases with the CUDA kernels, compiled as C++.
pub fn tests() -> Vec<Trial> {
    let ignored = Emulated::new().is_none();
    let test = |op: &'static str| {
        let run = move || cases(op, false);
        Trial::test(format!("op/{op}/cuda-emulated"), run).with_ignored_flag(ignored)
    };
    let mut tests: Vec<Trial> = crate::ops::on_gpus().map(test).collect();
    tests.push(Trial::test("emulated/tiny answers as on the CPU", || whole(&tiny()?)).with_ignored_flag(ignored));
    let library = || cases("matmul", true);
    tests.push(Trial::test("op/matmul/cuda-emulated with a library", library).with_ignored_flag(ignored));
    let name = "emulated/a kernel that is no C++ is named, and those beside it run";
    tests.push(Trial::test(name, beside_a_wrong_one).with_ignored_flag(ignored));
    let qwen35 = || whole(&crate::qwen35::small_gguf(DType::Q4_0)?);
    let ticks = || several_ticks(&tiny()?);
    let name = "emulated/several ticks a submission give the tokens of one by one";
    tests.push(Trial::test(name, ticks).with_ignored_flag(ignored));
    tests.push(Trial::test("emulated/qwen35 answers as on the CPU", qwen35).with_ignored_flag(ignored));
    tests
}

/// Cases of an op in two threads, their kernels compiled before. With a library only those of more than 8 rows, which are
/// all that may use it.
fn cases(op: &str, library: bool) -> Result<(), Failed> {
    let device = || {
        let mut emulated = Emulated::new().ok_or("there is no C++ compiler (g++)")?;
        emulated.caps.lt = library;
        Ok::<_, Failed>(emulated)
    };
    let is_wanted = |case: &Case| !library || case.batch.t > 8;
    let all = Op::all_cases().into_iter().filter(|(name, _)| *name == op).flat_map(|(_, cases)| cases);
    // A case that has no plan says so when it is run.
    let target = device()?.target();
    let plans: Vec<Plan> = all.filter(is_wanted).filter_map(|case| case_plan(&case, target).ok()).collect();
    units::compile(&plans.iter().flat_map(units::texts).cloned().collect::<Vec<_>>());
    let half = |half: usize| {
        crate::ops::some_cases(&mut device()?, op, 1, &|n: usize, case: &Case| n % 2 == half && is_wanted(case))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let this = half(0);
        this.and(other.join().map_err(|_| Failed::from("the other half panicked"))?)
    })
}

fn tiny() -> Result<Vec<u8>, Failed> {
    Ok(std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/tiny.gguf"))?)
}

/// Two texts of different lengths, generated with 1 and 4 ticks a submission, up to the end of the context.
fn several_ticks(file: &[u8]) -> Result<(), Failed> {
    let o = Options { sequences: 2, context: 9, ..Options::default() };
    let mut emulated = Emulated::new().ok_or("there is no C++ compiler (g++)")?;
    emulated.caps.sms = 8;
    let options = ModelOptions { target: emulated.target(), device: "emulated".into(), ..o.model() };
    let model = Model::new(ModelFile::from_slice("model", file)?, options)?;
    let mut engine = Engine::load(model, Box::new(emulated), o.context, o.sequences, 1, &|_, _| {})?;
    if engine.set_ticks(RING).is_ok() || engine.set_ticks(0).is_ok() {
        return Err("more ticks than the device takes, or none, were taken".into());
    }
    let mut answers: Vec<(Vec<Vec<u32>>, u64)> = vec![];
    for ticks in [1, 4] {
        engine.set_ticks(ticks)?;
        let seqs = sequences(&mut engine, 2)?;
        engine.scheduler().set_tokens(seqs[0], &[5, 9, 3]);
        engine.scheduler().set_tokens(seqs[1], &[8]);
        let before = engine.device().counts().commits;
        let mut out = vec![vec![]; 2];
        let mut dispatches = |rows| {
            engine.recorded(PlanKey::of(rows, 2, Want::Sample { top: 0 })).map(|r| r.plan.dispatches.len() as u64)
        };
        let (prompt, tick) = (dispatches(4)?, dispatches(2)?);
        let (begin, mut read) = (engine.device().counts().dispatches, 0);
        while let Some(tokens) = engine.step()? {
            tokens.iter().for_each(|t| out[seqs.iter().position(|s| *s == t.seq).unwrap_or(0)].push(t.id));
            // What would be run for nothing if a text ended here; the first to be read is the prompt.
            let handed_over = (engine.device().counts().dispatches - begin - prompt) / tick;
            let ahead = handed_over.saturating_sub(read);
            if ticks > 1 && ahead >= ticks as u64 {
                return Err(format!("{ahead} ticks ahead of token {read}, of {ticks} in one submission").into());
            }
            read += 1;
        }
        answers.push((out, engine.device().counts().commits - before));
        seqs.iter().for_each(|&s| engine.scheduler().remove(s));
    }
    // Each text gets a token for every position that is left, and the one behind the last.
    let lengths: Vec<usize> = answers[0].0.iter().map(Vec::len).collect();
    if lengths != [o.context - 3 + 1, o.context] {
        return Err(format!("texts of {lengths:?} tokens").into());
    }
    for (have, commits) in &answers[1..] {
        if have != &answers[0].0 {
            return Err(format!("other tokens: {have:?}, one by one {:?}", answers[0].0).into());
        }
        if *commits * 2 > answers[0].1 {
            return Err(format!("{commits} submissions, one by one {}", answers[0].1).into());
        }
    }
    Ok(())
}

/// Kernels of one name and one unit that write what each has defined, and between them one that does not compile.
fn beside_a_wrong_one() -> Result<(), Failed> {
    let text = |body: &str| {
        let source = format!(
            "{MACHINE}#define VALUE {body}\nextern \"C\" __global__ void fill_kernel(void* a0) {{\n\
             __shared__ u32 room[32];\nroom[threadIdx.x] = VALUE;\n__syncthreads();\n\
             ((u32*)a0)[threadIdx.x] = room[threadIdx.x ^ 31];\n}}\n"
        );
        Arc::new(Text { source, entry: "fill_kernel".into(), workgroup: 32, shared: 0, access: vec![Access::Write] })
    };
    let compiled = units::compile(&[text("threadIdx.x"), text("no_such_name"), text("threadIdx.x + 1000")]);
    let mut stacks = vec![0; STACKS];
    for (kernel, first) in [(&compiled[0], 31), (&compiled[2], 1031)] {
        let mut out = [0u32; 32];
        let kernel = kernel.as_ref().map_err(|why| format!("a kernel beside a wrong one does not compile: {why}"))?;
        // SAFETY: the kernel writes a word for each of its threads.
        unsafe { kernel.launch(&[out.as_mut_ptr().cast()], 1, stacks.as_mut_ptr()) };
        if out.iter().ne((0..32).map(|i| first - i).collect::<Vec<u32>>().iter()) {
            return Err(format!("a kernel wrote {out:?}").into());
        }
    }
    match &compiled[1] {
        Err(why) if why.contains("fill_kernel") && why.contains("no_such_name") => Ok(()),
        Err(why) => Err(format!("neither the kernel nor what is wrong with it are named: {why}").into()),
        Ok(_) => Err("a kernel that is no C++ compiled".into()),
    }
}

/// A ragged batch of three texts, then steps of one token each, on the CPU and with the CUDA kernels.
fn whole(file: &[u8]) -> Result<(), Failed> {
    // With int8 the 80 tokens of a text meet f16 here and int8 there: that is how far apart the two may be. On the CPU f16
    // is f32.
    let half = Options { compute: Compute::F16, ..Options::default() };
    for (o, tolerance) in [(Options::f32(), 1e-4), (half, 1e-2), (Options::default(), 0.2)] {
        let o = Options { sequences: 3, context: 128, ..o };
        let mut emulated = Emulated::new().ok_or("there is no C++ compiler (g++)")?;
        // Few groups a launch: each costs a processor time.
        emulated.caps.sms = 8;
        let options = ModelOptions { target: emulated.target(), device: "emulated".into(), ..o.model() };
        let model = Model::new(ModelFile::from_slice("model", file)?, options)?;
        let mut ours = Engine::load(model, Box::new(emulated), o.context, o.sequences, 1, &|_, _| {})?;
        let mut cpu = load(ModelFile::from_slice("model", file)?, &o)?;
        let text = |n: u32| (0..n).map(|i| (i * 37 + n) % 50 + 1).collect::<Vec<u32>>();
        let (texts, then) = ([text(1), text(7), text(80)], [5, 6, 7]);
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let mut answers = vec![];
        for engine in [&mut cpu, &mut ours] {
            let seqs = sequences(engine, 3)?;
            let together = forced(engine, &seqs, &texts, &then, CHUNK)?;
            seqs.iter().for_each(|&s| engine.scheduler().remove(s));
            let seq = sequences(engine, 1)?;
            answers.push((together, forced(engine, &seq, &texts[1..2], &then, CHUNK)?));
        }
        let size = root_mean_square(&answers[0].0, &answers[0].0.iter().map(|s| zeros(s)).collect());
        for (a, b) in [(&answers[0].0, &answers[1].0), (&answers[0].1, &answers[1].1)] {
            let error = root_mean_square(a, b) / size;
            println!("{:?}: relative error {error:.1e}", o.compute);
            if exceeds(error, tolerance) {
                return Err(
                    format!("{:?}: logits differ by {error:.1e} of their size > {tolerance:.0e}", o.compute).into()
                );
            }
        }
    }
    Ok(())
}

fn zeros(steps: &[Vec<f32>]) -> Vec<Vec<f32>> {
    steps.iter().map(|row| vec![0.0; row.len()]).collect()
}
