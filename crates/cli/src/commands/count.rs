//! `onetrip count`: the ledger of a plan, and gates that keep its counts from creeping up.

use std::path::{Path, PathBuf};

use clap::Args;
use onetrip_core::fuse::Fuse;
use onetrip_engine::renamed::{self, Renamed};
use onetrip_engine::switch;
use onetrip_ir::formats::DType;
use onetrip_ir::plan::Ledger;
use onetrip_ir::target::Compute;
use serde_json::{Map, Value, json};

use crate::support::fail::Fail;
use crate::support::load::Planned;
use crate::support::options::{self, ModelArgs, Phase, PlanArgs, path};
use crate::support::output::{Out, VERSION, ledger_text, note, versioned};
use crate::support::plans::Step;
use crate::support::positional::is_model;

/// Flags of `count`.
#[derive(Args)]
pub struct CountArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    plan: PlanArgs,
    /// For a device without kernels: refuse no rule, and count what is not written as one row
    #[arg(long)]
    assume: bool,
    /// Exit with 1 and name the row when a count is above the one in FILE. Model, step, device, precision and rules are
    /// FILE's where no flag says otherwise
    #[arg(long, value_parser = path(), value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Write the counts to FILE, for --gate. Rows that are taken out of it are not checked
    #[arg(long, value_parser = path(), value_name = "FILE", conflicts_with = "gate")]
    write_gate: Option<PathBuf>,
}

/// What a gate file holds.
struct Gate {
    file: String,
    content: Map<String, Value>,
}

/// Runs the command. No weight is loaded.
pub fn main(mut args: CountArgs, out: &Out) -> Result<(), Fail> {
    let gate = args.gate.as_deref().map(Gate::read).transpose()?;
    let is_named = args.model.file.model.is_some();
    if let Some(gate) = &gate {
        gate.complete(&mut args.model, &mut args.plan)?;
        args.assume |= gate.assume()?;
    }
    let mut model = Planned::open(&args.model).map_err(|fail| match (fail, &gate) {
        (Fail::Input(what), Some(gate)) if !is_named && gate.content.contains_key("model") => {
            Fail::Input(format!("the gate {} names its model: {what}, or give --model", gate.file))
        }
        (fail, _) => fail,
    })?;
    let step = model.step(&args.plan)?;
    let plan = model.plan(step, &args.model.fuse(), args.assume)?;
    step.note(plan.ctx.target);
    let ledger = plan.ledger(step.bind());
    if let Some(file) = &args.write_gate {
        if is_model(file.as_os_str()) {
            let (name, command) = (file.to_string_lossy(), "onetrip count MODEL.gguf --write-gate gate.json");
            return Err(Fail::Usage(format!("--write-gate {name}: that is a model: name the gate, as in `{command}`")));
        }
        let mut text = serde_json::to_string_pretty(&content(&args, step, &ledger)?).unwrap_or_default();
        text.push('\n');
        let (name, hint) = (file.to_string_lossy(), "name a file in a folder that you may write to");
        std::fs::write(file, text).map_err(|e| Fail::Input(format!("cannot write the gate {name}: {e}; {hint}")))?;
    }
    let above = gate.as_ref().map(|g| g.above(&ledger)).transpose()?;
    if out.json {
        let mut all = json!({ "model": args.model.file.name(), "device": args.model.device(), "step": step.json(), "ledger": ledger });
        if let Some(above) = &above {
            all["gate"] = json!({ "passed": above.is_empty(), "above": above });
        }
        out.object(&all)?;
    } else {
        out.line(&format!("{}: {}, device {}", args.model.file.name(), step.title(), args.model.device()))?;
        out.text(&ledger_text(&ledger))?;
    }
    match (gate, above) {
        (Some(gate), Some(above)) if !above.is_empty() => {
            let what = format!("{}: {}", gate.file, above.join("; "));
            Err(Fail::Work(format!("{what}; if that is meant, write the gate again with --write-gate")))
        }
        (Some(gate), _) if !out.json => out.line(&format!("gate         {}: no count is above it", gate.file)),
        _ => Ok(()),
    }
}

