//! Running models in tests: an engine with chosen options, batches with chosen logits, comparison.

use std::path::PathBuf;

use libtest_mimic::Failed;
use onetrip_core::fuse::Fuse;
use onetrip_core::probe::Silent;
use onetrip_cpu::CpuDevice;
use onetrip_engine::files::ModelFile;
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::{Model, ModelOptions, PlanKey};
use onetrip_engine::scheduler::TokenOutput;
use onetrip_engine::step::Engine;
use onetrip_ir::batch::{SampleParams, StepBatch};
use onetrip_ir::device::Device;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, Target, WgslCaps};
use onetrip_wgpu::WgpuDevice;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Element type of the KV cache.
    pub cache: DType,
    /// Type to which matrices are converted at load; none keeps their own.
    pub weights: Option<DType>,
    /// Precision of activations.
    pub compute: Compute,
    /// The rules that rewrite the graph.
    pub fuse: Fuse,
    /// Instruction set of the CPU kernels.
    pub isa: Isa,
    /// Threads of the CPU device.
    pub threads: usize,
    /// The most positions of a sequence.
    pub context: usize,
    /// The most sequences at a time.
    pub sequences: usize,
    /// Run on the first wgpu adapter instead of the CPU.
    pub gpu: bool,
    /// On that adapter, a lower limit for the bytes of a weight in one binding than its own.
    pub binding_bytes: Option<u64>,
}

impl Default for Options {
    /// The command line's defaults for one text of 1024 tokens, but on one thread: a test verifies that more threads give
    /// bitwise the same results.
    fn default() -> Self {
        Options {
            cache: DType::F16,
            weights: None,
            compute: Compute::Int8,
            fuse: Fuse::All,
            isa: Isa::detect(),
            threads: 1,
            context: 1024,
            sequences: 1,
            gpu: false,
            binding_bytes: None,
        }
    }
}

impl Options {
    /// f32 for activations and caches, so that results differ only by the order of sums.
    pub fn f32() -> Options {
        Options { cache: DType::F32, compute: Compute::F32, ..Options::default() }
    }

    /// The same options with other rules.
    pub fn fused(&self, fuse: Fuse) -> Options {
        Options { fuse, ..self.clone() }
    }

    /// The same options on the first wgpu adapter.
    pub fn on_gpu(&self) -> Options {
        Options { gpu: true, ..self.clone() }
    }

    /// The options with which the model is compiled.
    pub fn model(&self) -> ModelOptions {
        let gpu = if self.gpu { onetrip_wgpu::adapters().first() } else { None };
        ModelOptions {
            cache: self.cache,
            weights: self.weights,
            compute: self.compute,
            fuse: self.fuse.clone(),
            target: gpu.map_or(Target::Cpu(self.isa), |a| {
                let binding_bytes = a.caps.binding_bytes.min(self.binding_bytes.unwrap_or(u64::MAX));
                Target::Wgsl(WgslCaps { binding_bytes, ..a.caps })
            }),
            device: if self.gpu { "wgpu" } else { "cpu" }.into(),
        }
    }
}

/// Loads a model on the CPU, or on a GPU if asked.
pub fn load(file: ModelFile, o: &Options) -> Result<Engine, Failed> {
    let device: Box<dyn Device> = match o.gpu {
        true => {
            let binding_bytes = o.binding_bytes;
            Box::new(WgpuDevice::open(&onetrip_wgpu::Options { binding_bytes, ..Default::default() })?)
        }
        false => Box::new(CpuDevice::with_isa(Some(o.threads), o.isa)?),
    };
    let model = Model::new(file, o.model())?;
    Ok(Engine::load(model, device, o.context, o.sequences, o.threads, &|_, _| {})?)
}

