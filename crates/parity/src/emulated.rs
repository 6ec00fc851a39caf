//! CUDA kernels on the processor: a device that compiles their text as C++ and runs a block's threads as fibers. It finds
//! wrong indices, lost barriers and wrong arithmetic on machines without a GPU; it says nothing about speed.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use libloading::Library;
use libtest_mimic::{Failed, Trial};
use onetrip_core::batch::StepBatch;
use onetrip_core::cpu_mem::AlignedBytes;
use onetrip_core::cuda::{MACHINE, TENSOR};
use onetrip_core::device::{Counts, Device, DeviceError, HandOver, HostTime, RING, Recording, Ticket, WeightData};
use onetrip_core::formats::DType;
use onetrip_core::ops::{Case, Code, Compute, CudaCaps, Gemm, Op, Target, Text};
use onetrip_core::plan::{BufRef, Plan};
use onetrip_engine::files::ModelFile;
use onetrip_engine::model::{Model, ModelOptions};
use onetrip_engine::step::Engine;

use crate::harness::{CHUNK, Options, exceeds, forced, load, root_mean_square, sequences};

/// Guard bytes behind each slot in tests, and what they and the slots are filled with: four of it are a NaN.
const GUARD: usize = 256;
const POISON: u8 = 0xff;

type Launch = unsafe extern "C" fn(*const *mut u8, u32, u32, u32);

/// The device.
pub struct Emulated {
    folder: tempfile::TempDir,
    kernels: HashMap<Text, Library>,
    caps: CudaCaps,
    weights: Vec<AlignedBytes>,
    states: Vec<AlignedBytes>,
    arena: AlignedBytes,
    offsets: Vec<(usize, usize)>,
    feed: AlignedBytes,
    zeros: AlignedBytes,
    plan: Option<Arc<Plan>>,
    runs: u64,
    /// The last runs and their outputs: this device keeps them as those do that run ahead.
    kept: VecDeque<(u64, Vec<AlignedBytes>)>,
    counts: Counts,
}

