//! Opening a model: file, tokenizer, plans, and (with progress) its weights on a device.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use onetrip_core::fuse::Fuse;
use onetrip_devices::{DeviceKind, Settings, host};
use onetrip_engine::config::ConfigError;
use onetrip_engine::files::{Kind, ModelFile};
use onetrip_engine::model::{Model, ModelError, ModelOptions};
use onetrip_engine::shape;
use onetrip_engine::step::{Engine, check_ticks};
use onetrip_engine::tokenizer::{Tokenizer, TokenizerError};
use onetrip_import as listing;
use onetrip_import::{Head, Listing, ListingOptions};
use onetrip_ir::plan::Plan;
use onetrip_ir::target::Compute;

use crate::support::device::{self, Asked};
use crate::support::fail::Fail;
use crate::support::machine;
use crate::support::options::{ModelArgs, PlanArgs, compute_name};
use crate::support::output::{note, stderr_is_terminal};
use crate::support::plans::Step;

/// Name of the model in the program.
pub const TINY_NAME: &str = "tiny";

/// On a cache line, so that weights can be used where they lie in the program.
#[repr(align(64))]
struct Aligned<T: ?Sized>(T);

/// The model that needs no download.
static TINY: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../../assets/tiny.gguf"));

/// A progress bar appears when loading takes longer than this.
const PATIENCE: Duration = Duration::from_millis(300);

/// What can be planned: a model, with or without weights, or the nodes that another engine ran.
pub enum Planned {
    /// A model: its page writes the graph.
    Model(Box<Model>),
    /// A listing is a graph already.
    Listing(Box<Listing>, ListingOptions),
}

impl Planned {
    /// Opens `tiny`, a file, a folder, a shape or a listing. No weight is loaded.
    pub fn open(args: &ModelArgs) -> Result<Planned, Fail> {
        let path = args.file.path();
        let with = |prefix: &str| path.to_str().filter(|name| name.starts_with(prefix));
        if let Some(name) = with(listing::PREFIX) {
            if args.weights.is_some() || args.cache.is_some() {
                let what = "a listing has types of its own: leave --weights and --cache out";
                return Err(Fail::Input(what.into()));
            }
            let listing = listing::open(name).map_err(|e| Fail::Input(e.to_string()))?;
            let ModelOptions { compute, target, device, .. } = options(args)?;
            return Ok(Planned::Listing(Box::new(listing), ListingOptions { compute, target, device }));
        }
        let file = match with(shape::PREFIX) {
            Some(name) => shape::open(name).map_err(|e| Fail::Input(e.to_string()))?,
            None => file(path)?,
        };
        Ok(Planned::Model(Box::new(model(file, args)?)))
    }

    /// The step (rows, sequences and context) that the flags ask for; of a recorded listing of another engine, the step that was
    /// recorded.
    pub fn step(&self, args: &PlanArgs) -> Result<Step, Fail> {
        match self {
            Planned::Model(_) => Step::new(args),
            Planned::Listing(listing, _) => Step::recorded(&listing.head, args),
        }
    }

    /// Architecture of a model, engine of a listing.
    pub fn origin(&self) -> String {
        match self {
            Planned::Model(model) => model.config.arch.clone(),
            Planned::Listing(listing, _) => {
                let Head { engine, model, date, .. } = &listing.head;
                format!("{model} by {engine}, {date}")
            }
        }
    }

    /// The plan of a step. Of a listing without rules: just as listed; with rules, our op `sample` is behind it.
    pub fn plan(&mut self, step: Step, fuse: &Fuse, assume: bool) -> Result<Plan, Fail> {
        match self {
            Planned::Model(model) => Ok(model.plan_with(step.key(), fuse, assume)?),
            Planned::Listing(listing, options) => Ok(listing.plan(options, fuse, assume, *fuse != Fuse::None)?),
        }
    }
}

/// Opens `tiny`, a file or a folder: what can be run.
pub fn file(path: &Path) -> Result<ModelFile, Fail> {
    let name = &*path.to_string_lossy();
    if name.starts_with(shape::PREFIX) {
        let what =
            format!("{name} is a shape without weights: `explain` and `count` take it; to run, give a model file");
        return Err(Fail::Input(what));
    }
    if name.starts_with(listing::PREFIX) {
        let what = format!(
            "{name} is a listing of nodes without weights: `explain` and `count` take it; to run, give a model file"
        );
        return Err(Fail::Input(what));
    }
    if name == TINY_NAME {
        return Ok(ModelFile::from_bytes(&TINY.0)?);
    }
    if !path.exists() && path.components().count() == 1 && path.extension().is_none() {
        let what = format!("no model `{name}`: give `tiny`, the path of a .gguf file, or a Hugging Face folder");
        return Err(Fail::Input(what));
    }
    if matches!(path.try_exists(), Ok(false)) {
        return Err(Fail::Input(format!("{name}: there is no such file: check the path of the model")));
    }
    Ok(ModelFile::open(path)?)
}