/// Reads the rows of logits of a batch.
pub fn run(engine: &mut Engine, batch: &mut StepBatch, want: Want) -> Result<Vec<Vec<f32>>, Failed> {
    let key = PlanKey::of(batch.ids.len(), batch.seqs.len(), want);
    let recorded = engine.record_with(key, &mut Silent)?;
    let (run, _) = engine.submit(&recorded, batch)?;
    let rows = if want == Want::AllLogits { batch.ids.len() } else { batch.seqs.len() };
    let out = engine.output(run, &recorded, rows)?;
    Ok(out.chunks_exact(engine.vocabulary()).map(<[f32]>::to_vec).collect())
}

/// New sequences.
pub fn sequences(engine: &mut Engine, n: usize) -> Result<Vec<usize>, Failed> {
    (0..n).map(|_| engine.scheduler().add(SampleParams::default()).ok_or("no room for a sequence".into())).collect()
}

/// Logits: `[sequence][step][token]`.
pub type Answers = Vec<Vec<Vec<f32>>>;

/// Teacher forcing: the logits after each text and then after each token of `then`, which follows all of them:
/// `[sequence][step]`. Steps have at most `chunk` rows in all, so a short text decodes while a long one is still read.
pub fn forced(
    engine: &mut Engine,
    seqs: &[usize],
    texts: &[&[u32]],
    then: &[u32],
    chunk: usize,
) -> Result<Answers, Failed> {
    for (seq, text) in seqs.iter().zip(texts) {
        engine.scheduler().set_tokens(*seq, text);
    }
    let mut answers: Answers = vec![vec![]; seqs.len()];
    while answers.iter().any(|a| a.len() <= then.len()) {
        let Some(mut batch) = engine.scheduler().next(chunk) else { return Err("nothing left to run".into()) };
        let rows = run(engine, &mut batch, Want::LastLogits)?;
        // The scheduler says which rows end a text. The token that it takes for chosen is replaced by the forced one
        // afterwards.
        let row_as_id = |row: usize| TokenOutput { seq: 0, id: row as u32, log_prob: None, top: vec![] };
        for end in engine.scheduler().take(&batch, row_as_id) {
            let at = seqs.iter().position(|x| *x == end.seq).ok_or("a sequence that nobody added")?;
            let mut tokens = engine.scheduler().tokens(end.seq).to_vec();
            tokens.pop();
            tokens.push(then.get(answers[at].len()).copied().unwrap_or(0));
            engine.scheduler().set_tokens(end.seq, &tokens);
            answers[at].push(rows[end.id as usize].clone());
        }
    }
    answers.iter_mut().for_each(|a| a.truncate(then.len() + 1));
    Ok(answers)
}

/// Default number of rows in a step.
pub const CHUNK: usize = 512;

/// True if an error is above the limit or NaN.
pub fn exceeds(error: f32, tolerance: f32) -> bool {
    error.is_nan() || error > tolerance
}

/// Largest difference between two rows of logits.
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    // `f32::max` would drop a NaN.
    let worse = |worst: f32, d: f32| if exceeds(d, worst) { d } else { worst };
    if a.len() != b.len() { f32::INFINITY } else { a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, worse) }
}

/// Largest difference between two answers of [`forced`].
pub fn differences(a: &Answers, b: &Answers) -> f32 {
    difference(
        &a.iter().flatten().flatten().copied().collect::<Vec<_>>(),
        &b.iter().flatten().flatten().copied().collect::<Vec<_>>(),
    )
}

/// Root mean square of the differences between two answers.
pub fn root_mean_square(a: &Answers, b: &Answers) -> f32 {
    let squares = a.iter().flatten().flatten().zip(b.iter().flatten().flatten()).map(|(a, b)| ((a - b) as f64).powi(2));
    let (sum, n) = squares.fold((0.0, 0usize), |(sum, n), x| (sum + x, n + 1));
    (sum / n.max(1) as f64).sqrt() as f32
}

/// Index of the largest logit.
pub fn best(row: &[f32]) -> usize {
    row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i)
}

/// The folder of fetched models.
pub fn models() -> Option<PathBuf> {
    onetrip_engine::switch::models_dir()
}