impl Emulated {
    /// A device; none where there is no C++ compiler.
    pub fn new() -> Option<Emulated> {
        Command::new("g++").arg("--version").output().ok().filter(|o| o.status.success())?;
        Some(Emulated {
            folder: tempfile::tempdir().ok()?,
            kernels: HashMap::new(),
            // Blocks run one after the other: no clusters, which came with 9.0.
            caps: CudaCaps { lt: false, sm: 80, ..CudaCaps::default() },
            weights: vec![],
            states: vec![],
            arena: AlignedBytes::default(),
            offsets: vec![],
            feed: AlignedBytes::zeroed(1 << 12),
            zeros: AlignedBytes::zeroed(1 << 16),
            plan: None,
            runs: 0,
            kept: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    fn compile(&mut self, text: &Text) -> Result<(), DeviceError> {
        if self.kernels.contains_key(text) {
            return Ok(());
        }
        let path = self.folder.path().join(format!("{}.cpp", self.kernels.len()));
        let args: Vec<String> = (0..text.access.len()).map(|i| format!("emulated_args[{i}]")).collect();
        let source = text
            .source
            .replace(MACHINE, "")
            .replace(TENSOR, include_str!("emulated/tensor.h"))
            .replace("extern __shared__ uint4 dynamic[];", "uint4* dynamic = emulated_shared;");
        let source = format!(
            "{}\n{source}\nstatic void** emulated_args;\nstatic void emulated_call() {{ {}({}); }}\n\
             extern \"C\" void launch(void** args, u32 groups, u32 threads, u32 shared) {{\n\
             emulated_args = args; emulated_body = emulated_call;\n\
             std::vector<uint4> room(shared / 16 + 1); emulated_shared = room.data();\n\
             gridDim = {{groups, 1, 1}}; blockDim = {{threads, 1, 1}};\n\
             for (u32 g = 0; g < groups; g++) {{ std::memset(room.data(), 255, room.size() * 16); blockIdx = {{g, 0, 0}}; \
             run_block(threads); }}\n}}\n",
            include_str!("emulated/machine.h"),
            text.entry,
            args.join(", ")
        );
        let failed = |why: String| DeviceError::Failed { device: "emulated".into(), at: String::new(), why };
        std::fs::write(&path, source).map_err(|e| failed(e.to_string()))?;
        let so = path.with_extension("so");
        let flags = [
            "-std=c++17",
            "-O1",
            "-march=native",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-w",
            "-fno-strict-aliasing",
            // A GPU takes no load that is not aligned; a processor would.
            "-fsanitize=alignment",
            "-fno-sanitize-recover=alignment",
            // Libraries that run side by side have nothing in common.
            "-fno-gnu-unique",
            "-o",
        ];
        let made = Command::new("g++").args(flags).arg(&so).arg(&path).output().map_err(|e| failed(e.to_string()))?;
        if !made.status.success() {
            return Err(failed(format!("{}: {}", text.entry, String::from_utf8_lossy(&made.stderr))));
        }
        // SAFETY: the library was made of the text above and runs nothing when it is opened.
        let library = unsafe { Library::new(&so) }.map_err(|e| failed(e.to_string()))?;
        self.kernels.insert(text.clone(), library);
        Ok(())
    }

    fn place_slots(&mut self, plan: &Plan, batch: &StepBatch) {
        self.offsets.clear();
        let mut end = 0;
        for bytes in plan.slot_bytes(batch.bind()) {
            self.offsets.push((end, bytes as usize));
            end = (end + bytes as usize + GUARD).next_multiple_of(256);
        }
        self.arena = AlignedBytes::zeroed(end.max(1));
        self.arena.as_mut().fill(POISON);
    }
}

impl Device for Emulated {
    fn name(&self) -> &str {
        "emulated"
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
        self.plan = Some(plan.clone());
    }

    fn encode(&mut self, n: usize) -> Result<(), DeviceError> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        let d = &plan.dispatches[n];
        if let Some(why) = d.gap {
            return Err(DeviceError::Gap { n, name: d.name.clone(), device: "emulated".into(), why });
        }
        match &d.code {
            Some(Code::Text(text)) => self.compile(text),
            _ => Ok(()),
        }
    }

    fn stamp(&mut self) {}

    fn finish(&mut self) -> Recording {
        Recording(Box::new(self.plan.take()))
    }

    fn set_hand_over(&mut self, _: HandOver) -> Result<(), DeviceError> {
        Ok(())
    }

    fn submit(&mut self, recording: &Recording, batch: &StepBatch) -> Result<Ticket, DeviceError> {
        let Some(Some(plan)) = recording.0.downcast_ref::<Option<Arc<Plan>>>() else {
            return Err(DeviceError::Batch("the recording is not one of this device".into()));
        };
        self.place_slots(plan, batch);
        let mut words = AlignedBytes::copy_of(bytemuck::cast_slice(&batch.words()));
        for d in &plan.dispatches {
            let args: Vec<*mut u8> = d
                .args
                .iter()
                .map(|arg| match *arg {
                    BufRef::Weight(w) => self.weights[w].as_mut().as_mut_ptr(),
                    BufRef::State(s) => self.states[s].as_mut().as_mut_ptr(),
                    BufRef::Slot(s) => self.arena.as_mut()[self.offsets[s].0..].as_mut_ptr(),
                    BufRef::Batch => words.as_mut().as_mut_ptr(),
                    BufRef::Feed => self.feed.as_mut().as_mut_ptr(),
                    BufRef::Zeros => self.zeros.as_mut().as_mut_ptr(),
                })
                .collect();
            let text = match &d.code {
                Some(Code::Text(text)) => text,
                Some(Code::Library(g)) => {
                    // SAFETY: operands are alive and as large as the plan says.
                    unsafe { product(g, g.m.eval(batch.bind()) as usize, &args) };
                    self.counts.dispatches += 1;
                    continue;
                }
                _ => continue,
            };
            let library = &self.kernels[&**text];
            // SAFETY: `launch` has this signature in every library made by `compile`; operands are alive and as large as
            // the plan says, which is what this device tests.
            unsafe {
                let launch = library.get::<Launch>(b"launch").map_err(|e| DeviceError::Batch(e.to_string()))?;
                launch(args.as_ptr(), d.grid.eval(batch.bind()).max(1) as u32, text.workgroup, text.shared);
            }
            self.counts.dispatches += 1;
            if self.zeros.as_ref().iter().any(|b| *b != 0) {
                return Err(DeviceError::Batch(format!("{} leaves counters behind", d.kernel)));
            }
        }
        self.runs += 1;
        self.counts.commits += 1;
        let bytes = |&(slot, _): &(usize, usize)| {
            let (at, len) = self.offsets[slot];
            AlignedBytes::copy_of(&self.arena.as_ref()[at..at + len])
        };
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

    fn set_guards(&mut self, _: bool) {}

    fn guards_intact(&mut self) -> bool {
        let arena = self.arena.as_ref();
        self.offsets.iter().map(|(at, len)| at + len).all(|end| arena[end..end + GUARD].iter().all(|b| *b == POISON))
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn host_time(&self) -> HostTime {
        HostTime::default()
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
    let mut tests: Vec<Trial> = Op::NAMES.iter().map(|op| test(op)).collect();
    tests.push(Trial::test("emulated/tiny answers as on the CPU", || whole(&tiny()?)).with_ignored_flag(ignored));
    let library = || cases("matmul", true);
    tests.push(Trial::test("op/matmul/cuda-emulated with a library", library).with_ignored_flag(ignored));
    let qwen35 = || whole(&crate::qwen35::small_gguf(DType::Q4_0)?);
    let ticks = || several_ticks(&tiny()?);
    let name = "emulated/several ticks a submission give the tokens of one by one";
    tests.push(Trial::test(name, ticks).with_ignored_flag(ignored));
    tests.push(Trial::test("emulated/qwen35 answers as on the CPU", qwen35).with_ignored_flag(ignored));
    tests
}

/// Cases of an op in two threads: compiling the kernels takes the time. With a library only those of more than 8 rows, which
/// are all that may use it.
fn cases(op: &str, library: bool) -> Result<(), Failed> {
    let half = |half: usize| {
        let mut emulated = Emulated::new().ok_or("there is no C++ compiler (g++)")?;
        emulated.caps.lt = library;
        let is_wanted = |n: usize, case: &Case| n % 2 == half && (!library || case.batch.t > 8);
        crate::ops::some_cases(&mut emulated, op, 1, &is_wanted)
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
        while let Some(tokens) = engine.step()? {
            tokens.iter().for_each(|t| out[seqs.iter().position(|s| *s == t.seq).unwrap_or(0)].push(t.id));
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