/// What the flags choose for a model.
fn options(args: &ModelArgs) -> Result<ModelOptions, Fail> {
    let (kind, compute) = (args.device().kind, args.compute());
    if !kind.has_tensor_cores() && matches!(compute, Compute::F16 | Compute::Bf16) {
        let name = compute_name(compute);
        return Err(Fail::Input(format!("--compute {name}: the CPU device has no tensor cores: give int8 or f32")));
    }
    Ok(ModelOptions {
        cache: args.cache(),
        weights: args.weights(),
        compute,
        fuse: args.fuse(),
        target: device::target(args.device())?,
        device: kind.name().to_string(),
    })
}

/// A model with its plans; no weight is loaded.
pub fn model(file: ModelFile, args: &ModelArgs) -> Result<Model, Fail> {
    Ok(Model::new(file, options(args)?)?)
}

/// What serves where there is no tokenizer.
pub const IDS_INSTEAD: &str = "give token ids with `onetrip run --tokens IDS`";

/// The tokenizer of a model file.
pub fn tokenizer(file: &ModelFile) -> Result<Tokenizer, Fail> {
    let built = match file.kind() {
        Kind::Gguf => Tokenizer::from_gguf(file.metadata()),
        // It has no configuration either, and that is what its user has to know first.
        Kind::Safetensors => return Err(ModelError::from(ConfigError::Bare { file: file.name().into() }).into()),
        Kind::HuggingFace => match file.tokenizer_json_path() {
            Some(path) => Tokenizer::from_json_file(path),
            None => {
                let what = format!("{}: there is no tokenizer.json; add it, or {IDS_INSTEAD}", file.name());
                return Err(Fail::Input(what));
            }
        },
    };
    if let Ok(tokenizer) = &built {
        tokenizer.notes().iter().for_each(|what| note(&format!("note: {}: {what}", file.name())));
    }
    built.map_err(|e| match e {
        // It names its file, which is in the folder.
        TokenizerError::File { .. } => Fail::Input(format!("{e}; fetch the file again, or {IDS_INSTEAD}")),
        _ => Fail::Input(format!("{}: {e}; convert the model again, or {IDS_INSTEAD}", file.name())),
    })
}

/// Threads of the CPU device.
pub fn threads(args: &ModelArgs) -> usize {
    args.threads.unwrap_or_else(host::cores)
}

/// Loads a model's weights and makes caches for `sequences` texts of at most `context` tokens.
pub fn engine(model: Model, args: &ModelArgs, context: usize, sequences: usize) -> Result<Engine, Fail> {
    let threads = threads(args);
    let asked = Asked { commit: args.commit, encode_thread: args.encode_thread };
    let settings = Settings { threads, ..device::settings(args.device())? };
    let device = device::open(args.device(), &settings, asked)?;
    if args.device().kind == DeviceKind::Cpu {
        machine::note_threads(threads);
    }
    let ticks = args.ticks_per_launch.unwrap_or(1);
    check_ticks(&*device, ticks)?;
    let start = Instant::now();
    let bar: Mutex<Option<ProgressBar>> = Mutex::new(None);
    let is_shown = stderr_is_terminal();
    let progress = |done: usize, total: usize| {
        if !is_shown || start.elapsed() < PATIENCE {
            return;
        }
        let Ok(mut bar) = bar.lock() else { return };
        let bar = bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(total as u64);
            if let Ok(style) = ProgressStyle::with_template("loading {wide_bar} {bytes}/{total_bytes}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_position(done as u64);
    };
    let engine = Engine::load(model, device, context, sequences, threads, &progress);
    if let Ok(Some(bar)) = bar.into_inner() {
        bar.finish_and_clear();
    }
    let mut engine = engine?;
    engine.set_ticks(ticks)?;
    let trained = engine.model().config.context;
    if context > trained {
        note(&format!("note: a context of {context} is above the {trained} positions that the model was trained for"));
    }
    Ok(engine)
}
