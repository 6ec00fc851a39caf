//! The plan snapshots under `plans/`: the plans of every listed model for every device, with the kernels that exist.
//! `cargo xtask plans` writes them, tests compare.

use std::fmt::Write as _;

use libtest_mimic::{Failed, Trial};
use onetrip_core::fuse::Fuse;
use onetrip_engine::model::{Model, ModelOptions};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Plan;
use onetrip_ir::target::RowBucket;

use crate::assumed::{LISTING_FILE, listing_text};
use crate::plans::{NAMED, published};
use crate::setup::{BATCHES, DEVICES, caps, folder, key, options, same};

/// A model whose plans are kept.
struct Kept {
    name: String,
    /// The model for a device.
    model: Box<dyn Fn(ModelOptions) -> Result<Model, Failed> + Send>,
}

fn kept() -> Vec<Kept> {
    let of = |model: crate::plans::Published| Kept {
        name: model.name.into(),
        model: Box::new(move |options| model.model_for(options)),
    };
    let mut all: Vec<Kept> = published().into_iter().map(of).collect();
    all.push(Kept { name: NAMED.name.into(), model: Box::new(|options| NAMED.model_for(options)) });
    all
}

impl Kept {
    fn file_name(&self, device: &str, batch: &str) -> String {
        format!("{}.{device}.{batch}.txt", self.name.replace(':', "-"))
    }

    /// The snapshots on a device: file and text of each.
    fn texts(&self, device: &str) -> Result<Vec<(String, String)>, Failed> {
        let mut model = (self.model)(options(device))?;
        let text = |(batch, bind): (&str, Bind)| -> Result<(String, String), Failed> {
            let plan = model.plan_with(key(bind), &Fuse::All, false)?;
            let plain = model.plan_with(key(bind), &Fuse::None, false)?;
            Ok((self.file_name(device, batch), text(&self.name, device, batch, bind, &plan, &plain)?))
        };
        BATCHES.into_iter().map(text).collect()
    }
}

/// The text of a snapshot.
fn text(model: &str, device: &str, batch: &str, bind: Bind, plan: &Plan, plain: &Plan) -> Result<String, Failed> {
    let Bind { t, s, l } = bind;
    let mut out = String::new();
    let (rows, sequences) = (RowBucket::of(t as usize).name(), RowBucket::of(s as usize).name());
    writeln!(out, "{model} on {device}, {batch}: rows {rows}, sequences {sequences}; sizes for T {t}, S {s}, L {l}")?;
    writeln!(out, "caps: {}", caps(plan.ctx.target))?;
    writeln!(out, "\n{}", plan.compact_table(Some(bind)))?;
    write!(out, "{}", plan.rules_text())?;
    writeln!(out, "\n{}", serde_json::to_string_pretty(&plan.ledger(bind))?)?;
    writeln!(out, "\nwithout rules: {} dispatches", plain.ledger(bind).dispatches)?;
    Ok(out)
}

/// Writes all snapshots again and removes those of models that are no longer kept; gives their names.
pub fn write_all() -> Result<Vec<String>, Failed> {
    let dir = folder();
    std::fs::create_dir_all(&dir)?;
    let mut all = vec![(LISTING_FILE.to_string(), listing_text()?)];
    for kept in kept() {
        for device in DEVICES {
            all.extend(kept.texts(device)?);
        }
    }
    for (name, text) in &all {
        std::fs::write(dir.join(name), text)?;
    }
    let written: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".txt") && !written.contains(&name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(written)
}

/// The tests: one for each model and device.
pub fn tests() -> Vec<Trial> {
    let mut tests = vec![];
    for device in DEVICES {
        for kept in kept() {
            let name = format!("plans/{} on {device}/are the committed ones", kept.name);
            let test = move || kept.texts(device)?.iter().try_for_each(|(file, text)| same(file, text));
            tests.push(Trial::test(name, test));
        }
    }
    tests.push(Trial::test("plans/no file is left of a model that is gone", no_strangers));
    tests
}

fn no_strangers() -> Result<(), Failed> {
    let mut known = vec![LISTING_FILE.to_string()];
    for kept in kept() {
        let names = DEVICES.iter().flat_map(|device| BATCHES.iter().map(move |(batch, _)| (device, batch)));
        known.extend(names.map(|(device, batch)| kept.file_name(device, batch)));
    }
    for entry in std::fs::read_dir(folder())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".txt") && !known.contains(&name) {
            return Err(format!("plans/{name} belongs to no model: run `cargo xtask plans`").into());
        }
    }
    Ok(())
}