/// The counts of a gate. Those by op say where a count has grown; they are no limits of their own.
fn counts(l: &Ledger) -> [(&'static str, u64); 10] {
    [
        ("dispatches", l.dispatches),
        ("grid_syncs", l.grid_syncs),
        ("barriers", l.barriers),
        ("commits", l.commits),
        ("waits", l.waits),
        ("copies", l.copies),
        ("off_device", l.off_device),
        ("gaps", l.gaps),
        ("bytes_read", l.bytes_read),
        ("bytes_written", l.bytes_written),
    ]
}

/// Counts that are the same for every plan of one device, so that no plan can be above them: a gate may have them, yet none
/// is written with them.
const NO_LIMITS: [&str; 4] = ["grid_syncs", "commits", "waits", "copies"];
/// Keys that say what is counted.
const SETTING: [&str; 11] =
    ["model", "phase", "batch", "context", "prompt", "device", "assume", "weights", "compute", "cache", "fuse"];
const BY_OP: &str = "dispatches_by_op";
/// Version of a gate file. Files from before there was a version are read as this one.
const GATE_VERSION: u32 = 1;

fn content(args: &CountArgs, step: Step, ledger: &Ledger) -> Result<Value, Fail> {
    let (assume, args) = (args.assume, &args.model);
    let path = portable(args.file.path());
    let Some(model) = path.to_str() else {
        let name = path.to_string_lossy();
        return Err(Fail::Input(format!("{name}: a gate cannot name a model whose path is not UTF-8: rename it")));
    };
    let mut all = json!({ "model": model, "phase": step.phase.name(), "batch": step.batch, "context": step.context });
    if step.phase == Phase::Prefill {
        all["prompt"] = step.prompt.into();
    }
    // What is not the default.
    if *args.device() != options::DEFAULT_DEVICE {
        all["device"] = json!(args.device());
    }
    if let Some(dtype) = args.weights() {
        all["weights"] = dtype.name().into();
    }
    if args.compute() != Compute::Int8 {
        all["compute"] = options::compute_name(args.compute()).into();
    }
    if args.cache() != DType::F16 {
        all["cache"] = args.cache().name().into();
    }
    if args.fuse() != Fuse::All {
        all["fuse"] = options::fuse_name(&args.fuse()).into();
    }
    if assume {
        all["assume"] = true.into();
    }
    for (name, n) in counts(ledger).into_iter().filter(|(name, _)| !NO_LIMITS.contains(name)) {
        all[name] = n.into();
    }
    all[BY_OP] = json!(ledger.dispatches_by_op);
    Ok(versioned(GATE_VERSION, &all))
}

/// What a gate holds, with its keys and ops as they are called now. Values of settings are read as their flags are.
fn with_new_names(
    content: Map<String, Value>,
    keys: &[Renamed],
    ops: &[Renamed],
) -> Result<Map<String, Value>, String> {
    let mut content = renamed::new_keys(keys, content)?;
    if let Some(Value::Object(by_op)) = content.get_mut(BY_OP) {
        *by_op = renamed::new_keys(ops, std::mem::take(by_op))?;
    }
    Ok(content)
}

/// A model's path that means the same on every machine: one below the folder of fetched models is named from there, any other
/// that starts at the root by its last part alone.
fn portable(path: &Path) -> PathBuf {
    let below = switch::models_dir().and_then(|dir| path.strip_prefix(dir).ok().map(Path::to_path_buf));
    let listed = path.to_str().and_then(|name| name.strip_prefix(onetrip_import::PREFIX)).map(Path::new);
    match (below, listed) {
        (Some(below), _) => below,
        (None, Some(file)) if file.has_root() => {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("{}{name}", onetrip_import::PREFIX).into()
        }
        (None, None) if path.has_root() => path.file_name().map_or(path.to_path_buf(), PathBuf::from),
        (None, _) => path.to_path_buf(),
    }
}

impl Gate {
    fn read(path: &Path) -> Result<Gate, Fail> {
        let file = path.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| {
            Fail::Input(format!("cannot read the gate {file}: {e}; check the path, or write one with --write-gate"))
        })?;
        let content = serde_json::from_str(&text);
        let content = content.map_err(|e| {
            Fail::Input(format!("{file}: not the JSON object of a gate: {e}; write the gate again with --write-gate"))
        })?;
        let content = with_new_names(content, renamed::KEYS, renamed::OPS);
        let gate = Gate { content: content.map_err(|what| Fail::Input(format!("{file}: {what}")))?, file };
        gate.check()?;
        Ok(gate)
    }

    /// The version is known, every key is known, every row is a count, and there is a row: a gate with a misspelt row
    /// would hold nothing.
    fn check(&self) -> Result<(), Fail> {
        if let Some(version) = self.number(VERSION)?.filter(|version| *version != u64::from(GATE_VERSION)) {
            let what = format!("a gate of version {version}, and this program reads version {GATE_VERSION}");
            return Err(Fail::Input(format!("{}: {what}; write the gate again with --write-gate", self.file)));
        }
        let rows: Vec<&str> = counts(&Ledger::default()).iter().map(|(name, _)| *name).collect();
        let is_known = |key: &str| [VERSION, BY_OP].contains(&key) || SETTING.contains(&key) || rows.contains(&key);
        if let Some(key) = self.content.keys().find(|key| !is_known(key)) {
            let rows = rows.join(", ");
            let what = format!("{}: `{key}` is no key of a gate; rows are {rows}, {BY_OP}; correct it", self.file);
            return Err(Fail::Input(what));
        }
        let mut found = 0;
        for row in &rows {
            found += usize::from(self.number(row)?.is_some());
        }
        if found == 0 {
            let rows = rows.join(", ");
            return Err(Fail::Input(format!("{}: no row to check; give one of {rows}", self.file)));
        }
        match self.content.get(BY_OP) {
            None => Ok(()),
            Some(Value::Object(ops)) if ops.values().all(Value::is_u64) => Ok(()),
            Some(_) => Err(self.wrong(BY_OP, "an object of whole numbers by op")),
        }
    }

    /// A setting as its flag reads it.
    fn setting<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Fail> {
        let Some(value) = self.content.get(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.wrong(key, "text"))?;
        read(text).map(Some).map_err(|e| Fail::Input(format!("{}: `{key}` is `{text}`: {e}", self.file)))
    }

    fn wrong(&self, key: &str, want: &str) -> Fail {
        Fail::Input(format!("{}: `{key}` should be {want}; write the gate again with --write-gate", self.file))
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Fail> {
        let number = |v: &Value| v.as_u64().ok_or_else(|| self.wrong(key, "a whole number"));
        self.content.get(key).map(number).transpose()
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Fail> {
        let size = |n: u64| usize::try_from(n).ok().filter(|n| (1..=1 << 27).contains(n));
        self.number(key)?.map(|n| size(n).ok_or_else(|| self.wrong(key, "a sensible number of at least 1"))).transpose()
    }

    /// It is for a device without kernels.
    fn assume(&self) -> Result<bool, Fail> {
        match self.content.get("assume") {
            None => Ok(false),
            Some(Value::Bool(assume)) => Ok(*assume),
            Some(_) => Err(self.wrong("assume", "`true` or `false`")),
        }
    }

    /// Fills in what no flag says.
    fn complete(&self, model: &mut ModelArgs, plan: &mut PlanArgs) -> Result<(), Fail> {
        if let Some(name) = self.content.get("model") {
            let name = name.as_str().ok_or_else(|| self.wrong("model", "a name"))?;
            match &model.file.model {
                // A model below another folder is the same one.
                Some(given) if given.ends_with(name) => {}
                Some(given) => {
                    let given = given.to_string_lossy();
                    note(&format!("note: the gate {} was written for the model {name}, not for {given}", self.file));
                }
                None => {
                    let fetched = switch::models_dir().map(|dir| dir.join(name)).filter(|path| path.exists());
                    model.file.model = Some(fetched.unwrap_or(name.into()));
                }
            }
        }
        model.device = model.device.take().or(self.setting("device", options::device)?);
        model.weights = model.weights.or(self.setting("weights", options::weights)?);
        model.compute = model.compute.or(self.setting("compute", options::compute)?);
        model.cache = model.cache.or(self.setting("cache", options::cache)?);
        model.fuse = model.fuse.take().or(self.setting("fuse", options::fuse)?);
        if let (None, Some(phase)) = (plan.phase, self.content.get("phase")) {
            plan.phase = match phase.as_str() {
                Some("decode") => Some(Phase::Decode),
                Some("prefill") => Some(Phase::Prefill),
                _ => return Err(self.wrong("phase", "`decode` or `prefill`")),
            };
        }
        plan.batch = plan.batch.or(self.size("batch")?);
        plan.context = plan.context.or(self.size("context")?);
        plan.prompt = plan.prompt.or(self.size("prompt")?);
        Ok(())
    }

    /// The rows whose count is above the gate's.
    fn above(&self, ledger: &Ledger) -> Result<Vec<String>, Fail> {
        let mut above = vec![];
        for (name, have) in counts(ledger) {
            if let Some(limit) = self.number(name)?.filter(|limit| have > *limit) {
                let grown = if name == "dispatches" { self.grown(ledger) } else { String::new() };
                above.push(format!("{name} {have} is above the gate's {limit}{grown}"));
            }
        }
        Ok(above)
    }

    /// Ops with more dispatches than the gate has: ` (matmul 121 > 91)`.
    fn grown(&self, ledger: &Ledger) -> String {
        let Some(Value::Object(before)) = self.content.get("dispatches_by_op") else { return String::new() };
        let before = |op: &str| before.get(op).and_then(Value::as_u64).unwrap_or(0);
        let grown = ledger.dispatches_by_op.iter().filter(|(op, n)| **n > before(op));
        let grown: Vec<String> = grown.map(|(op, n)| format!("{op} {n} > {}", before(op))).collect();
        if grown.is_empty() { String::new() } else { format!(" ({})", grown.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_ops_of_a_gate_are_read_by_their_old_names() {
        let gate = |text: &str| serde_json::from_str::<Map<String, Value>>(text).expect("an object");
        let old = gate(r#"{"launches": 3, "dispatches_by_op": {"product": 2, "norm": 1}}"#);
        let new = gate(r#"{"dispatches": 3, "dispatches_by_op": {"matmul": 2, "norm": 1}}"#);
        let (keys, ops) = ([("launches", "dispatches")], [("product", "matmul")]);
        assert_eq!(with_new_names(old.clone(), &keys, &ops), Ok(new.clone()));
        assert_eq!(with_new_names(new, &keys, &ops), with_new_names(old, &keys, &ops));
        let both = gate(r#"{"dispatches": 3, "dispatches_by_op": {"product": 2, "matmul": 1}}"#);
        assert!(with_new_names(both, &keys, &ops).is_err_and(|e| e.contains("`product` and `matmul`")));
    }
}
