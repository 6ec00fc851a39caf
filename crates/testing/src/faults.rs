//! The errors that a user sees when a GPU fails, is lost, or has too little memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_engine::files::ModelFile;
use onetrip_engine::generate::{StopConditions, generate};
use onetrip_engine::model::{Model, ModelError};
use onetrip_engine::step::{Engine, StepError};
use onetrip_ir::batch::SampleParams;
use onetrip_ir::device::DeviceError;
use onetrip_ir::formats::DType;
use onetrip_wgpu::WgpuDevice;

use crate::harness::{Options, sequences};
use crate::wgpu::TINY;

type Test = fn() -> Result<(), Failed>;

/// The tests of this module, named `faults/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("a model larger than the memory is refused before anything is loaded, and by how much", memory),
        ("a cache larger than a binding is refused", cache),
        ("a device lost in the middle: the answer so far is kept", lost),
        ("an adapter without f16 and subgroups says so", slower),
    ];
    let trial = |(name, test): (&str, Test)| {
        Trial::ignorable_test(format!("faults/wgpu/{name}"), move || match onetrip_wgpu::adapters().is_empty() {
            true => Ok(Completion::ignored_with("not run: there is no adapter")),
            false => test().map(|()| Completion::Completed),
        })
    };
    tests.into_iter().map(trial).collect()
}

/// The embedded model on a device, and how often its loading was reported.
fn engine(o: onetrip_wgpu::Options, context: usize, cache: DType) -> (Result<Engine, StepError>, usize) {
    let reports = AtomicUsize::new(0);
    let loaded = (|| {
        let device = WgpuDevice::open(&o).map_err(|e| StepError::Input(e.to_string()))?;
        let options = Options { cache, ..Options::default().on_gpu() };
        let model = Model::new(ModelFile::from_bytes(TINY).map_err(ModelError::from)?, options.model())?;
        Engine::load(model, Box::new(device), context, 1, 1, &|_, _| _ = reports.fetch_add(1, Ordering::Relaxed))
    })();
    (loaded, reports.into_inner())
}

fn memory() -> Result<(), Failed> {
    const HAVE: u64 = 300_000;
    let o = onetrip_wgpu::Options { memory: Some(HAVE), ..Default::default() };
    let (loaded, reports) = engine(o, 256, DType::F16);
    let why = loaded.err().ok_or("it was loaded")?.to_string();
    let numbers: Vec<f64> = why.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [weights, caches, more, have, ..] = numbers[..] else { return Err(why.into()) };
    if reports > 0 || have != HAVE as f64 / 1e6 || ((weights + caches - have) - more).abs() > 0.025 {
        return Err(format!("{reports} reports, {why}").into());
    }
    // With this much memory it fits.
    let o = onetrip_wgpu::Options { memory: Some(HAVE + (more * 1e6) as u64 + 20_000), ..Default::default() };
    let (loaded, reports) = engine(o, 256, DType::F16);
    loaded?;
    if reports > 1 { Ok(()) } else { Err(format!("{reports} reports of loading").into()) }
}

fn cache() -> Result<(), Failed> {
    let o = onetrip_wgpu::Options { memory: Some(u64::MAX), ..Default::default() };
    let (loaded, reports) = engine(o, 100_000_000, DType::F32);
    match loaded.err().ok_or("it was loaded")? {
        StepError::Device(DeviceError::Binding { .. }) if reports == 0 => Ok(()),
        why => Err(format!("{reports} reports, {why}").into()),
    }
}

fn lost() -> Result<(), Failed> {
    let answer = |lost_at: Option<u64>| -> Result<_, Failed> {
        let mut engine = engine(onetrip_wgpu::Options { lost_at, ..Default::default() }, 256, DType::F16).0?;
        let seq = sequences(&mut engine, 1)?[0];
        let limits = StopConditions { n: 20, stop: vec![], ignore_end: true };
        let mut tokens = vec![];
        let never = AtomicBool::new(false);
        let each = &mut |token: &onetrip_engine::scheduler::TokenOutput, _: &str| tokens.push(token.id);
        let sample = SampleParams::default();
        let out = generate(&mut engine, None, seq, &[3, 4, 5], sample, &limits, &never, each);
        let again = engine.step().err().map(|e| e.to_string());
        Ok((out.err().map(|e| e.to_string()), tokens, again))
    };
    let (none, want, _) = answer(None)?;
    let (why, have, again) = answer(Some(10))?;
    let (why, again) = (why.ok_or("it went on")?, again.ok_or("a lost device goes on")?);
    // Ten runs were submitted, of which the last ones may not have been read.
    let is_kept = (5..=10).contains(&have.len()) && have[..] == want[..have.len()];
    if none.is_none() && is_kept && why.contains("was lost") && again.contains("was lost") {
        return Ok(());
    }
    Err(format!("{have:?} of {want:?}: {why}; then {again}").into())
}

fn slower() -> Result<(), Failed> {
    let lacks = |plain: bool| -> Result<_, Failed> {
        Ok(WgpuDevice::open(&onetrip_wgpu::Options { plain, ..Default::default() })?.lacks())
    };
    let adapter = onetrip_wgpu::adapters();
    let usual = |what: &str| adapter[0].missing.iter().any(|(name, _)| *name == what);
    let what: Vec<&str> = lacks(true)?.into_iter().map(|(what, _)| what).collect();
    let is_as_listed = lacks(false)?.iter().all(|(what, _)| usual(what));
    if what == ["f16", "subgroups"] && is_as_listed { Ok(()) } else { Err(format!("{what:?}").into()) }
}
